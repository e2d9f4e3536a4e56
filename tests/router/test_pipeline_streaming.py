"""Streams: order, what is one piece, what happens after the first piece."""

import asyncio

import pytest

from router.domain import AnsweredBy, DecideOutcome, Decision, StepOutcome
from router.errors import TierUnavailable
from router.pipeline_testing import FixedEncoder, asked, encoding, routing
from slow_tier.json_schema import JsonSchema
from slow_tier.testing import ScriptedReply, ScriptedUpstream

COMPLEX = encoding(fast=0.1, slow=0.88)
SCHEMA = JsonSchema({"type": "object", "required": ["city"]})


async def collect(router, request) -> list:
    return [part async for part in router.decide_stream(request)]


@pytest.mark.parametrize("tier", ["fast", "slow"])
async def test_decision_first_then_text_as_generated_then_the_outcome(tier) -> None:
    said = encoding() if tier == "fast" else COMPLEX
    async with ScriptedUpstream(ScriptedReply(text="Paris")) as upstream:
        tiers = {"fast": upstream.url} if tier == "fast" else {"slow": [upstream.url]}
        async with routing(FixedEncoder(default=said), **tiers) as router:
            first, *pieces, last = await collect(router, asked())
    assert isinstance(first, Decision)
    assert pieces == list("Paris")
    assert isinstance(last, DecideOutcome)
    assert last.decision == first
    assert last.text == "Paris"
    assert last.output_tokens == 5


async def test_a_cached_text_is_one_piece() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await collect(router, asked())
        first, *pieces, last = await collect(router, asked())
        _, *similar_pieces, similar = await collect(router, asked("Capital city of France?"))
    assert pieces == similar_pieces == ["Paris"]
    assert last.answered_by is AnsweredBy.EXACT_CACHE
    assert similar.answered_by is AnsweredBy.SEMANTIC_CACHE
    assert first == last.decision


async def test_a_streamed_answer_is_stored_like_any_other() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await collect(router, asked())
        again = await router.decide(asked())
    assert (again.answered_by, again.text) == (AnsweredBy.EXACT_CACHE, "Paris")


async def test_text_under_a_schema_is_sent_only_once_it_is_valid() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text='{"town": 1}')) as fast,
        ScriptedUpstream(ScriptedReply(text='{"city": 1}')) as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        _, *pieces, last = await collect(router, asked(response_schema=SCHEMA))
    assert pieces == ['{"city": 1}']
    assert last.path[0].outcome is StepOutcome.INVALID_ANSWER


async def test_a_failure_before_the_first_piece_is_made_good_by_the_next_tier() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(status=503)) as fast,
        ScriptedUpstream(ScriptedReply(text="Paris")) as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        _, *pieces, last = await collect(router, asked())
    assert "".join(pieces) == "Paris"
    assert last.degraded


async def test_after_the_first_piece_nobody_takes_over() -> None:
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "Par"}}]}\n\n'
    broken = ScriptedReply(chunks=[event], ending="half_close")
    async with (
        ScriptedUpstream(broken) as fast,
        ScriptedUpstream() as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        parts = router.decide_stream(asked())
        assert isinstance(await anext(parts), Decision)
        assert await anext(parts) == "Par"
        with pytest.raises(TierUnavailable, match="broke off after its start"):
            await anext(parts)
    assert slow.requests == []


async def test_a_broken_answer_is_not_stored() -> None:
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "Par"}}]}\n\n'
    broken = ScriptedReply(chunks=[event], ending="half_close")
    async with (
        ScriptedUpstream(broken, ScriptedReply(text="Paris")) as fast,
        routing(FixedEncoder(), fast=fast.url) as router,
    ):
        with pytest.raises(TierUnavailable):
            await collect(router, asked())
        again = await router.decide(asked())
    assert (again.answered_by, again.text) == (AnsweredBy.FAST_TIER, "Paris")


async def test_a_listener_that_goes_away_stops_the_generation() -> None:
    stuck = ScriptedReply(text="Paris", between=asyncio.Event())
    async with (
        ScriptedUpstream(stuck) as fast,
        routing(FixedEncoder(), fast=fast.url) as router,
    ):
        parts = router.decide_stream(asked())
        assert isinstance(await anext(parts), Decision)
        waiting = asyncio.ensure_future(anext(parts))
        await fast.wait_for_requests(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await fast.wait_for_disconnects(1)
        await parts.aclose()


async def test_closing_the_stream_early_stops_the_generation() -> None:
    first = b'data: {"choices": [{"index": 0, "delta": {"content": "Par"}}]}\n\n'
    stuck = ScriptedReply(chunks=[first, b"data: [DONE]\n\n"], between=asyncio.Event())
    async with (
        ScriptedUpstream(stuck) as fast,
        routing(FixedEncoder(), fast=fast.url) as router,
    ):
        parts = router.decide_stream(asked())
        assert [await anext(parts), await anext(parts)][1] == "Par"
        await parts.aclose()
        await fast.wait_for_disconnects(1)
