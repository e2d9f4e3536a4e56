"""Text answers: which tier, escalation, failures, deadline, cancellation."""

import asyncio
import json
import time as real_time

import pytest
from structlog.testing import capture_logs

from router.answering import TextAnswering, Tiers
from router.domain import AnsweredBy, Budget, Message, Reason, Role, StepOutcome, Tier, Tool
from router.errors import DeadlinePassed, RequestUnsatisfiable, TierUnavailable
from router.pipeline_testing import FixedEncoder, RealTime, ScriptedTime, asked, encoding, routing
from router.testing import sample_decision
from router.tiers import TierFailed
from slow_tier.completion import ToolCall
from slow_tier.json_schema import JsonSchema
from slow_tier.testing import ScriptedReply, ScriptedUpstream

COMPLEX = encoding(fast=0.1, slow=0.88)
BROKEN = ScriptedReply(status=400)
SCHEMA = JsonSchema(
    {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
)
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
        routing(FixedEncoder(), fast=fast.url, time=RealTime()) as router,
    ):
        with pytest.raises(DeadlinePassed):
            await router.decide(asked(deadline_s=real_time.monotonic() + 0.05))
        await fast.wait_for_disconnects(1)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fast_tier_that_hangs_is_replaced_while_there_is_time(stream) -> None:
    never = ScriptedReply(text="late", before=asyncio.Event())
    async with (
        ScriptedUpstream(never) as fast,
        ScriptedUpstream(ScriptedReply(text="Paris")) as slow,
        routing(
            FixedEncoder(),
            fast_tier={"timeout_s": 0.02, "text": {"url": fast.url}},
            slow=[slow.url],
            time=RealTime(),
        ) as router,
    ):
        request = asked(deadline_s=real_time.monotonic() + 30.0)
        if stream:
            outcome = [part async for part in router.decide_stream(request)][-1]
        else:
            outcome = await router.decide(request)
        await fast.wait_for_disconnects(1)
    assert (outcome.answered_by, outcome.text) == (AnsweredBy.SLOW_TIER, "Paris")
    assert outcome.degraded
    assert steps(outcome) == [
        (Tier.FAST, "fast", StepOutcome.FAST_TIER_FAILED),
        (Tier.SLOW, "slow-0", StepOutcome.ANSWERED),
    ]
    assert outcome.path[0].detail == "timeout"


async def test_an_answer_that_has_begun_is_not_bound_by_the_fast_tiers_limit() -> None:
    gate = asyncio.Event()
    begun = b'data: {"choices": [{"delta": {"content": "Pa"}}]}\n\n'
    ended = b'data: {"choices": [{"delta": {"content": "ris"}}]}\n\ndata: [DONE]\n\n'
    async with (
        ScriptedUpstream(ScriptedReply(chunks=[begun, ended], between=gate)) as fast,
        ScriptedUpstream() as slow,
        routing(
            FixedEncoder(),
            fast_tier={"timeout_s": 1.0, "text": {"url": fast.url}},
            slow=[slow.url],
            time=(time := ScriptedTime()),
        ) as router,
    ):
        texts = []
        async for part in router.decide_stream(asked()):
            if isinstance(part, str):
                texts.append(part)
                time.now_s += 10.0
                gate.set()
    assert texts == ["Pa", "ris"]


class RecordingTier:
    """A text tier that notes by when it has to begin, then fails."""

    models = ("m",)
    system_prompts = ("",)

    def __init__(self) -> None:
        self.start_by_s: list[float] = []

    async def generate(self, request, *, deadline_s, start_by_s, stream, on_attempt):
        self.start_by_s.append(start_by_s)
        raise TierFailed(upstream="", detail="down")
        yield

    def model_revision(self, completion) -> str:
        return completion.model


@pytest.mark.parametrize(
    ("left_s", "has_slow", "over_budget", "waits_s"),
    [
        (60.0, True, False, 20.0),
        (10.0, True, False, 5.0),
        (60.0, False, False, 60.0),
        (60.0, True, True, 60.0),
    ],
)
async def test_the_fast_tier_has_half_the_time_at_most_where_another_can_take_over(
    left_s, has_slow, over_budget, waits_s
) -> None:
    fast, slow, clock = RecordingTier(), RecordingTier(), ScriptedTime().clock()
    tiers = Tiers(
        fast=fast,
        slow=slow if has_slow else None,
        fast_timeout_s=20.0,
        output_tokens=16,
        over_budget=lambda *_: over_budget,
    )
    request = asked(deadline_s=clock.monotonic_s() + left_s)
    with pytest.raises(TierUnavailable):
        async for _ in TextAnswering(tiers, clock=clock).answer(
            request, sample_decision(), stream=False
        ):
            pass
    assert fast.start_by_s == [clock.monotonic_s() + waits_s]
    assert slow.start_by_s == ([request.deadline_s] if has_slow and not over_budget else [])


async def test_an_outage_that_a_failover_hides_is_logged_with_upstream_and_status() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(status=401)) as first,
        ScriptedUpstream(ScriptedReply(text="Paris")) as second,
        routing(FixedEncoder(default=COMPLEX), slow=[first.url, second.url]) as router,
    ):
        with capture_logs() as logged:
            outcome = await router.decide(asked())
    assert steps(outcome) == [
        (Tier.SLOW, "slow-0", StepOutcome.SLOW_TIER_FAILED),
        (Tier.SLOW, "slow-1", StepOutcome.ANSWERED),
    ]
    (entry,) = [entry for entry in logged if entry["event"] == "attempt_failed"]
    assert entry["log_level"] == "warning"
    assert (entry["upstream"], entry["attempt_reason"]) == ("slow-0", "status 401")


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
