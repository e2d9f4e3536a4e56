"""Stand in for an OpenAI-compatible server, over real sockets, with scripted replies.

Usable from any test::

    async with ScriptedUpstream(ScriptedReply(text="Paris")) as server:
        upstream = Upstream(name="a", url=server.url, model="m")

It speaks as much HTTP/1.1 as a test needs: keep-alive, a body with a content length in,
chunked or counted bodies out. It is no server for anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from slow_tier.completion import FinishReason, TokenLogprob, ToolCall

_MODEL = "scripted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """What to answer to one POST; streamed when, and only when, the request asks for it.

    Attributes:
        text: Content of the answer; a stream sends it a character an event.
        tool_calls: Calls of the answer; a stream cuts the arguments in two.
        finish_reason: Why generation ended.
        token_logprobs: Sent when given.
        status: HTTP status.
        headers: Further response headers.
        chunks: Raw body to send instead of all the above, in these pieces.
        before: Awaited before anything is sent.
        between: Awaited after the first piece of the body.
        ending: ``complete`` ends the body properly, ``half_close`` ends the connection
            before the body ends, ``reset`` breaks it.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    token_logprobs: tuple[TokenLogprob, ...] | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] | None = None
    before: asyncio.Event | None = None
    between: asyncio.Event | None = None
    ending: Literal["complete", "half_close", "reset"] = "complete"

    def body(self, *, stream: bool) -> list[bytes]:
        """Return the pieces of the body."""
        if self.chunks is not None:
            return list(self.chunks)
        if self.status != 200:
            return [b'{"error": {"message": "scripted"}}']
        if stream:
            events = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in self._events()]
            return [*events, b"data: [DONE]\n\n"]
        calls = [_call(call, index=None) for call in self.tool_calls]
        message = {"role": "assistant", "content": self.text or None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        if self.token_logprobs is not None:
            choice["logprobs"] = _logprobs(self.token_logprobs)
        payload = {"model": _MODEL, "choices": [choice], "usage": self._usage()}
        return [json.dumps(payload).encode()]

    def _events(self) -> Iterator[dict[str, Any]]:
        yield _event({"role": "assistant", "content": ""})
        for character in self.text:
            yield _event({"content": character})
        for index, call in enumerate(self.tool_calls):
            half = len(call.arguments_json) // 2
            first = _call(call, index=index)
            first["function"]["arguments"] = call.arguments_json[:half]
            yield _event({"tool_calls": [first]})
            rest = {"index": index, "function": {"arguments": call.arguments_json[half:]}}
            yield _event({"tool_calls": [rest]})
        last = _event({}, finish_reason=self.finish_reason)
        if self.token_logprobs is not None:
            last["choices"][0]["logprobs"] = _logprobs(self.token_logprobs)
        yield last
        yield {"model": _MODEL, "choices": [], "usage": self._usage()}

    def _usage(self) -> dict[str, int]:
        """Count a token a character, which is easy to check by hand."""
        return {"prompt_tokens": 7, "completion_tokens": len(self.text)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request as it arrived; header names are lower case, the body decoded JSON or None."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class ScriptedUpstream:
    """A local server that plays its replies in order; an async context manager.

    Args:
        replies: One a POST request.
        then: Played for every POST after them; without it those get status 500.
        models_status: Status of ``GET /models``, which lists one model.

    Attributes:
        requests: Every request, in order of arrival.
        connections: Connections accepted so far.
        disconnects: Connections the client ended while a reply was not yet sent.
    """

    def __init__(
        self,
        *replies: ScriptedReply,
        then: ScriptedReply | None = None,
        models_status: int = 200,
    ) -> None:
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        self.disconnects = 0
        self._replies = list(replies)
        self._then = then or ScriptedReply(status=500)
        self._models_status = models_status
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Return the base URL, ``http://127.0.0.1:<port>/v1``, once started."""
        assert self._server is not None, "not started"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def reply_with(self, *replies: ScriptedReply) -> None:
        """Play these too, after the replies that are still to come."""
        self._replies += replies

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Stop listening, break what is still open."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def wait_for_requests(self, count: int) -> None:
        """Return once that many requests have arrived."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)

    async def wait_for_disconnects(self, count: int) -> None:
        """Return once that many clients have hung up on an unfinished reply."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.disconnects >= count)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                await self._notify()
                if not await self._play(self._next_reply(request), request, reader, writer):
                    break
        except ConnectionError:
            pass  # the client hung up; whoever cares waits for `disconnects`
        except asyncio.CancelledError:
            pass  # `stop`; asyncio's own callback would report the cancellation as an error
        finally:
            self._tasks.discard(task)
            writer.close()

    def _next_reply(self, request: RecordedRequest) -> ScriptedReply:
        if request.method == "GET":
            listing = json.dumps({"data": [{"id": _MODEL}]}).encode()
            return ScriptedReply(status=self._models_status, chunks=[listing])
        return self._replies.pop(0) if self._replies else self._then

    async def _play(
        self,
        reply: ScriptedReply,
        request: RecordedRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Send a reply, return whether the connection may be used again."""
        if not await self._reached(reply.before, reader):
            return False
        stream = bool(request.body and request.body.get("stream"))
        kind = "text/event-stream" if stream and reply.status == 200 else "application/json"
        headers = {"content-type": kind, "transfer-encoding": "chunked", **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for index, chunk in enumerate(reply.body(stream=stream)):
            if index == 1 and not await self._reached(reply.between, reader):
                return False
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await writer.drain()
        if reply.ending == "complete":
            writer.write(b"0\r\n\r\n")
        elif reply.ending == "reset":
            writer.transport.abort()
        return reply.ending == "complete"

    async def _reached(self, gate: asyncio.Event | None, reader: asyncio.StreamReader) -> bool:
        """Wait at a gate, return False if the client hangs up first."""
        if gate is None:
            return True
        opened = asyncio.ensure_future(gate.wait())
        # A client sends nothing while it waits, so the end of its stream is all there is to read.
        hung_up = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({opened, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            if not hung_up.done():
                return True
        finally:
            for waiting in (opened, hung_up):
                waiting.cancel()
            await asyncio.gather(opened, hung_up, return_exceptions=True)
        self.disconnects += 1
        await self._notify()
        return False

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def _read_request(reader: asyncio.StreamReader) -> RecordedRequest | None:
    with contextlib.suppress(asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        start, *lines = head.rstrip("\r\n").split("\r\n")
        method, path, _ = start.split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        decoded = json.loads(body) if body else None
        return RecordedRequest(method=method, path=path, headers=headers, body=decoded)
    return None


def _event(delta: dict[str, Any], finish_reason: FinishReason | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"model": _MODEL, "choices": [choice]}


def _call(call: ToolCall, index: int | None) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments_json}
    shown = {"id": call.id, "type": "function", "function": function}
    return shown if index is None else {"index": index, **shown}


def _logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    return {
        "content": [
            {
                "token": token.token,
                "logprob": token.logprob,
                "top_logprobs": [
                    {"token": name, "logprob": logprob}
                    for name, logprob in token.alternatives.items()
                ],
            }
            for token in tokens
        ]
    }
