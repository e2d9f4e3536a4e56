"""Typed questions: answers, the one retry, manual review."""

import asyncio
import math
import time as real_time

import pytest

from router.domain import (
    AnsweredBy,
    Budget,
    Question,
    QuestionType,
    State,
    StepOutcome,
)
from router.errors import DeadlinePassed, TierUnavailable
from router.pipeline_testing import FixedEncoder, RealTime, asked, routing
from slow_tier.completion import TokenLogprob
from slow_tier.testing import ScriptedReply, ScriptedUpstream

QUESTIONS = {
    "area": Question(
        type=QuestionType.CHOICE,
        instructions="Which department?",
        options=(("billing", "money"), ("support", "")),
    ),
    "mood": Question(
        type=QuestionType.SCORE,
        instructions="How angry?",
        options=(("0", "calm"), ("1", "cross"), ("2", "furious")),
    ),
    "urgent": Question(type=QuestionType.NOUL, instructions="It is urgent."),
}
VALID = '{"area": "billing", "mood": 2, "urgent": true}'
INVALID = '{"area": "sales", "mood": 2, "urgent": true}'


def typed(**values):
    defaults = {
        "messages": (),
        "state": State(text="I was charged twice, my card is blocked!", is_json=False),
        "questions": QUESTIONS,
    }
    return asked(**{**defaults, **values})


def outcomes(outcome) -> list[StepOutcome]:
    return [step.outcome for step in outcome.path]


async def test_the_slow_tier_answers_every_question_in_one_completion() -> None:
    async with (
        ScriptedUpstream() as fast,
        ScriptedUpstream(ScriptedReply(text=VALID)) as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        outcome = await router.decide(typed())
    assert outcome.answered_by is AnsweredBy.SLOW_TIER
    assert outcomes(outcome) == [StepOutcome.FAST_TIER_NOT_CONFIGURED, StepOutcome.ANSWERED]
    assert {name: answer.value for name, answer in outcome.answers.items()} == {
        "area": "billing",
        "mood": 2.0,
        "urgent": 1.0,
    }
    assert [answer.type.value for answer in outcome.answers.values()] == [
        "choice",
        "score",
        "noul",
    ]
    assert all(answer.confidence is None for answer in outcome.answers.values())
    assert outcome.text == ""
    assert fast.requests == []
    system, user = slow.requests[0].body["messages"]
    assert "billing" in system["content"]
    assert user["content"] == "I was charged twice, my card is blocked!"


async def test_probabilities_come_from_the_servers_log_probabilities() -> None:
    """P(true) = 3/4, so the highest probability is 3/4."""
    question = {"q": Question(type=QuestionType.NOUL, instructions="It is urgent.")}
    logprobs = (
        TokenLogprob(token='{"q": ', logprob=0.0, alternatives={'{"q": ': 0.0}),
        TokenLogprob(
            token="true",
            logprob=math.log(0.75),
            alternatives={"true": math.log(0.75), "false": math.log(0.25)},
        ),
        TokenLogprob(token="}", logprob=0.0, alternatives={"}": 0.0}),
    )
    reply = ScriptedReply(text='{"q": true}', token_logprobs=logprobs)
    async with (
        ScriptedUpstream(reply) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        answer = (await router.decide(typed(questions=question))).answers["q"]
    assert answer.value == pytest.approx(0.75)
    assert answer.probabilities == pytest.approx({"false": 0.25, "true": 0.75})
    assert answer.answer_confidence == pytest.approx(0.75)


@pytest.mark.parametrize(("given", "sent"), [(None, 0.0), (0.7, 0.7)])
async def test_questions_are_asked_greedily_unless_the_caller_says_otherwise(given, sent) -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text=VALID)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        await router.decide(typed(temperature=given))
    assert slow.requests[0].body["temperature"] == sent


async def test_label_probabilities_and_confidence_agree_also_from_the_cache() -> None:
    """The server sampled the label of probability 1/5."""
    question = {"q": QUESTIONS["area"]}
    odds = {"billing": math.log(0.2), "support": math.log(0.8)}
    logprobs = (
        TokenLogprob(token='{"q": "', logprob=0.0, alternatives={'{"q": "': 0.0}),
        TokenLogprob(token="billing", logprob=math.log(0.2), alternatives=odds),
        TokenLogprob(token='"}', logprob=0.0, alternatives={'"}': 0.0}),
    )
    reply = ScriptedReply(text='{"q": "billing"}', token_logprobs=logprobs)
    async with (
        ScriptedUpstream(reply) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        first = await router.decide(typed(questions=question))
        again = await router.decide(typed(questions=question))
    assert again.answered_by is AnsweredBy.EXACT_CACHE
    for answer in (first.answers["q"], again.answers["q"]):
        assert answer.value == "support"
        assert answer.probabilities == pytest.approx({"billing": 0.2, "support": 0.8})
        assert answer.answer_confidence == pytest.approx(0.8)


async def test_a_key_that_expired_is_no_reason_to_ask_again() -> None:
    async with (
        ScriptedUpstream(then=ScriptedReply(status=401)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        outcome = await router.decide(typed())
    assert outcome.answered_by is AnsweredBy.MANUAL_REVIEW
    assert len(slow.requests) == 1


async def test_an_invalid_answer_is_asked_for_once_more() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text=INVALID), ScriptedReply(text=VALID)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        outcome = await router.decide(typed())
    assert outcome.answered_by is AnsweredBy.SLOW_TIER
    assert outcomes(outcome)[1:] == [StepOutcome.INVALID_ANSWER, StepOutcome.ANSWERED]
    temperatures = [request.body["temperature"] for request in slow.requests]
    assert temperatures == [0.0, 0.5], "at 0 it would give the same answer again"


async def test_two_invalid_answers_end_in_manual_review_with_the_cause() -> None:
    async with (
        ScriptedUpstream(then=ScriptedReply(text=INVALID)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        outcome = await router.decide(typed())
        again = await router.decide(typed())
    assert outcome.answered_by is AnsweredBy.MANUAL_REVIEW
    assert "'area'" in outcome.manual_review_cause
    assert "sales" not in outcome.manual_review_cause
    assert outcome.answers == {}
    assert outcome.finish_reason == ""
    assert outcomes(outcome)[1:] == [StepOutcome.INVALID_ANSWER] * 2
    assert again.answered_by is AnsweredBy.MANUAL_REVIEW, "never stored"
    assert len(slow.requests) == 4


async def test_an_answer_cut_by_the_token_limit_is_an_invalid_one() -> None:
    cut = ScriptedReply(text='{"area": "bil', finish_reason="length")
    async with (
        ScriptedUpstream(cut, ScriptedReply(text=VALID)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        outcome = await router.decide(typed())
    assert outcomes(outcome)[1:] == [StepOutcome.INVALID_ANSWER, StepOutcome.ANSWERED]


async def test_a_server_that_knows_no_log_probabilities_is_asked_without() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(status=400), ScriptedReply(text=VALID)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        outcome = await router.decide(typed())
    assert outcome.answered_by is AnsweredBy.SLOW_TIER
    assert ["logprobs" in request.body for request in slow.requests] == [True, False]


async def test_a_slow_tier_that_is_down_ends_in_manual_review() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(status=503)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        outcome = await router.decide(typed())
    assert outcome.answered_by is AnsweredBy.MANUAL_REVIEW
    assert outcome.manual_review_cause == "slow tier: slow-0: unavailable"
    assert outcomes(outcome)[1:] == [StepOutcome.SLOW_TIER_FAILED]


async def test_without_a_slow_tier_the_setting_is_named() -> None:
    async with routing(FixedEncoder()) as router:
        with pytest.raises(TierUnavailable) as caught:
            await router.decide(typed())
    assert caught.value.setting == "slow_tier.upstreams"


async def test_over_budget_ends_in_manual_review() -> None:
    async with ScriptedUpstream() as slow:
        priced = {
            "url": slow.url,
            "model": "big",
            "input_usd_per_million_tokens": 1e3,
            "output_usd_per_million_tokens": 1e3,
        }
        async with routing(FixedEncoder(), slow=[priced]) as router:
            outcome = await router.decide(typed(budget=Budget(max_cost_usd=0.001)))
    assert outcome.answered_by is AnsweredBy.MANUAL_REVIEW
    assert "budget.max_cost_usd" in outcome.manual_review_cause
    assert slow.requests == []


async def test_the_deadline_ends_the_request_instead_of_a_review() -> None:
    never = ScriptedReply(text=VALID, before=asyncio.Event())
    async with (
        ScriptedUpstream(never) as slow,
        routing(FixedEncoder(), slow=[slow.url], time=RealTime()) as router,
    ):
        with pytest.raises(DeadlinePassed):
            await router.decide(typed(deadline_s=real_time.monotonic() + 0.05))


async def test_typed_answers_come_back_from_the_exact_cache_whole() -> None:
    """A state may say "my": it is the data, part of the key, and not a volatile prompt."""
    async with (
        ScriptedUpstream(ScriptedReply(text=VALID)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        first = await router.decide(typed())
        again = await router.decide(typed())
    assert again.answered_by is AnsweredBy.EXACT_CACHE
    assert again.answers == first.answers


async def test_another_state_is_another_request_however_similar_it_is() -> None:
    other = State(text="I was charged twice, my card is not blocked!", is_json=False)
    async with (
        ScriptedUpstream(then=ScriptedReply(text=VALID)) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        await router.decide(typed())
        second = await router.decide(typed(state=other))
    assert second.answered_by is AnsweredBy.SLOW_TIER


async def test_an_improbable_answer_is_not_stored() -> None:
    question = {"q": Question(type=QuestionType.NOUL, instructions="It is urgent.")}
    halves = {"true": math.log(0.55), "false": math.log(0.45)}
    logprobs = (
        TokenLogprob(token='{"q": ', logprob=0.0, alternatives={'{"q": ': 0.0}),
        TokenLogprob(token="true", logprob=math.log(0.55), alternatives=halves),
        TokenLogprob(token="}", logprob=0.0, alternatives={"}": 0.0}),
    )
    reply = ScriptedReply(text='{"q": true}', token_logprobs=logprobs)
    async with (
        ScriptedUpstream(then=reply) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        first = await router.decide(typed(questions=question))
        second = await router.decide(typed(questions=question))
    assert first.answers["q"].answer_confidence == pytest.approx(0.55)
    assert second.answered_by is AnsweredBy.SLOW_TIER
