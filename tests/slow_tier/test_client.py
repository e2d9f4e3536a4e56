"""The client against a real local server: answers, failures, retries, failover, limits."""

import asyncio
import json
import random
import time
import traceback
from contextlib import asynccontextmanager

import httpx
import pytest

from slow_tier.client import ChatClient, Upstream
from slow_tier.completion import (
    ChatMessage,
    CompletionRequest,
    TokenLogprob,
    ToolCall,
    ToolDefinition,
    Usage,
)
from slow_tier.errors import (
    DeadlineExceeded,
    InvalidAnswer,
    NotConfigured,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from slow_tier.exchange import MAX_RESPONSE_BYTES
from slow_tier.generation import HANGS_AFTER_S
from slow_tier.json_schema import JsonSchema
from slow_tier.testing import ScriptedReply, ScriptedUpstream

SECRET = "sk-very-secret"
PROMPT = "what the user typed"


class NoJitter(random.Random):
    def uniform(self, a, b):
        return a


class ManualClock:
    """Real time plus what a test adds, so that deadlines still bound real awaits."""

    def __init__(self):
        self.ahead_s = 0.0

    def __call__(self):
        return time.monotonic() + self.ahead_s


def ask(**overrides):
    values = {
        "messages": (ChatMessage(role="user", content=PROMPT),),
        "temperature": 0.0,
        "max_output_tokens": 16,
    }
    return CompletionRequest(**(values | overrides))


def soon():
    return time.monotonic() + 5.0


def upstream(server, name="first", **overrides):
    values = {"url": server if isinstance(server, str) else server.url, "model": "m"}
    return Upstream(name=name, **(values | overrides))


async def collect(stream, seen):
    """Keep what arrived before an error."""
    async for delta in stream:
        seen.append(delta.text)


@asynccontextmanager
async def client_of(*upstreams, clock=time.monotonic):
    client = ChatClient(upstreams, clock=clock, random=NoJitter())
    try:
        yield client
    finally:
        await client.aclose()


async def unused_url():
    server = ScriptedUpstream()
    await server.start()
    url = server.url
    await server.stop()
    return url


async def test_returns_text_usage_and_the_model_that_answered():
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as server,
        client_of(upstream(server)) as client,
    ):
        answer = await client.complete(ask(), deadline_s=soon())
    assert (answer.text, answer.finish_reason) == ("Paris", "stop")
    assert (answer.model, answer.upstream) == ("scripted", "first")
    assert answer.usage == Usage(prompt_tokens=7, completion_tokens=5)
    assert 0 < answer.connect_ns <= answer.first_token_ns <= answer.total_ns


async def test_connecting_takes_no_time_on_a_connection_that_is_open():
    async with (
        ScriptedUpstream(then=ScriptedReply(text="x")) as server,
        client_of(upstream(server)) as client,
    ):
        await client.complete(ask(), deadline_s=soon())
        second = await client.complete(ask(), deadline_s=soon())
    assert second.connect_ns == 0
    assert server.connections == 1


async def test_sends_model_key_and_the_system_prompt_where_there_is_none():
    own = (ChatMessage(role="system", content="own"), *ask().messages)
    async with (
        ScriptedUpstream(then=ScriptedReply(text="x")) as server,
        client_of(upstream(server, api_key=SECRET, system_prompt="Be brief.")) as client,
    ):
        await client.complete(ask(), deadline_s=soon())
        await client.complete(ask(messages=own), deadline_s=soon())
    first, second = server.requests
    assert first.path == "/v1/chat/completions"
    assert first.headers["authorization"] == f"Bearer {SECRET}"
    assert first.body["model"] == "m"
    assert [turn["content"] for turn in first.body["messages"]] == ["Be brief.", PROMPT]
    assert [turn["content"] for turn in second.body["messages"]] == ["own", PROMPT]


async def test_streams_text_as_it_comes_and_ends_with_the_whole_completion():
    logprobs = (TokenLogprob(token="né", logprob=-0.5, alternatives={"né": -0.5}),)
    reply = ScriptedReply(text="né", token_logprobs=logprobs)
    async with ScriptedUpstream(reply) as server, client_of(upstream(server)) as client:
        deltas = [delta async for delta in client.stream(ask(), deadline_s=soon())]
    assert [delta.text for delta in deltas] == ["n", "é", ""]
    assert [delta.completion is None for delta in deltas] == [True, True, False]
    whole = deltas[-1].completion
    assert (whole.text, whole.finish_reason) == ("né", "stop")
    assert whole.usage == Usage(prompt_tokens=7, completion_tokens=2)
    assert whole.token_logprobs == logprobs
    assert 0 < whole.first_token_ns <= whole.total_ns


async def test_a_finished_stream_leaves_its_connection_for_the_next_one():
    async with (
        ScriptedUpstream(then=ScriptedReply(text="x")) as server,
        client_of(upstream(server)) as client,
    ):
        for _ in range(3):
            async for _ in client.stream(ask(), deadline_s=soon()):
                pass
    assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_calls_come_whole_whether_streamed_or_not(stream):
    calls = (
        ToolCall(id="a", name="weather", arguments_json='{"city": "Oslo"}'),
        ToolCall(id="b", name="weather", arguments_json="{}"),
    )
    tool = ToolDefinition(name="weather", description="Weather.", parameters={"type": "object"})
    reply = ScriptedReply(tool_calls=calls, finish_reason="tool_calls")
    async with ScriptedUpstream(reply) as server, client_of(upstream(server)) as client:
        if stream:
            deltas = [d async for d in client.stream(ask(tools=(tool,)), deadline_s=soon())]
            answer = deltas[-1].completion
        else:
            answer = await client.complete(ask(tools=(tool,)), deadline_s=soon())
    assert answer.tool_calls == calls
    assert answer.finish_reason == "tool_calls"


async def test_a_tool_name_with_a_dot_comes_back_as_the_caller_wrote_it():
    sent = ToolCall(id="a", name="math_sqrt", arguments_json="{}")
    tool = ToolDefinition(name="math.sqrt", description="", parameters={})
    reply = ScriptedReply(tool_calls=(sent,), finish_reason="tool_calls")
    async with ScriptedUpstream(reply) as server, client_of(upstream(server)) as client:
        answer = await client.complete(ask(tools=(tool,)), deadline_s=soon())
    assert [call.name for call in answer.tool_calls] == ["math.sqrt"]


async def test_a_call_of_a_tool_nobody_offered_is_invalid():
    call = ToolCall(id="a", name="rm", arguments_json="{}")
    async with (
        ScriptedUpstream(ScriptedReply(tool_calls=(call,))) as server,
        client_of(upstream(server)) as client,
    ):
        with pytest.raises(InvalidAnswer, match="tool that was not offered"):
            await client.complete(ask(), deadline_s=soon())


async def test_a_429_that_says_when_is_retried_and_then_succeeds():
    limited = ScriptedReply(status=429, headers={"Retry-After": "0"})
    attempts = []
    async with (
        ScriptedUpstream(limited, ScriptedReply(text="ok")) as server,
        client_of(upstream(server)) as client,
    ):
        answer = await client.complete(ask(), deadline_s=soon(), on_attempt=attempts.append)
    assert answer.text == "ok"
    assert [(a.upstream, a.outcome) for a in attempts] == [
        ("first", "rate_limited"),
        ("first", "ok"),
    ]


async def test_a_429_that_asks_for_more_than_the_deadline_allows_fails_at_once():
    limited = ScriptedReply(status=429, headers={"Retry-After": "1.5"})
    async with ScriptedUpstream(limited) as server, client_of(upstream(server)) as client:
        with pytest.raises(UpstreamRateLimited) as raised:
            await client.complete(ask(), deadline_s=time.monotonic() + 1.0)
    assert raised.value.retry_after_s == 1.5
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_gateway_error_is_retried_up_to_max_attempts(status):
    async with (
        ScriptedUpstream(then=ScriptedReply(status=status)) as server,
        client_of(upstream(server, max_attempts=2)) as client,
    ):
        with pytest.raises(UpstreamUnavailable, match=f"'first': status {status}"):
            await client.complete(ask(), deadline_s=soon())
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [301, 401, 402, 403, 404, 408])
async def test_a_fault_between_us_and_one_upstream_leaves_the_others(status):
    attempts = []
    reply = ScriptedReply(status=status, headers={"location": "/v1/elsewhere"})
    async with (
        ScriptedUpstream(then=reply) as one,
        ScriptedUpstream(ScriptedReply(text="x")) as two,
        client_of(upstream(one), upstream(two, "second")) as client,
    ):
        answer = await client.complete(ask(), deadline_s=soon(), on_attempt=attempts.append)
    assert answer.upstream == "second"
    assert len(one.requests) == 1
    assert [(a.upstream, a.outcome, a.detail) for a in attempts] == [
        ("first", "rejected", f"status {status}"),
        ("second", "ok", ""),
    ]


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_fault_of_the_request_is_neither_retried_nor_passed_to_the_next_upstream(status):
    reply = ScriptedReply(status=status)
    async with (
        ScriptedUpstream(reply) as one,
        ScriptedUpstream(ScriptedReply(text="x")) as two,
        client_of(upstream(one), upstream(two, "second")) as client,
    ):
        with pytest.raises(UpstreamRejected, match=f"'first': status {status}"):
            await client.complete(ask(), deadline_s=soon())
    assert (len(one.requests), len(two.requests)) == (1, 0)


async def test_the_next_upstream_answers_when_the_first_cannot_be_reached():
    attempts = []
    async with ScriptedUpstream(ScriptedReply(text="second to none")) as server:
        dead = upstream(await unused_url(), max_attempts=1)
        async with client_of(dead, upstream(server, "second")) as client:
            answer = await client.complete(ask(), deadline_s=soon(), on_attempt=attempts.append)
    assert (answer.text, answer.upstream) == ("second to none", "second")
    assert [(a.upstream, a.outcome, a.detail) for a in attempts] == [
        ("first", "unavailable", "cannot connect"),
        ("second", "ok", ""),
    ]


async def test_a_silent_upstream_gives_way_to_the_next():
    silent = ScriptedReply(before=asyncio.Event())
    async with ScriptedUpstream(silent) as one, ScriptedUpstream(ScriptedReply(text="x")) as two:
        slow = upstream(one, read_timeout_s=0.02)
        async with client_of(slow, upstream(two, "second")) as client:
            answer = await client.complete(ask(), deadline_s=soon())
        async with client_of(slow) as client:
            one.reply_with(silent)
            with pytest.raises(UpstreamTimeout, match=r"silent for 0\.02 s"):
                await client.complete(ask(), deadline_s=soon())
    assert answer.upstream == "second"
    assert one.disconnects >= 1


class RoleThenSilence(httpx.AsyncByteStream):
    def __init__(self, hang):
        self._hang = hang

    async def __aiter__(self):
        yield b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
        await self._hang()


@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_that_hangs_leaves_half_of_the_time_to_the_only_other(stream):
    clock, attempts = ManualClock(), []
    message = {"content": "x"}
    choices = [{"message": message, "delta": message, "finish_reason": "stop"}]
    answer = json.dumps({"choices": choices})

    async def hang():
        clock.ahead_s = -10.0  # a slow test machine has all the time it needs after this
        await asyncio.Event().wait()

    async def serve(request):
        if request.url.host == "two":
            return httpx.Response(200, text=f"data: {answer}\n\n" if stream else answer)
        if not stream:
            await hang()
        return httpx.Response(200, stream=RoleThenSilence(hang))

    upstreams = [upstream("http://one/v1"), upstream("http://two/v1", "second")]
    client = ChatClient(
        upstreams, clock=clock, random=NoJitter(), transport=httpx.MockTransport(serve)
    )
    arguments = {"deadline_s": clock() + 0.08, "on_attempt": attempts.append}
    if stream:
        await collect(client.stream(ask(), **arguments), [])
    else:
        await client.complete(ask(), **arguments)
    await client.aclose()
    assert [(a.upstream, a.outcome) for a in attempts] == [("first", "timeout"), ("second", "ok")]


async def test_a_model_that_thinks_unseen_has_begun_its_answer():
    thought = b'data: {"choices": [{"delta": {"reasoning_content": "hm"}}]}\n\n'
    said = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n'
    gate = asyncio.Event()
    async with (
        ScriptedUpstream(ScriptedReply(chunks=[thought, said], between=gate)) as one,
        client_of(upstream(one)) as client,
    ):
        stream = client.stream(ask(), deadline_s=soon(), start_by_s=time.monotonic() + 1.0)
        running = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.03)
        gate.set()
        assert (await running).text == "a"
        await stream.aclose()


@asynccontextmanager
async def client_of_a_hanging_upstream(clock, *, silent_s):
    """Give a client and what it asked; with each request that many seconds pass in silence."""
    asked = []

    async def hang(request):
        asked.append(request)
        clock.ahead_s += silent_s
        await asyncio.Event().wait()

    client = ChatClient(
        [upstream("http://127.0.0.1:9/v1")],
        clock=clock,
        random=NoJitter(),
        transport=httpx.MockTransport(hang),
    )
    for _ in range(5):
        with pytest.raises(DeadlineExceeded):
            await client.complete(ask(), deadline_s=clock() + 0.03)
    yield client, asked
    await client.aclose()


async def test_a_hanging_upstream_opens_its_breaker():
    clock = ManualClock()
    async with client_of_a_hanging_upstream(clock, silent_s=HANGS_AFTER_S) as (client, asked):
        with pytest.raises(UpstreamUnavailable, match="circuit breaker is open"):
            await client.complete(ask(), deadline_s=clock() + 0.03)
    assert len(asked) == 5


async def test_callers_of_short_deadlines_cannot_open_the_breaker():
    clock = ManualClock()
    async with client_of_a_hanging_upstream(clock, silent_s=HANGS_AFTER_S / 2) as (client, asked):
        with pytest.raises(DeadlineExceeded):
            await client.complete(ask(), deadline_s=clock() + 0.03)
    assert len(asked) == 6


async def test_where_somebody_else_takes_over_a_late_start_is_the_upstreams_failure():
    async with (
        ScriptedUpstream(ScriptedReply(before=asyncio.Event())) as server,
        client_of(upstream(server)) as client,
    ):
        with pytest.raises(UpstreamTimeout, match=r"no answer began within 0\.0"):
            await client.complete(ask(), deadline_s=soon(), start_by_s=time.monotonic() + 0.02)


async def test_a_stream_that_has_not_begun_fails_over():
    broken = ScriptedReply(status=500)
    async with (
        ScriptedUpstream(broken) as one,
        ScriptedUpstream(ScriptedReply(text="x")) as two,
        client_of(upstream(one), upstream(two, "second")) as client,
    ):
        deltas = [d async for d in client.stream(ask(), deadline_s=soon())]
    assert deltas[-1].completion.upstream == "second"


@pytest.mark.parametrize("ending", ["half_close", "reset", "complete"])
async def test_a_stream_that_dies_half_way_is_an_error_and_never_tried_again(ending):
    """A body that ends properly in mid-answer is the case a naive client takes for success."""
    first = b'data: {"choices": [{"delta": {"content": "half"}}]}\n\n'
    seen_by_client = asyncio.Event()
    chunks = [first, b'data: {"choices": [{"del']
    reply = ScriptedReply(chunks=chunks, between=seen_by_client, ending=ending)
    async with (
        ScriptedUpstream(reply) as one,
        ScriptedUpstream(ScriptedReply(text="x")) as two,
        client_of(upstream(one), upstream(two, "second")) as client,
    ):
        stream = client.stream(ask(), deadline_s=soon())
        assert (await anext(stream)).text == "half"
        seen_by_client.set()
        with pytest.raises(UpstreamUnavailable, match="'first'"):
            await anext(stream)
    assert (len(one.requests), len(two.requests)) == (1, 0)


async def test_a_missing_done_is_fine_when_the_answer_said_that_it_finished():
    event = b'data: {"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}]}\n\n'
    async with (
        ScriptedUpstream(ScriptedReply(chunks=[event])) as server,
        client_of(upstream(server)) as client,
    ):
        deltas = [d async for d in client.stream(ask(), deadline_s=soon())]
    assert deltas[-1].completion.text == "all"


async def test_a_server_that_keeps_the_body_open_after_done_does_not_hold_the_answer():
    events = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n'
    reply = ScriptedReply(chunks=[events, b": never sent\n\n"], between=asyncio.Event())
    async with ScriptedUpstream(reply) as server, client_of(upstream(server)) as client:
        deltas = [d async for d in client.stream(ask(), deadline_s=soon())]
        await server.wait_for_disconnects(1)
    assert deltas[-1].completion.text == "a"


async def test_characters_whose_bytes_arrive_apart_stay_whole():
    raw = 'data: {"choices": [{"delta": {"content": "é😀"}}]}\n\ndata: [DONE]\n\n'.encode()
    reply = ScriptedReply(chunks=[bytes([byte]) for byte in raw])
    async with ScriptedUpstream(reply) as server, client_of(upstream(server)) as client:
        deltas = [d async for d in client.stream(ask(), deadline_s=soon())]
    assert deltas[-1].completion.text == "é😀"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_huge_body_is_cut_off_instead_of_held_in_memory(stream):
    mebibyte = b"x" * 1024 * 1024
    endless = ScriptedReply(chunks=[mebibyte] * (MAX_RESPONSE_BYTES // len(mebibyte) + 4))
    async with ScriptedUpstream(endless) as server, client_of(upstream(server)) as client:
        with pytest.raises(InvalidAnswer, match="'first': response is larger than 8388608 bytes"):
            await (
                collect(client.stream(ask(), deadline_s=soon()), [])
                if stream
                else client.complete(ask(), deadline_s=soon())
            )


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (ScriptedReply(chunks=[b"<html>hello</html>"]), "response body is not JSON"),
        (ScriptedReply(chunks=[b"[]"]), "not a JSON object"),
        (ScriptedReply(chunks=[b"{}"]), "no choices"),
        (ScriptedReply(chunks=[b"[" * 100_000]), "not JSON"),
        (ScriptedReply(text="  \n"), "empty answer, finish reason stop"),
        (ScriptedReply(text="", finish_reason="length"), "empty answer, finish reason length"),
        (ScriptedReply(text="x", headers={"content-encoding": "gzip"}), "compressed"),
    ],
)
async def test_an_answer_that_is_none_is_invalid_and_says_why(reply, problem):
    async with ScriptedUpstream(reply) as server, client_of(upstream(server)) as client:
        with pytest.raises(InvalidAnswer, match=problem):
            await client.complete(ask(), deadline_s=soon())


async def test_a_filtered_answer_is_returned_as_filtered():
    reply = ScriptedReply(finish_reason="content_filter")
    async with ScriptedUpstream(reply) as server, client_of(upstream(server)) as client:
        answer = await client.complete(ask(), deadline_s=soon())
    assert (answer.text, answer.finish_reason) == ("", "content_filter")


SCHEMA = JsonSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


async def test_slightly_broken_json_is_repaired_before_it_is_checked():
    async with (
        ScriptedUpstream(ScriptedReply(text="```json\n{'n': 3,}\n```")) as server,
        client_of(upstream(server)) as client,
    ):
        answer = await client.complete(ask(response_schema=SCHEMA), deadline_s=soon())
    assert json.loads(answer.text) == {"n": 3}
    sent = server.requests[0].body["response_format"]
    assert sent["json_schema"]["schema"] == SCHEMA.document
    assert sent["json_schema"]["strict"] is True


@pytest.mark.parametrize("text", ['{"n": "three"}', "{}"])
async def test_json_against_its_schema_is_invalid_and_names_the_property(text):
    async with (
        ScriptedUpstream(ScriptedReply(text=text)) as server,
        client_of(upstream(server)) as client,
    ):
        with pytest.raises(InvalidAnswer, match="'n': answer violates") as raised:
            await client.complete(ask(response_schema=SCHEMA), deadline_s=soon())
    assert raised.value.field == "n"
    assert "three" not in str(raised.value)


async def test_streamed_json_cannot_be_repaired_any_more_so_it_is_invalid():
    async with (
        ScriptedUpstream(ScriptedReply(text="{'n': 3}")) as server,
        client_of(upstream(server)) as client,
    ):
        seen = []
        with pytest.raises(InvalidAnswer, match="not JSON"):
            await collect(client.stream(ask(response_schema=SCHEMA), deadline_s=soon()), seen)
    assert "".join(seen) == "{'n': 3}"


async def test_five_failures_open_the_breaker_and_a_probe_after_the_cool_down_closes_it():
    clock, attempts = ManualClock(), []
    failing = [ScriptedReply(status=500)] * 5
    async with (
        ScriptedUpstream(*failing, then=ScriptedReply(text="back")) as server,
        client_of(upstream(server), clock=clock) as client,
    ):

        async def complete():
            return await client.complete(
                ask(), deadline_s=clock() + 5.0, on_attempt=attempts.append
            )

        for _ in range(5):
            with pytest.raises(UpstreamUnavailable, match="status 500"):
                await complete()
        with pytest.raises(UpstreamUnavailable, match="'first': circuit breaker is open"):
            await complete()
        assert len(server.requests) == 5
        assert attempts[-1].outcome == "unavailable"
        clock.ahead_s = 10.0
        assert (await complete()).text == "back"
        assert (await complete()).text == "back"


@pytest.mark.parametrize("seconds_ago", [0.0, 60.0])
async def test_nothing_is_sent_when_the_deadline_has_passed(seconds_ago):
    async with (
        ScriptedUpstream(then=ScriptedReply(text="x")) as server,
        client_of(upstream(server)) as client,
    ):
        past = time.monotonic() - seconds_ago
        with pytest.raises(DeadlineExceeded, match="'first'"):
            await client.complete(ask(), deadline_s=past)
        with pytest.raises(DeadlineExceeded):
            async for _ in client.stream(ask(), deadline_s=past):
                pass
    assert (server.requests, server.connections) == ([], 0)


@pytest.mark.parametrize("deadline_s", [float("inf"), float("nan")])
async def test_a_deadline_that_never_comes_is_refused(deadline_s):
    async with client_of(upstream("http://127.0.0.1:9/v1")) as client:
        with pytest.raises(ValueError, match="deadline_s: must be finite"):
            await client.complete(ask(), deadline_s=deadline_s)
        with pytest.raises(ValueError, match="deadline_s: must be finite"):
            await client.probe("first", deadline_s)


async def test_two_upstreams_of_one_name_are_refused_by_that_name():
    twins = [upstream("http://127.0.0.1:9/v1", "twin"), upstream("http://127.0.0.1:10/v1", "twin")]
    with pytest.raises(ValueError, match="upstreams: two are named 'twin'"):
        ChatClient(twins, clock=time.monotonic, random=random.Random(1))


async def test_without_an_upstream_the_error_says_so():
    async with client_of() as client:
        with pytest.raises(NotConfigured, match="none is configured"):
            await client.complete(ask(), deadline_s=soon())


async def test_a_probe_lists_models_or_says_why_not():
    async with ScriptedUpstream() as server, client_of(upstream(server)) as client:
        found = await client.probe("first", soon())
        with pytest.raises(NotConfigured, match="'third': no upstream has this name"):
            await client.probe("third", soon())
    assert found.models == ("scripted",)
    async with ScriptedUpstream(models_status=401) as server, client_of(upstream(server)) as client:
        with pytest.raises(UpstreamRejected, match="status 401"):
            await client.probe("first", soon())


async def test_the_environment_cannot_send_requests_through_a_proxy(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", await unused_url())
    monkeypatch.setenv("ALL_PROXY", await unused_url())
    async with (
        ScriptedUpstream(ScriptedReply(text="direct")) as server,
        client_of(upstream(server)) as client,
    ):
        assert (await client.complete(ask(), deadline_s=soon())).text == "direct"


@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(status=401, chunks=[f"{SECRET} {PROMPT}".encode()]),
        ScriptedReply(status=500, chunks=[f"{SECRET} {PROMPT}".encode()]),
        ScriptedReply(chunks=[f"{SECRET} {PROMPT}".encode()]),
        ScriptedReply(text=f"{SECRET} {PROMPT}"),
        ScriptedReply(chunks=[b'{"error": {"message": "%s"}}' % PROMPT.encode()]),
        ScriptedReply(chunks=[b"{", b"}"], ending="reset"),
    ],
)
async def test_neither_key_nor_text_is_in_an_error_its_traceback_or_an_attempt(reply):
    attempts = []
    async with (
        ScriptedUpstream(reply) as server,
        client_of(upstream(server, api_key=SECRET, max_attempts=1)) as client,
    ):
        with pytest.raises(Exception) as raised:
            await client.complete(
                ask(response_schema=SCHEMA), deadline_s=soon(), on_attempt=attempts.append
            )
    shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + repr(attempts)
    assert "'first'" in shown
    assert SECRET not in shown
    assert PROMPT not in shown
