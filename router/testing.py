"""Fakes for the edges of the router: a scripted router, a cache with fixed counts, a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

from cache.statistics import CacheStats
from router.domain import (
    AnsweredBy,
    DecideOutcome,
    Decision,
    Reason,
    Request,
    RouteOutcome,
    Tier,
    Timings,
)
from router.errors import UnknownDecision
from router.malformed import MalformedRequestInterceptor

DECISION_ID = "0123456789abcdef0123456789abcdef"


def sample_decision(*, reason: Reason = Reason.CONFIDENT) -> Decision:
    """Return a decision whose every field differs from its default."""
    return Decision(
        decision_id=DECISION_ID,
        tier=Tier.FAST,
        reason=reason,
        route="fast",
        probabilities={"fast": 0.75, "slow": 0.25},
        threshold=0.5,
        strong_gain=-0.25,
        sampling_temperature=0.5,
        expected_output_tokens=12,
        expected_output_tokens_p95=48,
        features={"length": 0.125},
        input_tokens=9,
        encoder_revision="laya-base@0123",
        config_revision="abcdef012345",
        decided_at_s=1_700_000_000.25,
        experiment="threshold",
        variant="low",
        propensity=0.5,
    )


@dataclass(slots=True)
class ScriptedRouter:
    """Gives the scripted outcomes and remembers what it was asked.

    Attributes:
        error: Raised instead of any outcome.
        pieces: Text of a streamed answer, piece by piece.
        gate: Awaited before every outcome and before every piece after the first; ``None`` =
            at once.
        requests: What arrived.
        reports: Keyword arguments of ``record_outcome``, with the tenant.
        started: Set when a request arrives.
        cancelled: Requests that were cancelled while they waited.
    """

    error: Exception | None = None
    pieces: tuple[str, ...] = ("four", "ty-two")
    gate: asyncio.Event | None = None
    requests: list[Request] = field(default_factory=list)
    reports: list[dict[str, object]] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0

    async def route(self, request: Request) -> RouteOutcome:
        """Return the sample decision."""
        await self._arrive(request)
        return RouteOutcome(decision=sample_decision(), timings=Timings(encode_ns=7))

    async def route_many(self, requests: list[Request]) -> Sequence[RouteOutcome | BaseException]:
        """Return the sample decision, or the scripted error, for each."""
        return await asyncio.gather(*(self.route(r) for r in requests), return_exceptions=True)

    async def decide(self, request: Request) -> DecideOutcome:
        """Return all pieces as one text."""
        await self._arrive(request)
        return self._outcome()

    async def decide_stream(
        self, request: Request
    ) -> AsyncGenerator[Decision | str | DecideOutcome, None]:
        """Yield the sample decision, the pieces, the outcome."""
        self.requests.append(request)
        self.started.set()
        yield sample_decision()
        for index, piece in enumerate(self.pieces):
            if index > 0:
                await self._wait()
            yield piece
        if self.error is not None:
            raise self.error
        yield self._outcome()

    def record_outcome(
        self,
        tenant: str,
        decision_id: str,
        *,
        accepted: bool | None,
        score: float | None,
        cost_usd: float | None,
    ) -> bool:
        """Know the sample decision of the tenant ``default`` alone; evict when rejected."""
        if (tenant, decision_id) != ("default", DECISION_ID):
            msg = "no such decision"
            raise UnknownDecision(msg, field="decision_id")
        self.reports.append({"accepted": accepted, "score": score, "cost_usd": cost_usd})
        return accepted is False

    async def _arrive(self, request: Request) -> None:
        self.requests.append(request)
        self.started.set()
        await self._wait()
        if self.error is not None:
            raise self.error

    async def _wait(self) -> None:
        if self.gate is None:
            return
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    def _outcome(self) -> DecideOutcome:
        return DecideOutcome(
            decision=sample_decision(),
            answered_by=AnsweredBy.FAST_TIER,
            text="".join(self.pieces),
            input_tokens=9,
            output_tokens=3,
        )


@dataclass(slots=True)
class FixedCacheAdmin:
    """Reports fixed counts and remembers what was to be removed.

    Attributes:
        counts: Given to every tenant.
        removals: ``(tenant, namespace, key, revision)`` of every removal.
    """

    counts: CacheStats
    removals: list[tuple[str, str | None, str | None, str | None]] = field(default_factory=list)

    def stats(self, tenant: str) -> CacheStats:
        """Return the fixed counts."""
        del tenant
        return self.counts

    def invalidate(
        self, tenant: str, *, namespace: str | None, key: str | None, revision: str | None
    ) -> int:
        """Remember the call and claim one removed entry."""
        self.removals.append((tenant, namespace, key, revision))
        return 1


@asynccontextmanager
async def loopback_channel(
    *add_services: Callable[[grpc.aio.Server], None],
) -> AsyncIterator[grpc.aio.Channel]:
    """Serve on a free loopback port and yield a channel to it.

    Args:
        add_services: Each adds one servicer to the server.
    """
    server = grpc.aio.server(interceptors=(MalformedRequestInterceptor(),))
    for add in add_services:
        add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(grace=None)
