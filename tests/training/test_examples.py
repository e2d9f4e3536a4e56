"""Training rows say what the data sets say, and no more."""

import math
from pathlib import Path

import pytest

from router.training.example import FAST, SLOW, TOOL, Example
from router.training.examples import all_examples, is_ordinary, ordinary_texts


@pytest.fixture(scope="module")
def examples(tiny_data: Path) -> list[Example]:
    return all_examples(tiny_data, seed=0)


@pytest.mark.parametrize(
    ("source", "ordinary"),
    [
        ("clinc150", True),
        ("lengths:routellm_gsm8k", True),
        ("belle_zh", False),
        ("lengths:belle_zh", False),
        ("lengths:arena_hard", False),
    ],
)
def test_undeclared_and_measured_texts_do_not_tell_what_is_ordinary(
    source: str, ordinary: bool
) -> None:
    assert is_ordinary(Example(text="t", source=source, split="train")) is ordinary


def test_ordinary_texts_of_train_and_dev_are_apart(
    tiny_data: Path, examples: list[Example]
) -> None:
    train = ordinary_texts(tiny_data, examples, "train")
    dev = ordinary_texts(tiny_data, examples, "dev")
    exams = {e.text for e in examples if e.source == "routellm_mmlu" and e.split == "dev"}
    assert exams <= set(dev)
    assert not exams & set(train)


def test_exam_labels_lean_to_their_tasks_mean_in_training_alone(examples: list[Example]) -> None:
    exams = [e for e in examples if e.source == "routellm_mmlu" and e.tools is None]
    for example in exams:
        assert example.routes == (FAST if example.p_fast >= 0.5 else SLOW)
        if example.split == "dev":
            assert example.p_fast in {0.0, 1.0}
        else:
            assert 0.0 < example.p_fast < 1.0


def test_intents_name_their_route_and_what_is_outside_of_all_goes_slow(
    examples: list[Example],
) -> None:
    routes = {
        (e.source, e.text.split()[0]): e.routes
        for e in examples
        if e.source.startswith("clinc") and e.tools is None
    }
    assert routes == {
        ("clinc150", "hello"): FAST,
        ("clinc150", "set"): TOOL,
        ("clinc150_oos", "how"): SLOW,
    }
    talk = {e.temperature for e in examples if e.text.startswith("hello friend")}
    assert talk == {0.7}
    assert all(math.isnan(e.temperature) for e in examples if e.source == "clinc150_oos")
