"""Generate one answer at one upstream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

import httpx

from slow_tier.completion import Completion, CompletionRequest, Delta
from slow_tier.errors import (
    DeadlineExceeded,
    InvalidAnswer,
    SlowTierError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from slow_tier.exchange import ConnectTimer, build_request, exchange
from slow_tier.reply import Reply, ReplyAssembler
from slow_tier.sse import EventDecoder
from slow_tier.structured import check_json, repair_json
from slow_tier.tool_names import names_on_the_wire
from slow_tier.upstream import Upstream
from slow_tier.wire import decode_completion, encode_request

# The end of a body mostly arrives together with its last event. Reading it lets the
# connection be used again; a server that keeps the body open costs this much, once.
_DRAIN_S = 0.05
# Silence that speaks against the upstream instead of the caller's deadline: with less, one
# caller of short deadlines could open the breaker for everybody. A choice, no measurement.
HANGS_AFTER_S = 10.0


async def generate(
    http: httpx.AsyncClient,
    upstream: Upstream,
    request: CompletionRequest,
    *,
    start_by_s: float,
    deadline_s: float,
    clock: Callable[[], float],
    stream: bool,
) -> AsyncGenerator[Delta, None]:
    """Yield the deltas of one answer, the last one with the completion.

    Args:
        http: Sends the request.
        upstream: Whom to ask.
        request: What to generate.
        start_by_s: Absolute monotonic time by which the answer has to begin; one that is not
            streamed begins when it is whole.
        deadline_s: Absolute monotonic time, finite, by which it has to end.
        clock: Monotonic seconds.
        stream: Whether to have the server stream; without it there is one delta.

    Raises:
        SlowTierError: Any but NotConfigured, see `slow_tier.errors`.
    """
    progress = _Progress(start_by_s=start_by_s, deadline_s=deadline_s, clock=clock)
    connect = ConnectTimer(clock)
    body = encode_request(
        request,
        model=upstream.model,
        system_prompt=upstream.system_prompt,
        dialect=upstream.dialect,
        stream=stream,
    )
    http_request = build_request(http, upstream, "POST", "/chat/completions", body=body)
    http_request.extensions["trace"] = connect
    assembler = ReplyAssembler(upstream=upstream.name)
    events = EventDecoder()
    plain = bytearray()
    chunks = exchange(http, upstream, http_request, deadline_s=progress.next_step_by_s, clock=clock)
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                if not stream:
                    progress.note(begun=True, shown=True)
                    plain += chunk
                    continue
                for event in events.feed(chunk):
                    text = assembler.add_event(event)
                    progress.note(begun=assembler.begun, shown=assembler.started)
                    if text:
                        yield Delta(text=text, completion=None)
                    if assembler.done:
                        break
                if assembler.done:
                    with contextlib.suppress(TimeoutError, SlowTierError):
                        async with asyncio.timeout(_DRAIN_S):
                            await anext(chunks, None)
                    break
    except DeadlineExceeded:
        raise progress.late(upstream.name) from None
    if stream and not assembler.complete:
        raise UpstreamUnavailable(
            upstream=upstream.name, reason="the stream ended before the answer did"
        )
    reply = assembler.reply() if stream else decode_completion(bytes(plain), upstream=upstream.name)
    reply = _checked(reply, request, upstream=upstream.name, repair=not stream)
    ended_s = clock()
    first_s = ended_s if progress.first_s is None else progress.first_s
    yield Delta(
        text="",
        completion=Completion(
            text=reply.text,
            tool_calls=reply.tool_calls,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            model=reply.model or upstream.model,
            upstream=upstream.name,
            connect_ns=round(connect.elapsed_s * 1e9),
            first_token_ns=round((first_s - progress.started_s) * 1e9),
            total_ns=round((ended_s - progress.started_s) * 1e9),
            token_logprobs=reply.token_logprobs,
        ),
    )


class _Progress:
    """How far an answer has come, hence how long to wait for its next piece."""

    def __init__(self, *, start_by_s: float, deadline_s: float, clock: Callable[[], float]) -> None:
        self._start_by_s = min(start_by_s, deadline_s)
        self._deadline_s = deadline_s
        self._clock = clock
        self._begun = False
        self.started_s = clock()
        self.first_s: float | None = None

    def note(self, *, begun: bool, shown: bool) -> None:
        self._begun |= begun
        if shown and self.first_s is None:
            self.first_s = self._clock()

    def next_step_by_s(self) -> float:
        return self._deadline_s if self._begun else self._start_by_s

    def late(self, upstream: str) -> SlowTierError:
        """Return the error for a step that took too long."""
        if self._begun:
            return DeadlineExceeded(upstream=upstream)
        waited_s = self._clock() - self.started_s
        alive = False if waited_s >= HANGS_AFTER_S else None
        if self._start_by_s < self._deadline_s:
            reason = f"no answer began within {waited_s:.3g} s"
            return UpstreamTimeout(upstream=upstream, reason=reason, alive=alive)
        return DeadlineExceeded(upstream=upstream, alive=alive)


def _checked(reply: Reply, request: CompletionRequest, *, upstream: str, repair: bool) -> Reply:
    """Return the reply, its JSON repaired where allowed, if it is what was asked for."""
    if reply.finish_reason == "content_filter":
        return reply
    if not reply.text.strip() and not reply.tool_calls:
        raise InvalidAnswer(
            upstream=upstream, reason=f"empty answer, finish reason {reply.finish_reason}"
        )
    spelt = names_on_the_wire(tool.name for tool in request.tools)
    offered = {wire_name: name for name, wire_name in spelt.items()}
    if any(call.name not in offered for call in reply.tool_calls):
        raise InvalidAnswer(upstream=upstream, reason="calls a tool that was not offered")
    calls = tuple(replace(call, name=offered[call.name]) for call in reply.tool_calls)
    reply = replace(reply, tool_calls=calls)
    # A cut text cannot satisfy a schema; its finish reason already says that it is cut.
    if request.response_schema is None or reply.tool_calls or reply.finish_reason == "length":
        return reply
    text = repair_json(reply.text, upstream=upstream) if repair else reply.text
    check_json(text, request.response_schema, upstream=upstream)
    return replace(reply, text=text)
