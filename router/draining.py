"""Give every call an end when the service stops.

Running calls get their time to finish. Every other one, those that run out of it included, ends as
UNAVAILABLE, not RESOURCE_EXHAUSTED: the caller has nothing to wait for here, and clients and
proxies retry UNAVAILABLE on another replica.

gRPC itself drops calls as CANCELLED, which nobody retries, when they arrive between its shutdown
and the moment at which their client has learned of it (the GOAWAY frame, RFC 9113, section 6.8).
Hence calls that come last are held until their clients have, and answered then: a caller that
waits for an answer does not send the next call into the gap.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from router.errors import Draining
from router.rewrapping import SERVICES, Behavior, rewrapped
from router.status import translated

_POLL_S = 0.02
# Without a new call for so long, those who call without a pause all have one held, at most so long.
_QUIET_S = 0.1
_SETTLE_S = 1.0
# For gRPC's GOAWAY to reach every client.
_GOAWAY_S = 0.05
# Between the end of the last call's work and its reply on the wire.
_FLUSH_S = 0.5


class DrainInterceptor(grpc.aio.ServerInterceptor):
    """Follows every call of ``router.v1`` from its arrival to its end, to stop a server by."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()
        self._draining = False
        self._last_refused_s = -math.inf
        self._may_refuse = asyncio.Event()
        self._may_refuse.set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of a call; those of other services pass as they are."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(SERVICES):
            return handler

        def wrap(behavior: Behavior) -> Behavior:
            async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
                async with translated(context):
                    if self._draining:
                        self._last_refused_s = asyncio.get_running_loop().time()
                        await self._may_refuse.wait()
                        raise _stopping()
                    return await self._followed(behavior(request, context))

            return call

        return rewrapped(handler, wrap, parse=None)

    async def stop(self, server: grpc.aio.Server, drain_s: float) -> None:
        """Refuse new calls, wait for those that run, then stop the server.

        Args:
            server: Whose calls this follows.
            drain_s: Time that running calls get, seconds.
        """
        self._draining = True
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + drain_s
        # Nobody but a drain waits for calls to end, so counting them needs no event.
        while self._running and loop.time() < ends_s:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        self._may_refuse.clear()
        for limit in self._running:
            limit.reschedule(loop.time())
        held_s = loop.time()
        settled_s = held_s + min(_SETTLE_S, drain_s)
        while loop.time() < min(settled_s, max(held_s, self._last_refused_s) + _QUIET_S):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        # Health watchers hold their calls open for ever, so this is no wait for everybody.
        stopping = asyncio.ensure_future(server.stop(min(_FLUSH_S, drain_s)))
        await asyncio.sleep(min(_GOAWAY_S, drain_s))
        self._may_refuse.set()
        await stopping

    async def _followed(self, work: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(None) as limit:
                self._running.add(limit)
                try:
                    return await work
                finally:
                    self._running.discard(limit)
        except TimeoutError:
            if limit.expired():
                raise _stopping() from None
            raise


def _stopping() -> Draining:
    return Draining("the service is shutting down; another replica may answer")
