"""Composing text is linear whatever a caller sends."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import composition
from cache.composition import MAX_COMBINING_RUN, compose


@given(st.text(max_size=60))
def test_ordinary_text_is_composed(text: str) -> None:
    assert compose(text) in {unicodedata.normalize("NFC", text), text}
    if all(unicodedata.combining(c) == 0 for c in text):
        assert compose(text) == unicodedata.normalize("NFC", text)


def test_both_spellings_of_a_letter_become_one() -> None:
    assert compose("e\u0301") == compose("\u00e9") == "\u00e9"


@pytest.mark.parametrize("run", [MAX_COMBINING_RUN, MAX_COMBINING_RUN + 1])
@pytest.mark.parametrize(("before", "after"), [("", ""), ("a", "b"), ("", "b"), ("a", "")])
def test_only_a_run_over_the_limit_is_left_alone(run: int, before: str, after: str) -> None:
    """Marks below (class 220) sort before marks above (class 230), so order shows composing."""
    text = before + "\u0300" * (run - 1) + "\u0316" + after
    expected = text if run > MAX_COMBINING_RUN else unicodedata.normalize("NFC", text)
    assert compose(text) == expected
    assert (compose(text) == text) is (run > MAX_COMBINING_RUN)


def test_lone_surrogates_are_no_error() -> None:
    assert compose("\ud800e\u0301") == "\ud800\u00e9"


def test_every_combining_mark_of_this_unicode_version_is_known() -> None:
    marks = [code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    assert min(marks) >= composition._FIRST
    assert max(marks) <= composition._LAST
