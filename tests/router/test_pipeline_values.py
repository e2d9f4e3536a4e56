"""Namespaces, keys, stored forms: values the pipeline relies on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.calibration import RouteCalibration
from router.deciding import DecisionRules, TokenPrice
from router.domain import (
    Answer,
    AnsweredBy,
    Budget,
    DecideOutcome,
    Message,
    Question,
    QuestionType,
    Role,
    State,
    Tier,
    Tool,
)
from router.namespacing import (
    ModelRevisions,
    answer_key,
    asked_text,
    is_lone_prompt,
    namespace_of,
)
from router.pipeline_testing import asked
from router.policy import ThresholdPolicy
from router.stored_answer import dump_answer, dump_decision, load_answer, load_decision
from router.testing import sample_decision
from slow_tier.json_schema import JsonSchema

MODELS = ModelRevisions(encoder="e@1", text_models=("fast:small",), system_prompts=("Be kind.",))
SYSTEM = Message(role=Role.SYSTEM, content="Be brief.")
USER = asked().messages[0]
NOUL = Question(type=QuestionType.NOUL, instructions="It rains.")


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "other"},
        {"messages": (SYSTEM, USER)},
        {"tools": (Tool(name="t", description="", parameters={}),)},
        {"response_schema": JsonSchema({"type": "string"})},
        {"temperature": 0.5},
        {"max_output_tokens": 10},
        {"budget": Budget(min_quality=0.5)},
        {"questions": {"q": NOUL}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_an_answer_beside_its_words_is_another_namespace(change) -> None:
    assert namespace_of(asked(**change), MODELS) != namespace_of(asked(), MODELS)


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": "e@2"},
        {"text_models": ("fast:small@2",)},
        {"system_prompts": ("Be rude.",)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_model_is_another_namespace(change) -> None:
    assert namespace_of(asked(), replace(MODELS, **change)) != namespace_of(asked(), MODELS)


@pytest.mark.parametrize(
    "change",
    [
        {"decision_key": "k"},
        {"labels": {"team": "a"}},
        {"unit_key": "u"},
        {"deadline_s": 5.0},
        {"budget": Budget(max_cost_usd=1.0)},
        {"tools": ()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_change_an_answer_is_the_same_key(change) -> None:
    first, second = (
        answer_key(namespace_of(request, MODELS), request) for request in (asked(), asked(**change))
    )
    assert first == second


def test_the_order_of_turns_is_part_of_the_key() -> None:
    turns = (USER, Message(role=Role.USER, content="And of Spain?"))
    first, second = asked(messages=turns), asked(messages=turns[::-1])
    namespace = namespace_of(first, MODELS)
    assert answer_key(namespace, first) != answer_key(namespace, second)


def test_a_json_state_is_not_the_same_text() -> None:
    first, second = (
        asked(messages=(), state=State(text="[1]", is_json=is_json), questions={"q": NOUL})
        for is_json in (True, False)
    )
    namespace = namespace_of(first, MODELS)
    assert answer_key(namespace, first) != answer_key(namespace, second)


def test_what_is_asked_is_the_last_user_turn_or_the_state_with_its_questions() -> None:
    answer = Message(role=Role.ASSISTANT, content="Paris.")
    assert asked_text(asked(messages=(SYSTEM, USER, answer))) == USER.content
    typed = asked(messages=(), state=State(text="Wet.", is_json=False), questions={"q": NOUL})
    assert asked_text(typed) == "Wet.\nIt rains."


@pytest.mark.parametrize(
    ("change", "lone"),
    [
        ({}, True),
        ({"messages": (SYSTEM, USER)}, True),
        ({"tools": ()}, True),
        ({"messages": (USER, USER)}, False),
        ({"tools": (Tool(name="t", description="", parameters={}),)}, False),
        ({"messages": (), "state": State(text="x", is_json=False)}, False),
    ],
)
def test_only_one_user_turn_without_tools_is_a_lone_prompt(change, lone) -> None:
    assert is_lone_prompt(asked(**change)) is lone


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])), number=finite)
def test_a_stored_answer_comes_back_exactly(text, number) -> None:
    outcome = DecideOutcome(
        decision=replace(sample_decision(), strong_gain=number),
        answered_by=AnsweredBy.SLOW_TIER,
        text=text,
        answers={
            "choice": Answer(type=QuestionType.CHOICE, value="1", confidence=None),
            "score": Answer(
                type=QuestionType.SCORE, value=1.0, probabilities={"0": 0.25, "1": 0.75}
            ),
        },
        model_revision="m@1",
    )
    stored = load_answer(dump_answer(outcome, cacheable=True))
    assert stored.decision == outcome.decision
    assert (stored.answered_by, stored.cacheable) == (AnsweredBy.SLOW_TIER, True)
    assert stored.text == text
    assert stored.answers == outcome.answers
    assert isinstance(stored.answers["choice"].value, str)
    assert isinstance(stored.answers["score"].value, float)


def test_a_remembered_embedding_comes_back_bit_for_bit() -> None:
    vector = np.random.default_rng(7).normal(size=256).astype(np.float32)
    decision, found = load_decision(dump_decision(sample_decision(), vector))
    assert decision == sample_decision()
    np.testing.assert_array_equal(found, vector)
    assert load_decision(dump_decision(sample_decision(), None))[1] is None


def test_a_price_is_per_million_tokens() -> None:
    price = TokenPrice(input_usd_per_million_tokens=2.0, output_usd_per_million_tokens=8.0)
    assert price.cost_usd(input_tokens=500_000, output_tokens=250_000) == 3.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tiers": {"a": Tier.FAST}}, r"tiers: no tier for route\(s\) \['b'\]"),
        ({"tiers": {"a": Tier.TOOL, "b": Tier.TOOL}}, "tiers: every route is a tool"),
        ({"threshold": 1.5}, r"threshold: must be in \[0, 1\], got 1.5"),
        ({"threshold": float("nan")}, "threshold: must be in"),
    ],
)
def test_rules_that_could_not_decide_are_refused(change, message) -> None:
    values = {
        "calibration": RouteCalibration(routes=("a", "b")),
        "tiers": {"a": Tier.FAST, "b": Tier.SLOW},
        "policy": ThresholdPolicy(),
        "threshold": 0.6,
        "encoder_revision": "e",
        "config_revision": "c",
    }
    with pytest.raises(ValueError, match=message):
        DecisionRules(**{**values, **change})
