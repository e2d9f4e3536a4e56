"""An answer is right for what it says, not for how it is dressed."""

import pytest

from router.labelling.grading import exact_score, schema_score
from router.labelling.journal import Answer
from router.labelling.judging import (
    BOTH_EMPTY,
    CONTRADICTED,
    FAST_BETTER,
    SLOW_BETTER,
    TIED,
    Verdict,
    combine,
    judged_without_asking,
    verdict_of,
)
from slow_tier.json_schema import JsonSchema

SCHEMA = JsonSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


def said(text: str, finish_reason: str = "stop") -> Answer:
    return Answer(
        text=text, finish_reason=finish_reason, prompt_tokens=None, completion_tokens=None
    )


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("Paris", "paris"),
        ("  **Paris.**\n", "Paris"),
        ("“Paris”", '"Paris"'),
        ("New   York", "new york"),
        ("1,000.0", "1000"),
        ("0.5", ".5"),
        ("-3", "-3.00"),
        ("\uff14\uff12", "42"),
        ("STRASSE", "straße"),
        ("!", "!"),
    ],
)
def test_dress_does_not_count(answer: str, right: str) -> None:
    assert exact_score(said(answer), ["something else", right]) == 1.0


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("3.5", "35"),
        ("-5", "5"),
        (".5", "5"),
        ("1,00", "100"),
        ("it is Paris", "Paris"),
        ("", "Paris"),
        ("C", "C++"),
    ],
)
def test_content_does(answer: str, right: str) -> None:
    assert exact_score(said(answer), [right]) == 0.0


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"n": 1}', 1.0),
        ('```json\n{"n": 1}\n```', 1.0),
        ('{"n": 1,}', 1.0),
        ('{"n": "1"}', 0.0),
        ('{"n": 1', 1.0),
        ('{"m": 1', 0.0),
        ("no", 0.0),
        ("", 0.0),
    ],
)
def test_a_schema_is_met_as_the_slow_tier_would_have_it(text: str, score: float) -> None:
    assert schema_score(said(text), SCHEMA) == score


@pytest.mark.parametrize("fast_first", Verdict)
@pytest.mark.parametrize("slow_first", Verdict)
def test_only_verdicts_that_agree_count(fast_first: Verdict, slow_first: Verdict) -> None:
    expected = {
        (Verdict.FIRST, Verdict.SECOND): FAST_BETTER,
        (Verdict.SECOND, Verdict.FIRST): SLOW_BETTER,
        (Verdict.TIE, Verdict.TIE): TIED,
    }
    found = combine(fast_first, slow_first)
    assert found == expected.get((fast_first, slow_first), CONTRADICTED)
    assert found.weak_score + found.strong_score == 1.0


def test_swapping_the_models_swaps_the_scores() -> None:
    for first in Verdict:
        for second in Verdict:
            one, other = combine(first, second), combine(second, first)
            assert (one.weak_score, one.weight) == (other.strong_score, other.weight)


def test_what_is_plain_needs_no_judge() -> None:
    assert judged_without_asking(said("a  b"), said("a b\n")) is TIED
    assert judged_without_asking(said(""), said("a")) is SLOW_BETTER
    assert judged_without_asking(said("a"), said(" ")) is FAST_BETTER
    assert judged_without_asking(said("a"), said("b")) is None


def test_two_empty_answers_are_both_wrong() -> None:
    assert judged_without_asking(said(""), said("\n")) is BOTH_EMPTY
    assert (BOTH_EMPTY.weak_score, BOTH_EMPTY.strong_score) == (0.0, 0.0)


@pytest.mark.parametrize("text", ["", "a", '{"verdict": "c"}', "[]", '{"verdict": "a"', "{}"])
def test_a_verdict_is_never_guessed(text: str) -> None:
    with pytest.raises(ValueError, match="no verdict, finish reason length"):
        verdict_of(said(text, "length"))
    assert verdict_of(said('{"verdict": "b"}')) is Verdict.SECOND


def test_a_long_run_of_marks_within_an_answer_takes_no_quadratic_time() -> None:
    # Minutes, if every mark of the run were tried as the start of the answer's end.
    marks = "!" * 1_000_000
    assert exact_score(said(f"a{marks}b"), ["b"]) == 0.0
    assert exact_score(said(f"b{marks}"), ["b"]) == 1.0
