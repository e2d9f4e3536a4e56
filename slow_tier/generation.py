"""Generate one answer at one upstream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

import httpx

from slow_tier.completion import Completion, CompletionRequest, Delta
from slow_tier.errors import InvalidAnswer, SlowTierError, UpstreamUnavailable
from slow_tier.exchange import ConnectTimer, build_request, exchange
from slow_tier.reply import Reply, ReplyAssembler
from slow_tier.sse import EventDecoder
from slow_tier.structured import check_json, repair_json
from slow_tier.upstream import Upstream
from slow_tier.wire import decode_completion, encode_request

# The end of a body mostly arrives together with its last event. Reading it lets the
# connection be used again; a server that keeps the body open costs this much, once.
_DRAIN_S = 0.05


async def generate(
    http: httpx.AsyncClient,
    upstream: Upstream,
    request: CompletionRequest,
    *,
    deadline_s: float,
    clock: Callable[[], float],
    stream: bool,
) -> AsyncGenerator[Delta, None]:
    """Yield the deltas of one answer, the last one with the completion.

    Args:
        http: Sends the request.
        upstream: Whom to ask.
        request: What to generate.
        deadline_s: Absolute monotonic time, finite.
        clock: Monotonic seconds.
        stream: Whether to have the server stream; without it there is one delta.

    Raises:
        SlowTierError: Any but NotConfigured, see `slow_tier.errors`.
        ValueError: If the response schema refers outside itself.
    """
    started_s = clock()
    connect = ConnectTimer(clock)
    first_s: float | None = None
    body = encode_request(
        request, model=upstream.model, system_prompt=upstream.system_prompt, stream=stream
    )
    http_request = build_request(http, upstream, "POST", "/chat/completions", body=body)
    http_request.extensions["trace"] = connect
    assembler = ReplyAssembler(upstream=upstream.name)
    events = EventDecoder()
    plain = bytearray()
    async with aclosing(
        exchange(http, upstream, http_request, deadline_s=deadline_s, clock=clock)
    ) as chunks:
        async for chunk in chunks:
            if not stream:
                first_s = clock() if first_s is None else first_s
                plain += chunk
                continue
            for event in events.feed(chunk):
                text = assembler.add_event(event)
                if first_s is None and assembler.started:
                    first_s = clock()
                if text:
                    yield Delta(text=text, completion=None)
                if assembler.done:
                    break
            if assembler.done:
                with contextlib.suppress(TimeoutError, SlowTierError):
                    async with asyncio.timeout(_DRAIN_S):
                        await anext(chunks, None)
                break
    if stream and not assembler.complete:
        raise UpstreamUnavailable(
            upstream=upstream.name, reason="the stream ended before the answer did"
        )
    reply = assembler.reply() if stream else decode_completion(bytes(plain), upstream=upstream.name)
    reply = _checked(reply, request, upstream=upstream.name, repair=not stream)
    ended_s = clock()
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
            first_token_ns=round(((ended_s if first_s is None else first_s) - started_s) * 1e9),
            total_ns=round((ended_s - started_s) * 1e9),
            token_logprobs=reply.token_logprobs,
        ),
    )


def _checked(reply: Reply, request: CompletionRequest, *, upstream: str, repair: bool) -> Reply:
    """Return the reply, its JSON repaired where allowed, if it is what was asked for."""
    if reply.finish_reason == "content_filter":
        return reply
    if not reply.text.strip() and not reply.tool_calls:
        raise InvalidAnswer(
            upstream=upstream, reason=f"empty answer, finish reason {reply.finish_reason}"
        )
    offered = {tool.name for tool in request.tools}
    if any(call.name not in offered for call in reply.tool_calls):
        raise InvalidAnswer(upstream=upstream, reason="calls a tool that was not offered")
    # A cut text cannot satisfy a schema; its finish reason already says that it is cut.
    if request.response_schema is None or reply.tool_calls or reply.finish_reason == "length":
        return reply
    text = repair_json(reply.text, upstream=upstream) if repair else reply.text
    check_json(text, request.response_schema, upstream=upstream)
    return replace(reply, text=text)
