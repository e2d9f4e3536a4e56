"""The gRPC servicer of ``RouterService``: admit, authenticate, validate, hand on, convert."""

# ruff: noqa: N802 - method names are given by the contract

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import grpc

from router.admission import Admission
from router.auth import Authenticator
from router.clock import Clock
from router.config import LimitsConfig
from router.domain import DecideOutcome, Decision, Request, RouteOutcome
from router.errors import DeadlinePassed, InvalidRequest, RequestError
from router.status import failure_of, translated
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc
from router.wire_in import (
    report_from_record_outcome,
    request_from_decide,
    request_from_route,
    request_from_stream,
)
from router.wire_out import batch_item, decide_response, route_response, stream_part

MAX_ITEMS = 256
# Checking the schemas of a larger request may hold up the event loop, so a thread does it.
MAX_INLINE_BYTES = 2_048
# Checking takes the interpreter's lock, so more threads would only slow the event loop down.
_CHECKING_THREADS = 2

Context = grpc.aio.ServicerContext[Any, Any]
RequestT = TypeVar("RequestT", pb.RouteRequest, pb.DecideRequest, pb.DecideStreamRequest)
RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
ResultT = TypeVar("ResultT")


class Router(Protocol):
    """What answers validated requests."""

    async def route(self, request: Request) -> RouteOutcome:
        """Decide."""
        ...

    async def route_many(self, requests: list[Request]) -> Sequence[RouteOutcome | BaseException]:
        """Decide many, in order; an item that fails is its error and fails no other."""
        ...

    async def decide(self, request: Request) -> DecideOutcome:
        """Answer."""
        ...

    def decide_stream(
        self, request: Request
    ) -> AsyncGenerator[Decision | str | DecideOutcome, None]:
        """Answer: the decision, then pieces of text, then the outcome.

        Closed or cancelled, it stops generating.
        """
        ...

    def record_outcome(
        self,
        tenant: str,
        decision_id: str,
        *,
        accepted: bool | None,
        score: float | None,
        cost_usd: float | None,
    ) -> bool:
        """Take a report; return whether a cached answer was evicted.

        Raises:
            UnknownDecision: If no such decision of this tenant is remembered.
        """
        ...


class _Convert(Protocol[RequestT_contra]):
    def __call__(
        self, message: RequestT_contra, /, *, tenant: str, deadline_s: float, limits: LimitsConfig
    ) -> Request: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caller:
    tenant: str
    deadline_s: float


class RouterServicer(pb_grpc.RouterServiceServicer):
    """Serves ``RouterService`` on grpc.aio.

    Args:
        router: Answers the requests.
        authenticator: Names the tenant of a call.
        admission: Limits the calls at once.
        limits: Limits of one request.
        clock: Deadlines are in its monotonic seconds.
    """

    def __init__(
        self,
        router: Router,
        *,
        authenticator: Authenticator,
        admission: Admission,
        limits: LimitsConfig,
        clock: Clock | None = None,
    ) -> None:
        self._router = router
        self._authenticator = authenticator
        self._admission = admission
        self._limits = limits
        self._clock = clock or Clock()
        # Of its own, so that what waits here holds nothing else up, at exit neither. Only calls
        # with a permit wait, and one that ends leaves the queue.
        self._checking = ThreadPoolExecutor(_CHECKING_THREADS, thread_name_prefix="checking")

    def close(self) -> None:
        """Give up the checks that have not begun."""
        self._checking.shutdown(wait=False, cancel_futures=True)

    async def Route(self, request: pb.RouteRequest, context: Context) -> pb.RouteResponse:
        """Decide where a request goes."""
        async with self._admitted(context) as caller:
            routed = await self._convert(request_from_route, request, caller)
            return route_response(await self._in_time(self._router.route(routed), caller))

    async def RouteBatch(
        self, request: pb.RouteBatchRequest, context: Context
    ) -> pb.RouteBatchResponse:
        """Decide for many requests, each with a status of its own."""
        async with self._admitted(context) as caller:
            if not 1 <= len(request.items) <= MAX_ITEMS:
                msg = f"has {len(request.items)} requests, must be 1 to {MAX_ITEMS}"
                raise InvalidRequest(msg, field="items")
            valid: dict[int, Request] = {}
            results: dict[int, RouteOutcome | BaseException] = {}
            for index, item in enumerate(request.items):
                # A turn for the other calls between items: each may hold costly schemas.
                await asyncio.sleep(0)
                try:
                    valid[index] = await self._convert(request_from_route, item, caller)
                except RequestError as error:
                    results[index] = error
            if valid:
                work = self._router.route_many(list(valid.values()))
                results |= zip(valid, await self._in_time(work, caller), strict=True)
            return pb.RouteBatchResponse(items=[_item(results[i]) for i in sorted(results)])

    async def Decide(self, request: pb.DecideRequest, context: Context) -> pb.DecideResponse:
        """Answer a request."""
        async with self._admitted(context) as caller:
            decided = await self._convert(request_from_decide, request, caller)
            return decide_response(await self._in_time(self._router.decide(decided), caller))

    # Writes instead of yielding: when the caller goes away, grpc.aio leaves a generator to the
    # garbage collector, while a coroutine is cancelled and gives its permit back at once.
    async def DecideStream(  # type: ignore[override]  # the stub knows generators only
        self, request: pb.DecideStreamRequest, context: Context
    ) -> None:
        """Answer a request, text as it is generated."""
        async with self._admitted(context) as caller:
            decided = await self._convert(request_from_stream, request, caller)
            async with aclosing(self._router.decide_stream(decided)) as parts:
                while (part := await self._in_time(_next(parts), caller)) is not None:
                    await self._in_time(context.write(stream_part(part)), caller)

    async def RecordOutcome(
        self, request: pb.RecordOutcomeRequest, context: Context
    ) -> pb.RecordOutcomeResponse:
        """Take a report on a decision."""
        async with self._admitted(context) as caller:
            report = report_from_record_outcome(request)
            evicted = self._router.record_outcome(
                caller.tenant,
                report.decision_id,
                accepted=report.accepted,
                score=report.score,
                cost_usd=report.cost_usd,
            )
            return pb.RecordOutcomeResponse(evicted=evicted)

    @asynccontextmanager
    async def _admitted(self, context: Context) -> AsyncIterator[_Caller]:
        async with translated(context):
            with self._admission.permit():
                tenant = self._authenticator.tenant_of(
                    context.invocation_metadata(), context.auth_context()
                )
                # The stub leaves out that a call may have no deadline.
                remaining_s = cast("float | None", context.time_remaining())
                if remaining_s is None:
                    remaining_s = self._limits.default_deadline_s
                yield _Caller(tenant=tenant, deadline_s=self._clock.monotonic_s() + remaining_s)

    async def _convert(
        self, convert: _Convert[RequestT], message: RequestT, caller: _Caller
    ) -> Request:
        self._remaining_s(caller)

        def run() -> Request:
            return convert(
                message,
                tenant=caller.tenant,
                deadline_s=caller.deadline_s,
                limits=self._limits,
            )

        if message.ByteSize() <= MAX_INLINE_BYTES:
            return run()

        async def run_beside() -> Request:
            return await asyncio.get_running_loop().run_in_executor(self._checking, run)

        return await self._in_time(run_beside(), caller)

    async def _in_time(self, work: Coroutine[Any, Any, ResultT], caller: _Caller) -> ResultT:
        """Await ``work`` until the deadline, then cancel it."""
        try:
            async with asyncio.timeout(self._remaining_s(caller)) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise _deadline_passed() from None
            raise
        finally:
            work.close()  # it never started when the deadline had passed already

    def _remaining_s(self, caller: _Caller) -> float:
        remaining_s = caller.deadline_s - self._clock.monotonic_s()
        if remaining_s <= 0.0:
            raise _deadline_passed()
        return remaining_s


def _deadline_passed() -> DeadlinePassed:
    return DeadlinePassed("the deadline passed before the request was done")


async def _next(
    parts: AsyncIterator[Decision | str | DecideOutcome],
) -> Decision | str | DecideOutcome | None:
    return await anext(parts, None)


def _item(result: RouteOutcome | BaseException) -> pb.RouteBatchItem:
    if isinstance(result, RouteOutcome):
        return batch_item(result)
    if not isinstance(result, Exception):
        raise result  # a cancellation is the whole call's
    failure = failure_of(result)
    return pb.RouteBatchItem(code=failure.number, message=failure.message)
