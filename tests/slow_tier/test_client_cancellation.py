"""Whoever stops waiting also stops the server: cancellation, early close, deadline."""

import asyncio
import contextlib
import random
import time

import httpx
import pytest

from slow_tier.client import ChatClient, Upstream
from slow_tier.completion import ChatMessage, CompletionRequest
from slow_tier.errors import DeadlineExceeded, SlowTierError
from slow_tier.testing import ScriptedReply, ScriptedUpstream

REQUEST = CompletionRequest(
    messages=(ChatMessage(role="user", content="hello"),), temperature=0.5, max_output_tokens=9
)


@pytest.fixture
async def server():
    async with ScriptedUpstream() as running:
        yield running


@pytest.fixture
async def client(server):
    made = ChatClient(
        [Upstream(name="only", url=server.url, model="m")],
        clock=time.monotonic,
        random=random.Random(1),
    )
    yield made
    await made.aclose()


def play(server, **reply):
    server.reply_with(ScriptedReply(**reply))


def soon():
    return time.monotonic() + 5.0


@pytest.mark.parametrize("moment", ["before", "between"])
async def test_cancelling_a_completion_closes_the_request_at_the_server(server, client, moment):
    play(server, chunks=[b"{", b"}"], **{moment: asyncio.Event()})
    attempts = []
    task = asyncio.create_task(
        client.complete(REQUEST, deadline_s=soon(), on_attempt=attempts.append)
    )
    await server.wait_for_requests(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.wait_for_disconnects(1)
    assert [attempt.outcome for attempt in attempts] == ["cancelled"]


async def test_cancelling_the_reader_of_a_stream_closes_the_request_at_the_server(server, client):
    play(server, text="ab", between=asyncio.Event())
    reading = asyncio.create_task(anext(client.stream(REQUEST, deadline_s=soon())))
    await server.wait_for_requests(1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await server.wait_for_disconnects(1)


async def test_closing_a_stream_early_closes_the_request_at_the_server(server, client):
    first = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
    play(server, chunks=[first, first], between=asyncio.Event())
    attempts = []
    stream = client.stream(REQUEST, deadline_s=soon(), on_attempt=attempts.append)
    assert (await anext(stream)).text == "a"
    await stream.aclose()
    await server.wait_for_disconnects(1)
    assert [attempt.outcome for attempt in attempts] == ["cancelled"]


class RecordedStream(httpx.AsyncByteStream):
    """Held by its test, so that no garbage collection can close it in the client's place."""

    def __init__(self):
        self.closed = False

    async def __aiter__(self):
        while True:
            yield b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'

    async def aclose(self):
        self.closed = True


@pytest.mark.parametrize("status", [200, 400, 429, 500])
async def test_a_response_left_unread_is_closed_before_the_caller_goes_on(status):
    body = RecordedStream()
    transport = httpx.MockTransport(lambda _: httpx.Response(status, stream=body))
    client = ChatClient(
        [Upstream(name="only", url="http://host/v1", model="m")],
        clock=time.monotonic,
        random=random.Random(1),
        transport=transport,
    )
    stream = client.stream(REQUEST, deadline_s=soon())
    with contextlib.suppress(SlowTierError):
        await anext(stream)
    assert body.closed is (status != 200)
    await stream.aclose()
    assert body.closed
    await client.aclose()


@pytest.mark.parametrize("moment", ["before", "between"])
async def test_the_deadline_ends_a_completion_and_the_request(server, client, moment):
    play(server, chunks=[b"{", b"}"], **{moment: asyncio.Event()})
    with pytest.raises(DeadlineExceeded, match="'only'"):
        await client.complete(REQUEST, deadline_s=time.monotonic() + 0.04)
    await server.wait_for_disconnects(1)


async def test_the_deadline_ends_a_stream_between_two_tokens(server, client):
    first = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
    play(server, chunks=[first, first], between=asyncio.Event())
    stream = client.stream(REQUEST, deadline_s=time.monotonic() + 0.04)
    assert (await anext(stream)).text == "a"
    with pytest.raises(DeadlineExceeded):
        await anext(stream)
    await server.wait_for_disconnects(1)


async def test_the_deadline_never_cancels_the_code_that_reads_the_stream(server, client):
    """A timeout that spans a ``yield`` would fire in the reader's own await."""
    play(server, text="ab")
    stream = client.stream(REQUEST, deadline_s=time.monotonic() + 0.03)
    await anext(stream)
    await asyncio.sleep(0.05)
    await stream.aclose()


async def test_cancelling_between_attempts_ends_the_call(server, client):
    play(server, status=429, headers={"retry-after": "2"})
    play(server, text="too late")
    attempts = []
    failed = asyncio.Event()

    def note(attempt):
        attempts.append(attempt.outcome)
        failed.set()

    task = asyncio.create_task(client.complete(REQUEST, deadline_s=soon(), on_attempt=note))
    await failed.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert attempts == ["rate_limited"]
    assert len(server.requests) == 1


async def test_a_cancelled_call_leaves_the_client_usable(server, client):
    play(server, before=asyncio.Event())
    play(server, text="fine")
    task = asyncio.create_task(client.complete(REQUEST, deadline_s=soon()))
    await server.wait_for_requests(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await client.complete(REQUEST, deadline_s=soon())).text == "fine"
