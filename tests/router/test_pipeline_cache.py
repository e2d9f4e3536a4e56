"""What is read from the cache, what is stored there."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from cache.semantic_cache import SemanticCache
from router.domain import (
    AnsweredBy,
    Budget,
    CacheControl,
    CacheMode,
    Encoding,
    Message,
    Reason,
    Request,
    Role,
    Tier,
    Tool,
)
from router.errors import UnknownDecision
from router.pipeline_testing import FixedEncoder, ScriptedTime, asked, axis, encoding, routing
from slow_tier.completion import ToolCall
from slow_tier.json_schema import JsonSchema
from slow_tier.testing import ScriptedReply, ScriptedUpstream

PARIS = ScriptedReply(text="Paris")
NO_STORE = CacheControl(mode=CacheMode.NO_STORE)
BYPASS = CacheControl(mode=CacheMode.BYPASS)


def turns(*contents: str) -> tuple[Message, ...]:
    roles = [Role.USER, Role.ASSISTANT]
    return tuple(Message(role=roles[i % 2], content=c) for i, c in enumerate(contents))


async def test_the_same_request_is_answered_from_the_exact_cache_without_the_encoder() -> None:
    time, encoder = ScriptedTime(), FixedEncoder()
    async with (
        ScriptedUpstream(PARIS) as upstream,
        routing(encoder, fast=upstream.url, time=time) as router,
    ):
        first = await router.decide(asked())
        time.now_s += 60.0
        again = await router.decide(asked())
    assert (first.answered_by, again.answered_by) == (
        AnsweredBy.FAST_TIER,
        AnsweredBy.EXACT_CACHE,
    )
    assert again.text == "Paris"
    assert again.decision == replace(first.decision, reason=Reason.EXACT_HIT)
    assert again.decision.decided_at_s == 1_000.0
    assert again.cache_match.similarity == 1.0
    assert again.cache_match.age_s == 60.0
    assert again.cache_match.origin_decision_id == first.decision.decision_id
    assert (again.input_tokens, again.output_tokens, again.path) == (0, 0, ())
    assert again.model_revision == first.model_revision
    assert len(encoder.inputs) == 1
    assert len(upstream.requests) == 1


async def test_a_similar_request_is_answered_from_the_semantic_cache_with_its_own_decision() -> (
    None
):
    similar = np.array([0.95, np.sqrt(1 - 0.95**2), 0, 0], dtype=np.float32)
    encoder = FixedEncoder(
        by_text={
            "Which city is the capital of France?": encoding(embedding=similar, fast=0.7, slow=0.28)
        }
    )
    time = ScriptedTime()
    async with (
        ScriptedUpstream(PARIS) as upstream,
        routing(encoder, fast=upstream.url, time=time) as router,
    ):
        first = await router.decide(asked())
        time.now_s += 5.0
        hit = await router.decide(asked("Which city is the capital of France?"))
    assert hit.answered_by is AnsweredBy.SEMANTIC_CACHE
    assert hit.decision.reason is Reason.SEMANTIC_HIT
    assert hit.decision.decision_id != first.decision.decision_id
    assert hit.decision.decided_at_s == 1_005.0
    assert hit.decision.probabilities["fast"] == pytest.approx(0.7 / 0.98)
    assert hit.cache_match.similarity == pytest.approx(0.95, abs=1e-6)
    assert hit.cache_match.origin_decision_id == first.decision.decision_id
    assert len(upstream.requests) == 1


async def test_below_the_similarity_threshold_is_a_miss() -> None:
    other = np.array([0.89, np.sqrt(1 - 0.89**2), 0, 0], dtype=np.float32)
    encoder = FixedEncoder(by_text={"Capital of Gaul?": encoding(embedding=other)})
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(encoder, fast=upstream.url) as router,
    ):
        await router.decide(asked())
        second = await router.decide(asked("Capital of Gaul?"))
    assert second.answered_by is AnsweredBy.FAST_TIER


async def test_the_guard_refuses_another_number_however_close_the_texts_are() -> None:
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked("What is 17 percent of 80?"))
        second = await router.decide(asked("What is 18 percent of 80?"))
    assert second.answered_by is AnsweredBy.FAST_TIER


async def test_one_encoder_run_gives_the_vector_of_lookup_and_of_insert(monkeypatch) -> None:
    seen = {}
    for name in ("lookup_semantic", "insert"):
        original = getattr(SemanticCache, name)

        def spy(self, *args, _name=name, _original=original, **values):
            seen[_name] = values["embedding"] if _name == "insert" else args[2]
            return _original(self, *args, **values)

        monkeypatch.setattr(SemanticCache, name, spy)
    encoder = FixedEncoder(default=encoding(embedding=axis(2)))
    async with (
        ScriptedUpstream(PARIS) as upstream,
        routing(encoder, fast=upstream.url) as router,
    ):
        await router.decide(asked())
    assert seen["lookup_semantic"] is seen["insert"]
    np.testing.assert_array_equal(seen["insert"], axis(2))
    assert len(encoder.inputs) == 1


async def test_tenants_never_share_an_answer() -> None:
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked(tenant="a"))
        theirs = await router.decide(asked(tenant="b"))
    assert theirs.answered_by is AnsweredBy.FAST_TIER
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.0},
        {"max_output_tokens": 5},
        {"budget": Budget(min_quality=0.1)},
        {"response_schema": JsonSchema({"type": "string"})},
        {"tools": (Tool(name="t", description="", parameters={}),)},
        {"messages": (Message(role=Role.SYSTEM, content="Be brief."), asked().messages[0])},
        {"messages": (*turns("Hello", "Hi"), asked().messages[0])},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_an_answer_given_under_other_terms_is_neither_an_exact_nor_a_similar_hit(
    change,
) -> None:
    async with (
        ScriptedUpstream(then=ScriptedReply(text='"Paris"')) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked())
        other = await router.decide(asked(**change))
    assert other.cache_match is None


async def test_white_space_of_prose_does_not_make_another_request() -> None:
    async with (
        ScriptedUpstream(PARIS) as upstream,
        routing(
            FixedEncoder(), fast=upstream.url, cache={"semantic": {"enabled": False}}
        ) as router,
    ):
        await router.decide(asked())
        again = await router.decide(asked("  What is  the capital of France?\n"))
    assert again.answered_by is AnsweredBy.EXACT_CACHE


async def test_a_conversation_is_answered_from_the_exact_cache_alone() -> None:
    """What the encoder reads of two conversations is mostly the turns they share."""
    first = turns("Tell me about Paris.", "It is in France.", "How many people live there?")
    second = turns("Tell me about Rome.", "It is in Italy.", "How many people live there?")
    async with (
        ScriptedUpstream(then=ScriptedReply(text="Millions")) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked(messages=first))
        other = await router.decide(asked(messages=second))
        again = await router.decide(asked(messages=first))
        lone = await router.decide(asked("How many people live there?"))
    assert other.answered_by is AnsweredBy.FAST_TIER
    assert again.answered_by is AnsweredBy.EXACT_CACHE
    assert lone.answered_by is AnsweredBy.FAST_TIER


@pytest.mark.parametrize("doubt", ["truncated", "in_distribution", "language_known"])
async def test_an_embedding_that_is_not_to_be_trusted_serves_no_similar_request(doubt) -> None:
    doubtful = replace(encoding(), **{doubt: doubt == "truncated"})
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(default=doubtful), slow=[upstream.url]) as router,
    ):
        await router.decide(asked())
        similar = await router.decide(asked("Which city is the capital of France?"))
        same = await router.decide(asked())
    assert similar.answered_by is AnsweredBy.SLOW_TIER
    assert same.answered_by is AnsweredBy.EXACT_CACHE


async def test_a_long_text_serves_no_similar_request() -> None:
    """2,048 characters are compared with their neighbours, 2,049 are not."""
    for chars, calls in ((2_048, 1), (2_049, 2)):
        text = ("a " * 1_025)[: chars - 1]
        async with (
            ScriptedUpstream(then=PARIS) as upstream,
            routing(FixedEncoder(), fast=upstream.url) as router,
        ):
            for end in ".!":
                await router.decide(asked(text + end))
            assert len(upstream.requests) == calls


async def test_bypass_neither_reads_nor_stores() -> None:
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked(cache_control=BYPASS))
        await router.decide(asked())
        read = await router.decide(asked(cache_control=BYPASS))
    assert read.answered_by is AnsweredBy.FAST_TIER
    assert len(upstream.requests) == 3


async def test_no_store_reads_but_does_not_store() -> None:
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked(cache_control=NO_STORE))
        stored = await router.decide(asked())
        read = await router.decide(asked(cache_control=NO_STORE))
    assert stored.answered_by is AnsweredBy.FAST_TIER
    assert read.answered_by is AnsweredBy.EXACT_CACHE


async def test_an_answer_lives_as_long_as_the_caller_says() -> None:
    time = ScriptedTime()
    request = asked(cache_control=CacheControl(ttl_s=10.0))
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url, time=time) as router,
    ):
        await router.decide(request)
        time.now_s += 9.0
        alive = await router.decide(request)
        time.now_s += 1.0
        gone = await router.decide(request)
    assert alive.answered_by is AnsweredBy.EXACT_CACHE
    assert gone.answered_by is AnsweredBy.FAST_TIER


async def test_a_cache_that_is_switched_off_is_never_asked() -> None:
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url, cache={"enabled": False}) as router,
    ):
        await router.decide(asked())
        again = await router.decide(asked())
    assert again.answered_by is AnsweredBy.FAST_TIER


async def is_stored(reply: ScriptedReply, request=None, *, said=None, tier: str = "slow") -> bool:
    """Return whether the reply to a request is served when the request comes again."""
    request = request or asked()
    said = said or encoding(fast=0.1, slow=0.88)
    async with ScriptedUpstream(reply, then=ScriptedReply(text="second")) as upstream:
        tiers = {"fast": upstream.url} if tier == "fast" else {"slow": [upstream.url]}
        async with routing(FixedEncoder(default=said), **tiers) as router:
            await router.decide(request)
            again = await router.decide(request)
    return again.answered_by is AnsweredBy.EXACT_CACHE


async def test_a_whole_answer_of_the_slow_tier_is_stored() -> None:
    assert await is_stored(PARIS)


@pytest.mark.parametrize("finish_reason", ["length", "content_filter", "other"])
async def test_an_answer_that_is_not_whole_is_not_stored(finish_reason) -> None:
    assert not await is_stored(ScriptedReply(text="Par", finish_reason=finish_reason))


async def test_tool_calls_are_not_stored() -> None:
    call = ToolCall(id="1", name="weather", arguments_json="{}")
    tool = Tool(name="weather", description="", parameters={})
    reply = ScriptedReply(tool_calls=(call,), finish_reason="tool_calls")
    assert not await is_stored(reply, asked(tools=(tool,)))


async def test_text_in_place_of_a_needed_tool_is_not_stored() -> None:
    tool = Tool(name="weather", description="", parameters={})
    said = encoding(fast=0.1, slow=0.1, tool=0.8)
    assert not await is_stored(PARIS, asked(tools=(tool,)), said=said)


@pytest.mark.parametrize("text", ["What is the weather like now?", "What is my balance?"])
async def test_a_volatile_prompt_is_stored_only_where_the_caller_vouches_for_it(text) -> None:
    assert not await is_stored(PARIS, asked(text))
    assert await is_stored(PARIS, asked(text, cache_control=CacheControl(cacheable=True)))


async def test_a_volatile_word_in_an_earlier_turn_counts() -> None:
    conversation = turns("What is the weather today in Rome?", "Sunny.", "And in Paris?")
    assert not await is_stored(PARIS, asked(messages=conversation))


async def test_a_fast_answer_is_stored_only_where_the_route_was_confident() -> None:
    assert await is_stored(PARIS, said=encoding(), tier="fast")
    unsure = encoding(fast=0.5, slow=0.48)
    moved = asked(budget=Budget(min_quality=0.3))
    assert not await is_stored(PARIS, moved, said=unsure, tier="fast")


async def test_a_rejected_answer_leaves_the_cache() -> None:
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        first = await router.decide(asked())
        evicted = report(router, first.decision.decision_id, accepted=False)
        again = await router.decide(asked())
    assert evicted
    assert again.answered_by is AnsweredBy.FAST_TIER


@pytest.mark.parametrize("text", ["What is the capital of France?", "Capital city of France?"])
async def test_rejecting_a_cached_answer_evicts_the_entry_it_came_from(text) -> None:
    """The first text is an exact hit with the stored decision, the second one a similar hit."""
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked())
        hit = await router.decide(asked(text))
        evicted = report(router, hit.decision.decision_id, accepted=False)
        again = await router.decide(asked())
    assert hit.cache_match is not None
    assert evicted
    assert again.answered_by is AnsweredBy.FAST_TIER


async def test_an_accepted_answer_stays() -> None:
    async with (
        ScriptedUpstream(PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        first = await router.decide(asked())
        assert not report(router, first.decision.decision_id, accepted=True)
        again = await router.decide(asked())
    assert again.answered_by is AnsweredBy.EXACT_CACHE


async def test_an_answer_that_was_never_stored_cannot_be_evicted() -> None:
    async with (
        ScriptedUpstream(PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        first = await router.decide(asked(cache_control=NO_STORE))
        assert not report(router, first.decision.decision_id, accepted=False)


async def test_another_tenants_decision_is_unknown_and_its_answer_stays() -> None:
    async with (
        ScriptedUpstream(PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        first = await router.decide(asked())
        with pytest.raises(UnknownDecision):
            report(router, first.decision.decision_id, accepted=False, tenant="other")
        again = await router.decide(asked())
    assert again.answered_by is AnsweredBy.EXACT_CACHE


async def test_a_decision_without_an_answer_can_be_reported_on() -> None:
    async with routing(FixedEncoder()) as router:
        routed = await router.route(asked())
        assert not report(router, routed.decision.decision_id, accepted=False)
    assert routed.decision.tier is Tier.FAST


async def test_a_recalled_decision_still_finds_and_stores_similar_answers() -> None:
    """The embedding is remembered with the decision, so the encoder is not needed again."""
    encoder = FixedEncoder()
    request = asked(decision_key="k", cache_control=NO_STORE)
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(encoder, fast=upstream.url) as router,
    ):
        first = await router.decide(request)
        await router.decide(asked("Capital of France?"))
        hit = await router.decide(request)
    assert hit.answered_by is AnsweredBy.SEMANTIC_CACHE
    assert hit.decision == replace(first.decision, reason=Reason.SEMANTIC_HIT)
    assert len(encoder.inputs) == 2


def near(cosine: float, **probabilities: float) -> Encoding:
    """Return an encoding of this cosine with the default one."""
    vector = np.array([cosine, np.sqrt(1 - cosine**2), 0, 0], dtype=np.float32)
    return encoding(embedding=vector, **probabilities)


async def is_shared(
    first: Request, second: Request, *, said: Encoding, stored_said: Encoding | None = None
) -> bool:
    """Return whether the answer to the first request serves the second one."""
    by_text = {second.messages[-1].content: said}
    encoder = FixedEncoder(by_text=by_text, default=stored_said or encoding())
    async with (
        ScriptedUpstream(then=PARIS) as fast,
        ScriptedUpstream(then=PARIS) as slow,
        routing(encoder, fast=fast.url, slow=[slow.url]) as router,
    ):
        await router.decide(first)
        return (await router.decide(second)).answered_by is AnsweredBy.SEMANTIC_CACHE


VOUCHED = CacheControl(cacheable=True)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [("Price of gold?", "Price of gold today?"), ("Price of gold today?", "Price of gold?")],
)
@pytest.mark.parametrize(
    ("stored_control", "wanted_control", "shared"),
    [
        (CacheControl(), CacheControl(), False),
        (VOUCHED, CacheControl(), False),
        (CacheControl(), VOUCHED, False),
        (VOUCHED, VOUCHED, True),
    ],
)
async def test_a_volatile_prompt_shares_an_answer_only_where_both_callers_vouch_for_theirs(
    stored, wanted, stored_control, wanted_control, shared
) -> None:
    first = asked(stored, cache_control=stored_control)
    second = asked(wanted, cache_control=wanted_control)
    assert await is_shared(first, second, said=near(0.93)) is shared


async def test_a_stored_volatile_answer_serves_the_same_words_only_to_who_vouches_for_them() -> (
    None
):
    text = "What is my balance?"
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked(text, cache_control=VOUCHED))
        vouched = await router.decide(asked(text, cache_control=VOUCHED))
        other = await router.decide(asked(text))
    assert vouched.answered_by is AnsweredBy.EXACT_CACHE
    assert other.answered_by is AnsweredBy.FAST_TIER


SURE_SLOW = {"fast": 0.03, "slow": 0.95}
UNSURE = {"fast": 0.5, "slow": 0.48}


@pytest.mark.parametrize(
    ("stored_said", "said", "shared"),
    [
        ({}, {}, True),
        ({}, SURE_SLOW, False),
        ({}, UNSURE, False),
        (SURE_SLOW, {}, True),
        (SURE_SLOW, SURE_SLOW, True),
        (UNSURE, UNSURE, True),
    ],
)
async def test_a_fast_answer_serves_only_what_the_fast_tier_is_trusted_with(
    stored_said, said, shared
) -> None:
    second = asked("Which city is the capital of France?")
    assert (
        await is_shared(
            asked(), second, said=near(0.95, **said), stored_said=encoding(**stored_said)
        )
        is shared
    )


async def test_a_request_that_is_fast_only_for_lack_of_time_gets_no_fast_answer_of_another() -> (
    None
):
    hurried = asked("Capital of France?", deadline_s=1_005.0)
    encoder = FixedEncoder(by_text={"Capital of France?": encoding(**SURE_SLOW)})
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(encoder, fast=upstream.url, policy={"slow_floor_s": 10.0}) as router,
    ):
        await router.decide(asked())
        outcome = await router.decide(hurried)
    assert outcome.decision.reason is Reason.DEADLINE
    assert outcome.answered_by is AnsweredBy.FAST_TIER


async def test_an_answer_that_the_slow_tier_gave_for_a_failed_fast_one_serves_slow_requests() -> (
    None
):
    encoder = FixedEncoder(by_text={"Capital of France?": encoding(**SURE_SLOW)})
    async with (
        ScriptedUpstream(then=ScriptedReply(status=500)) as fast,
        ScriptedUpstream(then=PARIS) as slow,
        routing(encoder, fast=fast.url, slow=[slow.url]) as router,
    ):
        first = await router.decide(asked())
        hit = await router.decide(asked("Capital of France?"))
    assert (first.decision.tier, first.answered_by) == (Tier.FAST, AnsweredBy.SLOW_TIER)
    assert hit.answered_by is AnsweredBy.SEMANTIC_CACHE


async def test_rejecting_a_recalled_decision_evicts_what_an_earlier_call_stored() -> None:
    request = asked(decision_key="k")
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        first = await router.decide(request)
        past = await router.decide(replace(request, cache_control=BYPASS))
        evicted = report(router, first.decision.decision_id, accepted=False)
        again = await router.decide(request)
    assert past.decision.decision_id == first.decision.decision_id
    assert evicted
    assert again.answered_by is AnsweredBy.FAST_TIER


async def decide_at_once(*requests: Request, upstream_reply: ScriptedReply = PARIS):
    """Return the outcomes of requests that all arrive before the first is answered."""
    encoder = FixedEncoder(gate=asyncio.Event())
    async with (
        ScriptedUpstream(then=upstream_reply) as upstream,
        routing(encoder, fast=upstream.url) as router,
    ):
        tasks = [asyncio.create_task(router.decide(request)) for request in requests]
        await asyncio.sleep(0)
        encoder.gate.set()
        outcomes = await asyncio.gather(*tasks)
    return [outcome.answered_by for outcome in outcomes], len(upstream.requests)


async def test_identical_requests_at_the_same_time_share_one_upstream_call() -> None:
    answered_by, calls = await decide_at_once(asked(), asked(), asked())
    assert answered_by == [
        AnsweredBy.FAST_TIER,
        AnsweredBy.EXACT_CACHE,
        AnsweredBy.EXACT_CACHE,
    ]
    assert calls == 1


@pytest.mark.parametrize(
    "request_",
    [
        asked(cache_control=BYPASS),
        asked(cache_control=NO_STORE),
        asked("What is my balance?"),
    ],
    ids=["bypass", "no_store", "volatile"],
)
async def test_an_answer_that_may_not_be_stored_is_not_shared_either(request_) -> None:
    answered_by, calls = await decide_at_once(request_, request_)
    assert answered_by == [AnsweredBy.FAST_TIER] * 2
    assert calls == 2


async def test_an_answer_that_turns_out_unfit_for_the_cache_serves_its_own_request_only() -> None:
    cut = ScriptedReply(text="Par", finish_reason="length")
    answered_by, calls = await decide_at_once(asked(), asked(), asked(), upstream_reply=cut)
    assert answered_by == [AnsweredBy.FAST_TIER] * 3
    assert calls == 3


async def test_a_caller_that_goes_away_does_not_fail_those_who_asked_the_same() -> None:
    encoder = FixedEncoder(gate=asyncio.Event())
    async with (
        ScriptedUpstream(then=PARIS) as upstream,
        routing(encoder, fast=upstream.url) as router,
    ):
        leader, *others = [asyncio.create_task(router.decide(asked())) for _ in range(3)]
        await asyncio.sleep(0)
        leader.cancel()
        encoder.gate.set()
        outcomes = await asyncio.gather(*others)
    assert [outcome.answered_by for outcome in outcomes] == [
        AnsweredBy.FAST_TIER,
        AnsweredBy.EXACT_CACHE,
    ]
    assert leader.cancelled()
    assert len(upstream.requests) == 1


def report(router, decision_id: str, *, accepted: bool, tenant: str = "acme") -> bool:
    return router.record_outcome(tenant, decision_id, accepted=accepted, score=None, cost_usd=None)
