"""The client against a real local server: answers, failures, retries, failover, limits."""

import asyncio
import json
import random
import time
import traceback
from contextlib import asynccontextmanager

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


@pytest.mark.parametrize("status", [301, 400, 401, 404, 422])
async def test_a_rejection_is_neither_retried_nor_passed_to_the_next_upstream(status):
    reply = ScriptedReply(status=status, headers={"location": "/v1/elsewhere"})
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


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_slightly_broken_json_is_repaired_before_it_is_checked():
    async with (
        ScriptedUpstream(ScriptedReply(text="```json\n{'n': 3,}\n```")) as server,
        client_of(upstream(server)) as client,
    ):
        answer = await client.complete(ask(response_schema=SCHEMA), deadline_s=soon())
    assert json.loads(answer.text) == {"n": 3}
    sent = server.requests[0].body["response_format"]
    assert sent["json_schema"]["schema"] == SCHEMA
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
