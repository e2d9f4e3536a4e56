"""Carry out one HTTP exchange within a deadline."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from slow_tier.errors import (
    DeadlineExceeded,
    InvalidAnswer,
    SlowTierError,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from slow_tier.retry import RETRYABLE_STATUSES, parse_retry_after_s
from slow_tier.upstream import Upstream

MAX_RESPONSE_BYTES = 8 * 1024 * 1024


def build_request(
    http: httpx.AsyncClient, upstream: Upstream, method: str, path: str, *, body: bytes = b""
) -> httpx.Request:
    """Return a request under the upstream's URL, with its key and its own time limits."""
    timeout = httpx.Timeout(None, connect=upstream.connect_timeout_s, read=upstream.read_timeout_s)
    return http.build_request(
        method,
        upstream.url + path,
        content=body or None,
        headers=upstream.headers(),
        timeout=timeout,
    )


class ConnectTimer:
    """Adds up the time httpcore spends on TCP and TLS set-up; an httpx ``trace`` callback.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started_s = 0.0
        self.elapsed_s = 0.0

    async def __call__(self, event: str, _info: dict[str, Any]) -> None:
        """Take one trace event, named in the httpx documentation under "Extensions"."""
        step, _, phase = event.rpartition(".")
        if step not in {"connection.connect_tcp", "connection.start_tls"}:
            return
        if phase == "started":
            self._started_s = self._clock()
        else:  # "complete" or "failed"
            self.elapsed_s += self._clock() - self._started_s


async def exchange(
    http: httpx.AsyncClient,
    upstream: Upstream,
    request: httpx.Request,
    *,
    deadline_s: Callable[[], float],
    clock: Callable[[], float],
) -> AsyncGenerator[bytes, None]:
    """Send a request, yield the body of its 2xx response as it arrives.

    The deadline bounds the connection, every read and so the whole. However the generator
    ends, cancellation and an early `aclose` included, the connection is released; one whose
    response was not read to its end is closed, so that the server stops generating.

    Args:
        http: Sends it.
        upstream: Whom to name in errors.
        request: Built by ``http``, with its own connect and read timeouts.
        deadline_s: Returns the absolute monotonic time, finite, by which the next step has to
            be done; asked before each.
        clock: Monotonic seconds.

    Raises:
        SlowTierError: Any but NotConfigured, see `slow_tier.errors`.
    """
    try:
        async with _bounded(upstream, deadline_s(), clock):
            response = await http.send(request, stream=True)
    except httpx.TransportError as error:
        raise _translate(error, upstream, answered=False) from None
    try:
        _check_head(response, upstream)
        received_bytes = 0
        chunks = response.aiter_bytes()
        while True:
            async with _bounded(upstream, deadline_s(), clock):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            received_bytes += len(chunk)
            if received_bytes > MAX_RESPONSE_BYTES:
                raise InvalidAnswer(
                    upstream=upstream.name,
                    reason=f"response is larger than {MAX_RESPONSE_BYTES} bytes",
                )
            yield chunk
    except httpx.TransportError as error:
        raise _translate(error, upstream, answered=True) from None
    finally:
        await response.aclose()


@asynccontextmanager
async def _bounded(
    upstream: Upstream, deadline_s: float, clock: Callable[[], float]
) -> AsyncIterator[None]:
    """Bound one await, never a ``yield`` to the caller: the timeout would cancel its code."""
    remaining_s = deadline_s - clock()
    if remaining_s <= 0.0:
        raise DeadlineExceeded(upstream=upstream.name)
    try:
        async with asyncio.timeout(remaining_s):
            yield
    except TimeoutError:
        raise DeadlineExceeded(upstream=upstream.name) from None


def check_deadline(deadline_s: float) -> None:
    """Refuse a deadline that is none.

    Raises:
        ValueError: If it is not finite; every call ends some time.
    """
    if not math.isfinite(deadline_s):
        msg = f"deadline_s: must be finite, got {deadline_s}"
        raise ValueError(msg)


def _check_head(response: httpx.Response, upstream: Upstream) -> None:
    status = response.status_code
    wait_s = parse_retry_after_s(response.headers)
    if status == 429:
        raise UpstreamRateLimited(upstream=upstream.name, retry_after_s=wait_s)
    if status >= 500:
        raise UpstreamUnavailable(
            upstream=upstream.name,
            reason=f"status {status}",
            retryable=status in RETRYABLE_STATUSES,
            retry_after_s=wait_s,
        )
    if not response.is_success:
        raise UpstreamRejected(upstream=upstream.name, status=status)
    if response.headers.get("content-encoding", "identity") != "identity":
        raise InvalidAnswer(upstream=upstream.name, reason="response is compressed, unasked")


def _translate(error: httpx.TransportError, upstream: Upstream, *, answered: bool) -> SlowTierError:
    """Turn a transport error into ours, by its class alone.

    The original is not chained either: its text can quote bytes of the response, and it
    holds the request with its key.
    """
    name = upstream.name
    match error:
        case httpx.ConnectTimeout():
            reason = f"no connection within {upstream.connect_timeout_s:g} s"
            return UpstreamTimeout(upstream=name, reason=reason, retryable=True)
        case httpx.TimeoutException():
            reason = f"silent for {upstream.read_timeout_s} s"
            return UpstreamTimeout(upstream=name, reason=reason)
        case httpx.ConnectError():
            return UpstreamUnavailable(upstream=name, reason="cannot connect", retryable=True)
        case _ if answered:
            return UpstreamUnavailable(upstream=name, reason="connection broke within the response")
        case _:
            # Typically a kept-alive connection that the server closed at the same moment.
            reason = "connection broke before the response"
            return UpstreamUnavailable(upstream=name, reason=reason, retryable=True)
