"""The engine streams, stops, keeps its deadline and says nothing of what a user typed."""

import asyncio
import itertools
import threading
import time

import pytest

from fast_tier.errors import (
    ContextOverflow,
    DeadlineExceeded,
    GenerationFailed,
    InvalidRequest,
    ModelUnavailable,
)
from fast_tier.testing import ScriptedLlamaServer, content_chunk, final_chunks
from fast_tier.text_engine import TextEngine

FAR_S = time.monotonic() + 3600.0
QUESTION = [("user", "What is the capital of France?")]
PARIS = [content_chunk("Par"), content_chunk("is"), *final_chunks()]


@pytest.fixture
def engine_on():
    engines = []

    def build(server, *, clock_ns=time.monotonic_ns, slots=2):
        engine = TextEngine(
            server=server,
            model="tiny",
            revision="sha256:0",
            context_tokens=64,
            slots=slots,
            system_prompt="Answer in English.",
            clock_ns=clock_ns,
        )
        engines.append(engine)
        return engine

    yield build
    for engine in engines:
        engine.close()


async def ask(engine, messages=QUESTION, **changes):
    arguments = {"temperature": 0.2, "max_output_tokens": 16, "deadline_s": FAR_S, "seed": None}
    return await engine.generate(messages, **(arguments | changes))


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("the condition did not come true within 5 s")


async def test_an_answer_joins_its_pieces_and_counts_from_the_call(engine_on):
    # Each reading of the clock is 1 us after the one before.
    ticks = itertools.count(0, 1000)
    engine = engine_on(ScriptedLlamaServer(PARIS), clock_ns=lambda: next(ticks))
    completion = await ask(engine, deadline_s=10.0)
    assert completion.text == "Paris"
    assert (completion.finish_reason, completion.model) == ("stop", "tiny")
    assert (completion.prompt_tokens, completion.completion_tokens) == (30, 8)
    assert 0 < completion.first_token_ns < completion.total_ns


async def test_a_stream_ends_with_the_whole_answer(engine_on):
    engine = engine_on(ScriptedLlamaServer(PARIS))
    deltas = [
        delta
        async for delta in engine.stream(
            QUESTION, temperature=0.2, max_output_tokens=16, deadline_s=FAR_S
        )
    ]
    assert [delta.text for delta in deltas] == ["Par", "is", ""]
    assert [delta.completion is None for delta in deltas] == [True, True, False]
    assert deltas[-1].completion.text == "Paris"


async def test_an_answer_without_text_is_an_answer(engine_on):
    completion = await ask(engine_on(ScriptedLlamaServer(final_chunks(completion_tokens=0))))
    assert completion.text == ""
    assert completion.completion_tokens == 0


async def test_the_limit_is_told_apart_from_the_end(engine_on):
    server = ScriptedLlamaServer([content_chunk("P"), *final_chunks(finish_reason="length")])
    assert (await ask(engine_on(server))).finish_reason == "length"


async def test_the_configured_system_prompt_comes_first_unless_the_caller_brings_one(engine_on):
    server = ScriptedLlamaServer(PARIS)
    engine = engine_on(server)
    await ask(engine)
    await ask(engine, [("system", "Rhyme."), ("user", "Hello")])
    first, second = (body["messages"] for body in server.bodies)
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[0]["content"] == "Answer in English."
    assert [message["content"] for message in second] == ["Rhyme.", "Hello"]


async def test_only_a_seeded_request_gives_up_the_prompt_cache(engine_on):
    server = ScriptedLlamaServer(PARIS)
    engine = engine_on(server)
    await ask(engine)
    await ask(engine, seed=7)
    free, seeded = server.bodies
    assert "seed" not in free
    assert "cache_prompt" not in free
    assert (seeded["seed"], seeded["cache_prompt"]) == (7, False)


async def test_cancelling_the_task_stops_the_model_at_its_next_token(engine_on):
    gate = threading.Event()
    server = ScriptedLlamaServer([content_chunk("x")] * 50, gate=gate)
    task = asyncio.create_task(ask(engine_on(server)))
    await until(lambda: server.bodies)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    await until(lambda: server.stopped_at)
    assert server.stopped_at[0] <= 1


async def test_leaving_a_stream_early_stops_the_model(engine_on):
    gate = threading.Event()
    server = ScriptedLlamaServer([content_chunk("x")] * 50, gate=gate)
    stream = engine_on(server).stream(
        QUESTION, temperature=0.2, max_output_tokens=64, deadline_s=FAR_S
    )
    assert (await anext(stream)).text == "x"
    await stream.aclose()
    gate.set()
    await until(lambda: server.stopped_at)
    assert server.stopped_at == [1]


async def test_a_deadline_that_passes_frees_the_caller_at_once_and_the_model_soon(engine_on):
    gate = threading.Event()
    server = ScriptedLlamaServer([content_chunk("x")] * 50, gate=gate)
    with pytest.raises(DeadlineExceeded, match="tiny: the deadline passed"):
        await ask(engine_on(server), deadline_s=time.monotonic() + 0.03)
    gate.set()
    await until(lambda: server.stopped_at)
    assert server.stopped_at[0] <= 1


async def test_nothing_is_generated_after_the_deadline(engine_on):
    server = ScriptedLlamaServer(PARIS)
    with pytest.raises(DeadlineExceeded):
        await ask(engine_on(server), deadline_s=time.monotonic() - 1.0)
    assert server.bodies == []


async def test_a_request_waiting_for_a_slot_never_runs_once_it_is_cancelled(engine_on):
    gate = threading.Event()
    server = ScriptedLlamaServer(PARIS, gate=gate)
    engine = engine_on(server, slots=1)
    running = asyncio.create_task(ask(engine))
    await until(lambda: server.bodies)
    waiting = asyncio.create_task(ask(engine))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    assert (await running).text == "Paris"
    await ask(engine)
    assert len(server.bodies) == 2


async def test_concurrent_requests_keep_their_answers_apart(engine_on):
    engine = engine_on(ScriptedLlamaServer(PARIS))
    completions = await asyncio.gather(*(ask(engine) for _ in range(8)))
    assert [completion.text for completion in completions] == ["Paris"] * 8


async def test_messages_longer_than_the_context_are_a_caller_error_with_both_sizes(engine_on):
    error = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 99, "n_ctx": 64}
    with pytest.raises(ContextOverflow, match="99 tokens, the model's context holds 64") as caught:
        await ask(engine_on(ScriptedLlamaServer([{"error": error}])))
    assert isinstance(caught.value, InvalidRequest)


async def test_a_library_error_is_reported_without_the_text_it_quotes(engine_on):
    quoting = RuntimeError("parse error, last read: 'my secret'")
    with pytest.raises(GenerationFailed, match=r"llama\.cpp raised RuntimeError") as caught:
        await ask(engine_on(ScriptedLlamaServer([], error=quoting)))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_a_server_error_is_reported_by_kind_without_its_message(engine_on):
    error = {"code": 500, "type": "server_error", "message": "cannot parse 'my secret'"}
    with pytest.raises(GenerationFailed, match="server_error, code 500") as caught:
        await ask(engine_on(ScriptedLlamaServer([{"error": error}])))
    assert "secret" not in str(caught.value)


async def test_a_generation_that_breaks_off_is_no_answer(engine_on):
    with pytest.raises(GenerationFailed, match="without finish reason"):
        await ask(engine_on(ScriptedLlamaServer([content_chunk("Par")])))


async def test_closing_ends_what_runs_and_refuses_what_comes(engine_on):
    gate = threading.Event()
    server = ScriptedLlamaServer([content_chunk("x")] * 50, gate=gate)
    engine = engine_on(server)
    running = asyncio.create_task(ask(engine))
    await until(lambda: server.bodies)
    closing = asyncio.create_task(asyncio.to_thread(engine.close))
    await until(engine._closing.is_set)
    gate.set()
    await closing
    for refused in (running, ask(engine)):
        with pytest.raises(ModelUnavailable, match="tiny: the engine is closed"):
            await refused


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"temperature": -0.1}, r"temperature: must be in \[0, 2.0\], got -0.1"),
        ({"temperature": float("nan")}, "temperature: .* got nan"),
        ({"max_output_tokens": 0}, "max_output_tokens: must be >= 1, got 0"),
        ({"seed": -1}, "seed: must be in"),
        ({"seed": 2**32 - 1}, "seed: must be in"),
        ({"messages": []}, "messages: needs a user turn"),
        ({"messages": [("system", "a")]}, "messages: needs a user turn"),
        ({"messages": [("user", "a"), ("tool", "b")]}, r"messages\[1\].role: must be one of"),
        ({"messages": [("user", "a\ud800")]}, r"messages\[0\].content: holds a lone surrogate"),
    ],
)
async def test_a_field_out_of_range_is_named_before_any_work(engine_on, changes, names):
    server = ScriptedLlamaServer(PARIS)
    with pytest.raises(InvalidRequest, match=names):
        await ask(engine_on(server), **changes)
    assert server.bodies == []
