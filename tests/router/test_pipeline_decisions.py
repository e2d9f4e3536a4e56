"""Deciding: masks, reasons, budget, deadline, the memory of decisions."""

import asyncio
from dataclasses import replace

import pytest

from router.domain import (
    Budget,
    Question,
    QuestionType,
    Reason,
    RouteOutcome,
    State,
    StepOutcome,
    Tier,
    Tool,
)
from router.errors import DeadlinePassed, InvalidRequest, RequestUnsatisfiable
from router.pipeline_testing import FixedEncoder, ScriptedTime, asked, encoding, routing
from slow_tier.testing import ScriptedReply, ScriptedUpstream

TOOL = Tool(name="weather", description="Weather of a city", parameters={"type": "object"})
NEEDS_TOOL = encoding(fast=0.2, slow=0.1, tool=0.7)
PRICED = {
    "name": "priced",
    "model": "big",
    "input_usd_per_million_tokens": 10.0,
    "output_usd_per_million_tokens": 20.0,
}


async def test_route_tells_where_a_request_goes_without_calling_anybody() -> None:
    async with (
        ScriptedUpstream() as upstream,
        routing(FixedEncoder(), fast=upstream.url, slow=[upstream.url]) as router,
    ):
        outcome = await router.route(asked())
    decision = outcome.decision
    assert (decision.tier, decision.reason, decision.route) == (Tier.FAST, Reason.CONFIDENT, "fast")
    assert decision.probabilities == pytest.approx({"fast": 0.9, "slow": 0.08, "tool": 0.02})
    assert decision.threshold == 0.6
    assert decision.sampling_temperature == 0.5
    assert (decision.expected_output_tokens, decision.expected_output_tokens_p95) == (100, 400)
    assert decision.decided_at_s == 1_000.0
    assert decision.encoder_revision == "fixed@0"
    assert (outcome.timings.queue_ns, outcome.timings.encode_ns) == (3, 5)
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("tools", "routes", "tier"),
    [
        (None, {"fast", "slow", "tool"}, Tier.TOOL),
        ((), {"fast", "slow"}, Tier.FAST),
        ((TOOL,), {"fast", "slow", "tool"}, Tier.TOOL),
    ],
)
async def test_route_rules_tools_out_only_where_there_are_none(tools, routes, tier) -> None:
    async with routing(FixedEncoder(default=NEEDS_TOOL)) as router:
        decision = (await router.route(asked(tools=tools))).decision
    assert set(decision.probabilities) == routes
    assert decision.tier is tier
    assert sum(decision.probabilities.values()) == pytest.approx(1.0)


async def test_decide_rules_tools_out_where_they_are_unknown() -> None:
    """0.2 : 0.1 becomes 2/3 : 1/3, over the threshold."""
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as upstream,
        routing(FixedEncoder(default=NEEDS_TOOL), fast=upstream.url) as router,
    ):
        decision = (await router.decide(asked(tools=None))).decision
    assert decision.probabilities == pytest.approx({"fast": 2 / 3, "slow": 1 / 3})
    assert decision.tier is Tier.FAST


async def test_a_callers_temperature_replaces_the_predicted_one() -> None:
    async with (
        ScriptedUpstream(then=ScriptedReply(text="Paris")) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        predicted = await router.decide(asked())
        chosen = await router.decide(asked(temperature=0.0))
    assert predicted.decision.sampling_temperature == 0.5
    assert chosen.decision.sampling_temperature == 0.0
    assert [r.body["temperature"] for r in upstream.requests] == [0.5, 0.0]


async def test_the_callers_limit_cuts_answers_and_the_prediction_never_does() -> None:
    async with (
        ScriptedUpstream(then=ScriptedReply(text="Paris")) as upstream,
        routing(FixedEncoder(), fast=upstream.url, limits={"output_tokens": 999}) as router,
    ):
        await router.decide(asked())
        await router.decide(asked(max_output_tokens=5))
    assert [r.body["max_tokens"] for r in upstream.requests] == [999, 5]


async def test_a_decision_key_returns_the_earlier_decision_without_the_encoder() -> None:
    time, encoder = ScriptedTime(), FixedEncoder()
    async with routing(encoder, time=time) as router:
        first = await router.route(asked(decision_key="order-1"))
        time.now_s += 29.0
        again = await router.route(asked(decision_key="order-1"))
        time.now_s += 1.5
        later = await router.route(asked(decision_key="order-1"))
    assert again.decision == first.decision
    assert (again.timings.queue_ns, again.timings.encode_ns) == (0, 0)
    assert later.decision.decision_id != first.decision.decision_id
    assert len(encoder.inputs) == 2


@pytest.mark.parametrize(
    "other",
    [
        asked("Something else?", decision_key="k"),
        asked(decision_key="k", tenant="other"),
        asked(decision_key="k2"),
        asked(decision_key="k", tools=()),
        asked(decision_key="k", budget=Budget(min_quality=0.9)),
    ],
)
async def test_a_decision_is_recalled_for_exactly_the_same_request_only(other) -> None:
    encoder = FixedEncoder()
    async with routing(encoder) as router:
        await router.route(asked(decision_key="k"))
        await router.route(other)
    assert len(encoder.inputs) == 2


async def test_route_and_decide_do_not_share_remembered_decisions() -> None:
    """They rule out different routes, so their probabilities differ."""
    encoder = FixedEncoder()
    async with (
        ScriptedUpstream(then=ScriptedReply(text="Paris")) as upstream,
        routing(encoder, fast=upstream.url, cache={"enabled": False}) as router,
    ):
        routed = await router.route(asked(decision_key="k"))
        decided = await router.decide(asked(decision_key="k"))
        again = await router.decide(asked(decision_key="k"))
    assert set(routed.decision.probabilities) == {"fast", "slow", "tool"}
    assert set(decided.decision.probabilities) == {"fast", "slow"}
    assert again.decision == decided.decision
    assert len(encoder.inputs) == 2


async def test_a_cost_limit_without_prices_names_field_and_setting() -> None:
    encoder = FixedEncoder()
    async with (
        ScriptedUpstream() as upstream,
        routing(encoder, slow=[upstream.url]) as router,
    ):
        with pytest.raises(RequestUnsatisfiable, match="input_usd_per_million_tokens") as caught:
            await router.route(asked(budget=Budget(max_cost_usd=0.01)))
    assert caught.value.field == "budget.max_cost_usd"
    assert encoder.inputs == []


@pytest.mark.parametrize(
    ("limit_usd", "tier", "reason"),
    [(0.0021, Tier.SLOW, Reason.CONFIDENT), (0.0020, Tier.FAST, Reason.BUDGET)],
)
async def test_a_cost_limit_is_held_against_the_expected_cost(limit_usd, tier, reason) -> None:
    """10 tokens at 10 plus 100 tokens at 20 US dollars a million: 0.0021."""
    encoder = FixedEncoder(default=encoding(fast=0.1, slow=0.88))
    async with (
        ScriptedUpstream() as upstream,
        routing(encoder, slow=[{**PRICED, "url": upstream.url}]) as router,
    ):
        decision = (await router.route(asked(budget=Budget(max_cost_usd=limit_usd)))).decision
    assert (decision.tier, decision.reason) == (tier, reason)


async def test_over_budget_without_a_fast_tier_nobody_may_answer() -> None:
    encoder = FixedEncoder(default=encoding(fast=0.1, slow=0.88))
    async with (
        ScriptedUpstream() as upstream,
        routing(encoder, slow=[{**PRICED, "url": upstream.url}]) as router,
    ):
        with pytest.raises(RequestUnsatisfiable, match=r"fast_tier\.text") as caught:
            await router.decide(asked(budget=Budget(max_cost_usd=0.001)))
    assert caught.value.field == "budget.max_cost_usd"
    assert upstream.requests == []


async def test_min_quality_moves_the_decision() -> None:
    async with routing(FixedEncoder()) as router:
        decision = (await router.route(asked(budget=Budget(min_quality=0.95)))).decision
    assert (decision.tier, decision.reason) == (Tier.SLOW, Reason.BUDGET)
    assert decision.threshold == 0.95


@pytest.mark.parametrize("rpc", ["route", "decide"])
async def test_a_deadline_that_is_past_stops_everything(rpc) -> None:
    encoder = FixedEncoder()
    async with routing(encoder, time=ScriptedTime(now_s=1_000.0)) as router:
        with pytest.raises(DeadlinePassed):
            await getattr(router, rpc)(asked(deadline_s=1_000.0))
    assert encoder.inputs == []


async def test_a_deadline_that_passes_in_the_encoder_calls_no_tier() -> None:
    time, encoder = ScriptedTime(now_s=1_000.0), FixedEncoder(gate=asyncio.Event())
    async with (
        ScriptedUpstream() as upstream,
        routing(encoder, time=time, fast=upstream.url, slow=[upstream.url]) as router,
    ):
        running = asyncio.ensure_future(router.decide(asked(deadline_s=1_001.0)))
        await asyncio.sleep(0)
        time.now_s = 1_001.0
        encoder.gate.set()
        with pytest.raises(DeadlinePassed):
            await running
    assert upstream.requests == []


async def test_a_batch_isolates_the_item_that_fails() -> None:
    async with routing(FixedEncoder(), time=ScriptedTime(now_s=1_000.0)) as router:
        results = await router.route_many([asked("a"), asked("b", deadline_s=1.0), asked("c")])
    assert [type(result) for result in results] == [RouteOutcome, DeadlinePassed, RouteOutcome]


async def test_an_error_of_the_router_reaches_the_caller_of_a_batch_item() -> None:
    encoder = FixedEncoder(error=InvalidRequest("too odd", field="prompt"))
    async with routing(encoder) as router:
        (result,) = await router.route_many([asked()])
    assert isinstance(result, InvalidRequest)


async def test_a_bug_fails_the_whole_batch() -> None:
    async with routing(FixedEncoder(error=ZeroDivisionError())) as router:
        with pytest.raises(ZeroDivisionError):
            await router.route_many([asked("a"), asked("b")])


@pytest.mark.parametrize(
    ("doubt", "reason"),
    [
        ({"truncated": True}, Reason.INPUT_TRUNCATED),
        ({"language_known": False}, Reason.ABSTAINED_LANGUAGE),
        ({"in_distribution": False}, Reason.ABSTAINED_OUT_OF_DISTRIBUTION),
    ],
)
async def test_a_doubtful_reading_goes_to_the_slow_tier(doubt, reason) -> None:
    async with routing(FixedEncoder(default=replace(encoding(), **doubt))) as router:
        decision = (await router.route(asked())).decision
    assert (decision.tier, decision.reason) == (Tier.SLOW, reason)


async def test_little_time_left_goes_to_the_fast_tier() -> None:
    encoder = FixedEncoder(default=encoding(fast=0.1, slow=0.88))
    async with routing(
        encoder, time=ScriptedTime(now_s=1_000.0), policy={"slow_floor_s": 2.0}
    ) as router:
        decision = (await router.route(asked(deadline_s=1_001.0))).decision
    assert (decision.tier, decision.reason) == (Tier.FAST, Reason.DEADLINE)


async def test_what_the_lack_of_time_decided_is_not_kept_under_a_decision_key() -> None:
    encoder = FixedEncoder(default=encoding(fast=0.1, slow=0.88))
    async with routing(
        encoder, time=ScriptedTime(now_s=1_000.0), policy={"slow_floor_s": 2.0}
    ) as router:
        hurried = await router.route(asked(decision_key="k", deadline_s=1_001.0))
        patient = await router.route(asked(decision_key="k", deadline_s=1_060.0))
        again = await router.route(asked(decision_key="k", deadline_s=1_060.0))
    assert hurried.decision.reason is Reason.DEADLINE
    assert (patient.decision.tier, patient.decision.reason) == (Tier.SLOW, Reason.CONFIDENT)
    assert again.decision == patient.decision


async def test_a_large_batch_lets_others_in_between_its_items() -> None:
    """256 items never have more than eight in the encoder's queue at once."""

    class Counting(FixedEncoder):
        waiting = most = 0

        async def encode(self, item, *, deadline_s):
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            await asyncio.sleep(0)
            self.waiting -= 1
            return await super().encode(item, deadline_s=deadline_s)

    encoder = Counting()
    async with routing(encoder) as router:
        results = await router.route_many([asked(str(n)) for n in range(256)])
    assert [type(result).__name__ for result in results] == ["RouteOutcome"] * 256
    assert encoder.most == 8


async def test_a_typed_question_is_never_a_case_for_a_tool() -> None:
    request = asked(
        messages=(),
        state=State(text="It rains.", is_json=False),
        questions={"q": Question(type=QuestionType.NOUL, instructions="It is wet.")},
        tools=(TOOL,),
    )
    async with (
        ScriptedUpstream(ScriptedReply(text='{"q": true}')) as upstream,
        routing(FixedEncoder(default=NEEDS_TOOL), slow=[upstream.url]) as router,
    ):
        outcome = await router.decide(request)
    assert outcome.decision.tier is not Tier.TOOL
    assert outcome.path[0].outcome is StepOutcome.FAST_TIER_NOT_CONFIGURED
    assert "tools" not in upstream.requests[0].body
