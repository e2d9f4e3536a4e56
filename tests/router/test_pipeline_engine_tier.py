"""A model in this process, behind the shape every text tier has."""

import asyncio
import itertools
import threading
import time

import pytest

from fast_tier.testing import ScriptedLlamaServer, content_chunk, final_chunks
from fast_tier.text_engine import TextEngine
from router.clock import Clock
from router.engine_tier import EngineTier
from router.errors import DeadlinePassed
from router.tiers import InvalidTierAnswer, TierFailed
from slow_tier.completion import ChatMessage, CompletionRequest
from slow_tier.json_schema import JsonSchema

FAR_S = time.monotonic() + 3_600.0
SCHEMA = JsonSchema({"type": "object", "required": ["city"]})


@pytest.fixture
def tier_on():
    engines = []

    def build(*chunks, error=None, gate=None) -> EngineTier:
        engine = TextEngine(
            server=ScriptedLlamaServer(chunks, error=error, gate=gate),
            model="tiny",
            revision="sha256:0",
            context_tokens=64,
            slots=1,
            system_prompt="Answer in English.",
            clock_ns=time.monotonic_ns,
        )
        engines.append(engine)
        ticks = itertools.count()
        clock = Clock(perf_ns=lambda: next(ticks))
        return EngineTier(engine, system_prompt="Answer in English.", clock=clock)

    yield build
    for engine in engines:
        engine.close()


async def generate(
    tier: EngineTier,
    *,
    stream=False,
    deadline_s=FAR_S,
    start_by_s=FAR_S,
    schema=None,
    role="user",
    attempts=None,
):
    attempts = [] if attempts is None else attempts
    request = CompletionRequest(
        messages=(
            ChatMessage(role="user", content="Capital?"),
            ChatMessage(role=role, content="?"),
        ),
        temperature=0.5,
        max_output_tokens=16,
        response_schema=schema,
    )
    deltas = tier.generate(
        request,
        deadline_s=deadline_s,
        start_by_s=start_by_s,
        stream=stream,
        on_attempt=attempts.append,
    )
    return [delta async for delta in deltas], attempts


async def test_a_whole_answer_comes_with_model_revision_and_usage(tier_on) -> None:
    tier = tier_on(content_chunk("Par"), content_chunk("is"), *final_chunks())
    (last,), attempts = await generate(tier)
    completion = last.completion
    assert (completion.text, completion.finish_reason, completion.upstream) == ("Paris", "stop", "")
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (30, 8)
    assert tier.model_revision(completion) == "tiny@sha256:0"
    assert tier.models == ("in-process:tiny@sha256:0",)
    assert tier.system_prompts == ("Answer in English.",)
    assert attempts == []


async def test_a_stream_yields_the_pieces_before_the_completion(tier_on) -> None:
    tier = tier_on(content_chunk("Par"), content_chunk("is"), *final_chunks())
    deltas, _ = await generate(tier, stream=True)
    assert [delta.text for delta in deltas] == ["Par", "is", ""]
    assert deltas[-1].completion.text == "Paris"


async def test_json_is_mended_and_held_against_its_schema(tier_on) -> None:
    tier = tier_on(content_chunk("{'city': 'Paris',}"), *final_chunks())
    (last,), _ = await generate(tier, schema=SCHEMA)
    assert last.completion.text == '{"city": "Paris"}'


@pytest.mark.parametrize("text", ['{"town": 1}', "Paris", "  "])
async def test_an_answer_that_is_not_what_was_asked_for_is_invalid(tier_on, text) -> None:
    with pytest.raises(InvalidTierAnswer) as caught:
        await generate(tier_on(content_chunk(text), *final_chunks()), schema=SCHEMA)
    assert caught.value.upstream == ""


async def test_a_model_that_breaks_off_fails_the_tier_by_the_name_of_its_error(tier_on) -> None:
    tier = tier_on(content_chunk("Par"), error=RuntimeError("Capital? quoted"))
    attempts = []
    with pytest.raises(TierFailed, match="in process: GenerationFailed") as caught:
        async for _ in tier.generate(
            CompletionRequest(
                messages=(ChatMessage(role="user", content="Capital?"),),
                temperature=0.5,
                max_output_tokens=16,
            ),
            deadline_s=FAR_S,
            start_by_s=FAR_S,
            stream=False,
            on_attempt=attempts.append,
        ):
            pass
    assert "Capital" not in str(caught.value)
    (attempt,) = attempts
    assert (attempt.upstream, attempt.outcome) == ("", "GenerationFailed")


async def test_a_role_the_model_does_not_know_fails_the_tier(tier_on) -> None:
    with pytest.raises(TierFailed, match="InvalidRequest"):
        await generate(tier_on(*final_chunks()), role="tool")


async def test_a_deadline_ends_the_request_instead_of_the_tier(tier_on) -> None:
    with pytest.raises(DeadlinePassed):
        await generate(tier_on(*final_chunks()), deadline_s=time.monotonic() - 1.0)


async def test_an_answer_that_does_not_begin_in_time_fails_the_tier_before_the_deadline(
    tier_on,
) -> None:
    gate, attempts = threading.Event(), []
    tier = tier_on(content_chunk("Par"), content_chunk("is"), *final_chunks(), gate=gate)
    with pytest.raises(TierFailed, match="in process: timeout"):
        await generate(tier, start_by_s=time.monotonic() + 0.02, attempts=attempts)
    gate.set()
    assert [(attempt.upstream, attempt.outcome) for attempt in attempts] == [("", "timeout")]


async def test_a_streamed_answer_that_has_begun_may_take_until_the_deadline(tier_on) -> None:
    gate = threading.Event()
    tier = tier_on(content_chunk("Par"), content_chunk("is"), *final_chunks(), gate=gate)
    request = CompletionRequest(
        messages=(ChatMessage(role="user", content="Capital?"),),
        temperature=0.5,
        max_output_tokens=16,
    )
    start_by_s = time.monotonic() + 1.0
    deltas = tier.generate(
        request, deadline_s=FAR_S, start_by_s=start_by_s, stream=True, on_attempt=lambda _: None
    )
    assert (await anext(deltas)).text == "Par"
    tier._clock = Clock(monotonic_s=lambda: start_by_s + 1.0)
    gate.set()
    assert [delta.text async for delta in deltas] == ["is", ""]


async def test_leaving_the_stream_early_leaves_nothing_running(tier_on) -> None:
    tier = tier_on(content_chunk("Par"), content_chunk("is"), *final_chunks())
    request = CompletionRequest(
        messages=(ChatMessage(role="user", content="Capital?"),),
        temperature=0.5,
        max_output_tokens=16,
    )
    deltas = tier.generate(
        request, deadline_s=FAR_S, start_by_s=FAR_S, stream=True, on_attempt=lambda _: None
    )
    assert (await anext(deltas)).text == "Par"
    await deltas.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
