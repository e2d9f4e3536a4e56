"""Text answers: which tier, escalation, failures, deadline, cancellation."""

import asyncio
import json
import time as real_time

import pytest

from router.domain import AnsweredBy, Budget, Message, Reason, Role, StepOutcome, Tier, Tool
from router.errors import DeadlinePassed, RequestUnsatisfiable, TierUnavailable
from router.pipeline_testing import FixedEncoder, RealTime, asked, encoding, routing
from slow_tier.completion import ToolCall
from slow_tier.testing import ScriptedReply, ScriptedUpstream

COMPLEX = encoding(fast=0.1, slow=0.88)
BROKEN = ScriptedReply(status=400)
SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
VALID = ScriptedReply(text='{"city": "Paris"}')
INVALID = ScriptedReply(text='{"town": "Paris"}')
WEATHER = Tool(name="weather", description="Weather", parameters={"type": "object"})


def steps(outcome) -> list[tuple[Tier, str, StepOutcome]]:
    return [(step.tier, step.upstream, step.outcome) for step in outcome.path]


async def test_a_simple_request_is_answered_by_the_fast_tier() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as fast,
        ScriptedUpstream() as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        outcome = await router.decide(asked())
    assert outcome.answered_by is AnsweredBy.FAST_TIER
    assert (outcome.text, outcome.finish_reason) == ("Paris", "stop")
    assert (outcome.input_tokens, outcome.output_tokens) == (7, 5)
    assert steps(outcome) == [(Tier.FAST, "fast", StepOutcome.ANSWERED)]
    assert not outcome.degraded
    assert outcome.model_revision == "scripted"
    assert slow.requests == []
    body = fast.requests[0].body
    assert body["model"] == "small"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [(COMPLEX, Reason.CONFIDENT), (encoding(fast=0.5, slow=0.48), Reason.BELOW_THRESHOLD)],
)
async def test_a_complex_or_doubtful_request_is_answered_by_the_slow_tier(said, reason) -> None:
    async with (
        ScriptedUpstream() as fast,
        ScriptedUpstream(ScriptedReply(text="Paris")) as slow,
        routing(FixedEncoder(default=said), fast=fast.url, slow=[slow.url]) as router,
    ):
        outcome = await router.decide(asked())
    assert outcome.answered_by is AnsweredBy.SLOW_TIER
    assert outcome.decision.reason is reason
    assert steps(outcome) == [(Tier.SLOW, "slow-0", StepOutcome.ANSWERED)]
    assert outcome.timings.fast_ns == 0
    assert fast.requests == []


async def test_without_a_fast_tier_simple_text_goes_to_the_slow_tier() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as slow,
        routing(FixedEncoder(), slow=[slow.url]) as router,
    ):
        outcome = await router.decide(asked())
    assert outcome.answered_by is AnsweredBy.SLOW_TIER
    assert outcome.decision.tier is Tier.FAST
    assert steps(outcome) == [
        (Tier.FAST, "", StepOutcome.FAST_TIER_NOT_CONFIGURED),
        (Tier.SLOW, "slow-0", StepOutcome.ANSWERED),
    ]
    assert not outcome.degraded


async def test_a_fast_tier_that_fails_is_replaced_and_the_answer_says_so() -> None:
    async with (
        ScriptedUpstream(BROKEN) as fast,
        ScriptedUpstream(ScriptedReply(text="Paris")) as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        outcome = await router.decide(asked())
    assert outcome.answered_by is AnsweredBy.SLOW_TIER
    assert outcome.degraded
    assert steps(outcome) == [
        (Tier.FAST, "fast", StepOutcome.FAST_TIER_FAILED),
        (Tier.SLOW, "slow-0", StepOutcome.ANSWERED),
    ]
    assert outcome.path[0].detail == "rejected"


async def test_an_answer_of_the_fast_tier_that_breaks_the_schema_is_not_given() -> None:
    async with (
        ScriptedUpstream(INVALID) as fast,
        ScriptedUpstream(VALID) as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        outcome = await router.decide(asked(response_schema=SCHEMA))
    assert json.loads(outcome.text) == {"city": "Paris"}
    assert steps(outcome) == [
        (Tier.FAST, "fast", StepOutcome.INVALID_ANSWER),
        (Tier.SLOW, "slow-0", StepOutcome.ANSWERED),
    ]
    assert outcome.degraded


async def test_json_that_the_fast_tier_cut_short_is_not_given() -> None:
    cut = ScriptedReply(text='{"city": "Par', finish_reason="length")
    async with (
        ScriptedUpstream(cut) as fast,
        ScriptedUpstream(VALID) as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        outcome = await router.decide(asked(response_schema=SCHEMA))
    assert outcome.answered_by is AnsweredBy.SLOW_TIER
    assert outcome.path[0].outcome is StepOutcome.INVALID_ANSWER


async def test_the_slow_tier_is_asked_once_more_for_an_invalid_answer() -> None:
    async with (
        ScriptedUpstream(INVALID, VALID) as slow,
        routing(FixedEncoder(default=COMPLEX), slow=[slow.url]) as router,
    ):
        outcome = await router.decide(asked(response_schema=SCHEMA))
    assert json.loads(outcome.text) == {"city": "Paris"}
    assert steps(outcome) == [
        (Tier.SLOW, "slow-0", StepOutcome.INVALID_ANSWER),
        (Tier.SLOW, "slow-0", StepOutcome.ANSWERED),
    ]


async def test_a_schema_that_nobody_satisfies_is_the_callers_to_change() -> None:
    async with (
        ScriptedUpstream(then=INVALID) as slow,
        routing(FixedEncoder(default=COMPLEX), slow=[slow.url]) as router,
    ):
        with pytest.raises(RequestUnsatisfiable) as caught:
            await router.decide(asked(response_schema=SCHEMA))
    assert caught.value.field == "response_schema"
    assert len(slow.requests) == 2


async def test_a_schema_that_refers_outside_itself_is_refused() -> None:
    schema = {"$ref": "#/$defs/missing"}
    async with (
        ScriptedUpstream(then=VALID) as slow,
        routing(FixedEncoder(default=COMPLEX), slow=[slow.url]) as router,
    ):
        with pytest.raises(RequestUnsatisfiable, match="does not contain") as caught:
            await router.decide(asked(response_schema=schema))
    assert caught.value.field == "response_schema"


async def test_without_a_slow_tier_a_complex_request_names_the_setting() -> None:
    async with (
        ScriptedUpstream() as fast,
        routing(FixedEncoder(default=COMPLEX), fast=fast.url) as router,
    ):
        with pytest.raises(TierUnavailable, match="not configured") as caught:
            await router.decide(asked())
    assert caught.value.setting == "slow_tier.upstreams"
    assert fast.requests == []


async def test_the_fast_tier_does_not_stand_in_for_a_slow_tier_that_fails() -> None:
    async with (
        ScriptedUpstream() as fast,
        ScriptedUpstream(BROKEN) as slow,
        routing(FixedEncoder(default=COMPLEX), fast=fast.url, slow=[slow.url]) as router,
    ):
        with pytest.raises(TierUnavailable, match="slow-0: rejected") as caught:
            await router.decide(asked())
    assert caught.value.setting == "slow_tier.upstreams"
    assert fast.requests == []


async def test_when_the_fast_tier_fails_and_there_is_no_other_both_are_told() -> None:
    async with (
        ScriptedUpstream(BROKEN) as fast,
        routing(FixedEncoder(), fast=fast.url) as router,
    ):
        with pytest.raises(TierUnavailable, match="the fast tier failed and the slow tier"):
            await router.decide(asked())


async def test_a_second_upstream_answers_where_the_first_is_down() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(status=503)) as first,
        ScriptedUpstream(ScriptedReply(text="Paris")) as second,
        routing(FixedEncoder(default=COMPLEX), slow=[first.url, second.url]) as router,
    ):
        outcome = await router.decide(asked())
    assert steps(outcome) == [
        (Tier.SLOW, "slow-0", StepOutcome.SLOW_TIER_FAILED),
        (Tier.SLOW, "slow-1", StepOutcome.ANSWERED),
    ]
    assert outcome.path[0].detail == "unavailable"
    assert not outcome.degraded


async def test_over_budget_the_slow_tier_does_not_replace_a_fast_tier_that_fails() -> None:
    async with (
        ScriptedUpstream(BROKEN) as fast,
        ScriptedUpstream() as slow,
        routing(
            FixedEncoder(),
            fast=fast.url,
            slow=[
                {
                    "url": slow.url,
                    "model": "big",
                    "input_usd_per_million_tokens": 1e3,
                    "output_usd_per_million_tokens": 1e3,
                }
            ],
        ) as router,
    ):
        with pytest.raises(TierUnavailable) as caught:
            await router.decide(asked(budget=Budget(max_cost_usd=0.001)))
    assert caught.value.setting == "fast_tier.text"
    assert slow.requests == []


async def test_a_request_that_needs_a_tool_gets_the_slow_tiers_calls() -> None:
    call = ToolCall(id="c1", name="weather", arguments_json='{"city":"Paris"}')
    said = encoding(fast=0.1, slow=0.1, tool=0.8)
    async with (
        ScriptedUpstream() as fast,
        ScriptedUpstream(ScriptedReply(tool_calls=(call,), finish_reason="tool_calls")) as slow,
        routing(FixedEncoder(default=said), fast=fast.url, slow=[slow.url]) as router,
    ):
        outcome = await router.decide(asked(tools=(WEATHER,)))
    assert (outcome.decision.tier, outcome.decision.reason) == (Tier.TOOL, Reason.TOOL_FITS)
    assert outcome.answered_by is AnsweredBy.SLOW_TIER
    assert outcome.finish_reason == "tool_calls"
    (found,) = outcome.tool_calls
    assert (found.id, found.name, json.loads(found.arguments_json)) == (
        "c1",
        "weather",
        {"city": "Paris"},
    )
    assert slow.requests[0].body["tools"][0]["function"]["name"] == "weather"


async def test_the_fast_tier_is_not_offered_tools() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as fast,
        routing(FixedEncoder(), fast=fast.url) as router,
    ):
        await router.decide(asked(tools=(WEATHER,)))
    assert "tools" not in fast.requests[0].body


async def test_a_system_message_of_the_caller_replaces_the_configured_prompt() -> None:
    system = Message(role=Role.SYSTEM, content="Answer in one word.")
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as fast,
        routing(FixedEncoder(), fast=fast.url) as router,
    ):
        await router.decide(asked(messages=(system, asked().messages[0])))
    assert fast.requests[0].body["messages"][0] == {
        "role": "system",
        "content": "Answer in one word.",
    }


async def test_an_upstream_that_outlasts_the_deadline_ends_the_request() -> None:
    never = ScriptedReply(text="late", before=asyncio.Event())
    async with (
        ScriptedUpstream(never) as fast,
        ScriptedUpstream() as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url], time=RealTime()) as router,
    ):
        with pytest.raises(DeadlinePassed):
            await router.decide(asked(deadline_s=real_time.monotonic() + 0.05))
        await fast.wait_for_disconnects(1)
    assert slow.requests == []


@pytest.mark.parametrize("tier", ["fast", "slow"])
async def test_cancelling_the_request_hangs_up_on_the_upstream(tier) -> None:
    never = ScriptedReply(text="late", before=asyncio.Event())
    said = encoding() if tier == "fast" else COMPLEX
    async with ScriptedUpstream(never) as upstream:
        tiers = {"fast": upstream.url} if tier == "fast" else {"slow": [upstream.url]}
        async with routing(FixedEncoder(default=said), **tiers) as router:
            running = asyncio.ensure_future(router.decide(asked()))
            await upstream.wait_for_requests(1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await upstream.wait_for_disconnects(1)


async def test_errors_never_quote_what_was_asked() -> None:
    secret = "My password is swordfish"
    async with (
        ScriptedUpstream(BROKEN) as fast,
        ScriptedUpstream(BROKEN) as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        with pytest.raises(TierUnavailable) as caught:
            await router.decide(asked(secret))
    error: BaseException | None = caught.value
    while error is not None:
        assert "swordfish" not in repr(error)
        error = error.__cause__ or error.__context__
