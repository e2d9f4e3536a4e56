"""Made-up texts are strange, and the same for the same seed."""

import base64
import random

import pytest

from router.evaluation.strange_texts import base64_blobs, gibberish, log_dumps, oversize


@pytest.mark.parametrize("make", [gibberish, base64_blobs, log_dumps])
def test_a_seed_makes_the_same_texts_and_no_text_twice(make) -> None:
    once, again = (make(40, random.Random(3)) for _ in range(2))
    assert once == again
    assert len(set(once)) == 40


def test_blobs_are_valid_base64() -> None:
    for blob in base64_blobs(20, random.Random(0)):
        assert 30 <= len(base64.b64decode(blob, validate=True)) <= 600


def test_log_lines_start_with_a_time_and_a_level() -> None:
    for line in log_dumps(1, random.Random(0))[0].splitlines():
        assert line.split()[0].endswith("Z")
        assert line.split()[1] in {"INFO", "WARN", "ERROR", "DEBUG"}


def test_oversize_texts_reach_the_wanted_length_from_ordinary_ones() -> None:
    texts = oversize(3, ["abc", "defg", "hi"], 50)
    assert all(len(text) >= 50 for text in texts)
    assert all(part in {"abc", "defg", "hi"} for text in texts for part in text.split("\n\n"))
