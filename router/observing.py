"""Count and log every call, one line each.

The line is written by the interceptor when the call ends, whatever way it ends. What the router
learned meanwhile reaches it through structlog's context variables, which belong to the call's
own task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

import grpc
import structlog

from router.clock import Clock
from router.domain import DecideOutcome, Decision, Request, RouteOutcome, Timings
from router.errors import RouterError
from router.metrics import Metrics
from router.pipeline import Pipeline
from router.rewrapping import SERVICES, Behavior, rewrapped

_log = structlog.get_logger(__name__)


class ObservedRouter:
    """A pipeline whose decisions and answers are counted and described for the log.

    Args:
        pipeline: Does the work.
        metrics: Counts.
        user_text: Write prompts and answers into debug logs.

    Attributes:
        metrics: As given.
    """

    def __init__(self, pipeline: Pipeline, *, metrics: Metrics, user_text: bool = False) -> None:
        self.metrics = metrics
        self._pipeline = pipeline
        self._user_text = user_text

    async def route(self, request: Request) -> RouteOutcome:
        """Decide, as `Pipeline.route`."""
        _describe_request(request)
        self._debug_request(request)
        outcome = await self._pipeline.route(request)
        self.metrics.decision(outcome.decision, outcome.timings)
        _describe_decision(outcome.decision, outcome.timings)
        return outcome

    async def route_many(self, requests: Sequence[Request]) -> Sequence[RouteOutcome | RouterError]:
        """Decide many, as `Pipeline.route_many`."""
        outcomes = await self._pipeline.route_many(requests)
        decided = [outcome for outcome in outcomes if isinstance(outcome, RouteOutcome)]
        for outcome in decided:
            self.metrics.decision(outcome.decision, outcome.timings)
        structlog.contextvars.bind_contextvars(
            tenant=requests[0].tenant if requests else "",
            items=len(outcomes),
            failed=len(outcomes) - len(decided),
        )
        return outcomes

    async def decide(self, request: Request) -> DecideOutcome:
        """Answer, as `Pipeline.decide`."""
        _describe_request(request)
        self._debug_request(request)
        outcome = await self._pipeline.decide(request)
        self._answered(outcome)
        return outcome

    async def decide_stream(
        self, request: Request
    ) -> AsyncGenerator[Decision | str | DecideOutcome, None]:
        """Answer as a stream, as `Pipeline.decide_stream`."""
        _describe_request(request)
        self._debug_request(request)
        async with aclosing(self._pipeline.decide_stream(request)) as parts:
            async for part in parts:
                if isinstance(part, DecideOutcome):
                    self._answered(part)
                yield part

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
        report = self._pipeline.record_outcome(tenant, decision_id, rejected=accepted is False)
        answered_by = report.entry.answered_by
        self.metrics.report(
            answered_by="none" if answered_by is None else answered_by.value,
            accepted=accepted,
            score=score,
            cost_usd=cost_usd,
        )
        structlog.contextvars.bind_contextvars(
            tenant=tenant,
            decision_id=decision_id,
            accepted=accepted,
            score=score,
            cost_usd=cost_usd,
            evicted=report.evicted,
        )
        return report.evicted

    def _answered(self, outcome: DecideOutcome) -> None:
        self.metrics.answer(outcome)
        _describe_decision(outcome.decision, outcome.timings)
        structlog.contextvars.bind_contextvars(
            answered_by=outcome.answered_by.value,
            # Upstreams by their configured names: what model a server says it is, is its text.
            path=[
                f"{step.upstream or step.tier.value}:{step.outcome.value}" for step in outcome.path
            ],
            degraded=outcome.degraded,
            finish_reason=outcome.finish_reason,
            usage_tokens=[outcome.input_tokens, outcome.output_tokens],
            output_bytes=len(outcome.text.encode("utf-8", "surrogatepass")),
        )
        if self._user_text:
            _log.debug("answer_text", text=outcome.text)

    def _debug_request(self, request: Request) -> None:
        if self._user_text:
            texts = [message.content for message in request.messages]
            _log.debug("request_text", texts=texts, state=request.state and request.state.text)


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Counts every call of ``router.v1`` by status code, then writes its line.

    Args:
        metrics: Counts.
        clock: For durations.
    """

    def __init__(self, metrics: Metrics, *, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of a call; those of other services pass as they are."""
        handler = await continuation(handler_call_details)
        method: str = handler_call_details.method
        if handler is None or not method.startswith(SERVICES):
            return handler
        rpc = method.rpartition("/")[2]

        def wrap(behavior: Behavior) -> Behavior:
            async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
                structlog.contextvars.clear_contextvars()
                started_ns = self._clock.perf_ns()
                code = "UNKNOWN"
                try:
                    response = await behavior(request, context)
                    code = "OK"
                except grpc.aio.AbortError:
                    code = _code(context)
                    raise
                except asyncio.CancelledError:
                    code = "CANCELLED"
                    raise
                finally:
                    self._ended(rpc, code, self._clock.perf_ns() - started_ns)
                return response

            return call

        return rewrapped(handler, wrap, parse=None)

    def _ended(self, rpc: str, code: str, elapsed_ns: int) -> None:
        self._metrics.request(rpc=rpc, code=code, seconds=elapsed_ns / 1e9)
        level = "info" if code == "OK" else "warning"
        getattr(_log, level)("call", rpc=rpc, code=code, elapsed_ns=elapsed_ns)


def _code(context: grpc.aio.ServicerContext[Any, Any]) -> str:
    """Return the name of the status the call was aborted with."""
    code: Any = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    return next((c.name for c in grpc.StatusCode if c.value[0] == code), "UNKNOWN")


def _describe_request(request: Request) -> None:
    texts = [message.content for message in request.messages]
    texts += [request.state.text] if request.state is not None else []
    structlog.contextvars.bind_contextvars(
        tenant=request.tenant,
        labels=dict(request.labels),
        input_bytes=sum(len(text.encode("utf-8", "surrogatepass")) for text in texts),
        turns=len(request.messages),
        questions=len(request.questions),
        tools=None if request.tools is None else len(request.tools),
    )


def _describe_decision(decision: Decision, timings: Timings) -> None:
    structlog.contextvars.bind_contextvars(
        decision_id=decision.decision_id,
        tier=decision.tier.value,
        reason=decision.reason.value,
        route=decision.route,
        input_tokens=decision.input_tokens,
        timings=_ran(asdict(timings)),
    )


def _ran(timings: Mapping[str, int]) -> dict[str, int]:
    return {stage: elapsed_ns for stage, elapsed_ns in timings.items() if elapsed_ns}
