"""Run a request through its stages, each once, forward only.

::

    exact cache -> encoder (one run), calibration, policy -> semantic cache -> fast -> slow
    after the answer: store it with the same embedding, remember whose decision it was

Identical requests at the same time take turns, so that all but the first find its answer stored.
The deadline is checked before every stage. Whatever a stage returns is a new value; nothing is
passed along to be filled in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from router.answer_cache import AnswerCache, FoundAnswer, Place
from router.answering import TextAnswering
from router.clock import Clock
from router.domain import (
    AnsweredBy,
    DecideOutcome,
    Decision,
    Reason,
    Request,
    RouteOutcome,
    Timings,
)
from router.errors import RouterError
from router.ledger import DecisionLedger, LedgerEntry
from router.reading import Reader, Reading, check_deadline
from router.single_flight import SingleFlight
from router.typed_answering import TypedAnswering

_BATCH_ITEMS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a caller's report on a decision did.

    Attributes:
        entry: The decision it was about.
        evicted: A cached answer left the cache.
    """

    entry: LedgerEntry
    evicted: bool


class Pipeline:
    """Routes and answers requests.

    Args:
        reader: Decides on a request.
        answers: The answer cache.
        ledger: Decisions by id.
        text: Answers conversations.
        typed: Answers typed questions.
        clock: For deadlines and durations.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        answers: AnswerCache,
        ledger: DecisionLedger,
        text: TextAnswering,
        typed: TypedAnswering,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._answers = answers
        self._ledger = ledger
        self._text = text
        self._typed = typed
        self._clock = clock
        self._flights = SingleFlight(clock=clock)

    async def route(self, request: Request) -> RouteOutcome:
        """Return where ``request`` should go; no tier is called, no answer looked up.

        Raises:
            RouterError: As `router.errors` says.
        """
        started_ns = self._clock.perf_ns()
        self._reader.check(request)
        # Unknown tools are not the same as none: only none rules a tool out.
        no_tools = request.tools is not None and not request.tools
        reading = await self._reader.read(request, rpc="route", mask_tools=no_tools)
        self._remember(request, reading.decision)
        total_ns = self._clock.perf_ns() - started_ns
        return RouteOutcome(
            decision=reading.decision, timings=replace(reading.timings, total_ns=total_ns)
        )

    async def route_many(self, requests: Sequence[Request]) -> list[RouteOutcome | RouterError]:
        """Return an outcome or an error for each request, in order.

        The encoder puts inputs that wait together into shared forward passes. Only a few items
        wait there at a time, so that a large batch does not make everybody else wait for all
        of it.
        """
        places = asyncio.Semaphore(_BATCH_ITEMS_AT_ONCE)

        async def one(request: Request) -> RouteOutcome:
            async with places:
                return await self.route(request)

        results = await asyncio.gather(*map(one, requests), return_exceptions=True)
        outcomes: list[RouteOutcome | RouterError] = []
        for result in results:
            if not isinstance(result, RouteOutcome | RouterError):
                raise result  # a bug, or the end of the process: not one item's own fault
            outcomes.append(result)
        return outcomes

    async def decide(self, request: Request) -> DecideOutcome:
        """Return an answer with everything that led to it.

        Raises:
            RouterError: As `router.errors` says.
        """
        started_ns, place = self._start(request)
        shared = place.key if self._answers.may_share(request) else None
        async with (
            self._flights.turn(shared, deadline_s=request.deadline_s),
            aclosing(self._run(request, place, started_ns, stream=False)) as parts,
        ):
            async for part in parts:
                if isinstance(part, DecideOutcome):
                    return part
        msg = "the pipeline ended with neither outcome nor error"
        raise AssertionError(msg)

    async def decide_stream(
        self, request: Request
    ) -> AsyncGenerator[Decision | str | DecideOutcome, None]:
        """Yield the decision, the text as it is generated, last the outcome with all of it.

        A text that was not generated for this call comes as one piece. Closing the generator
        cancels what is being generated.

        Raises:
            RouterError: As `router.errors` says; once text was yielded, no other model
                takes over.
        """
        sent = False
        started_ns, place = self._start(request)
        async with aclosing(self._run(request, place, started_ns, stream=True)) as parts:
            async for part in parts:
                if isinstance(part, DecideOutcome) and part.text and not sent:
                    yield part.text
                sent = sent or isinstance(part, str)
                yield part

    def record_outcome(self, tenant: str, decision_id: str, *, rejected: bool) -> Report:
        """Take note of what a decision was worth; if rejected, its answers leave the cache.

        Raises:
            UnknownDecision: No such decision of this tenant is remembered.
        """
        entry = self._ledger.find(decision_id, tenant=tenant)
        keys = entry.cache_keys if rejected else ()
        evicted = [self._answers.evict(tenant, key) for key in keys]
        return Report(entry=entry, evicted=any(evicted))

    def _start(self, request: Request) -> tuple[int, Place]:
        """Return when the work began, in nanoseconds, with where the answer would lie."""
        started_ns = self._clock.perf_ns()
        self._reader.check(request)
        return started_ns, self._answers.place(request)

    async def _run(
        self, request: Request, place: Place, started_ns: int, *, stream: bool
    ) -> AsyncGenerator[Decision | str | DecideOutcome, None]:
        searched_ns = self._clock.perf_ns()
        found = self._answers.find_exact(place, request)
        timings = Timings(cache_ns=self._clock.perf_ns() - searched_ns)
        if found is not None:
            decision = replace(found.stored.decision, reason=Reason.EXACT_HIT)
            yield decision
            yield self._served(
                request, decision, found, AnsweredBy.EXACT_CACHE, timings, started_ns
            )
            return
        # A typed question is never answered by a tool call.
        no_tools = not request.tools or bool(request.questions)
        reading = await self._reader.read(request, rpc="decide", mask_tools=no_tools)
        check_deadline(request, self._clock)
        searched_ns = self._clock.perf_ns()
        found = self._answers.find_similar(place, request, reading)
        cache_ns = timings.cache_ns + self._clock.perf_ns() - searched_ns
        timings = replace(reading.timings, cache_ns=cache_ns)
        if found is not None:
            decision = replace(reading.decision, reason=Reason.SEMANTIC_HIT)
            yield decision
            yield self._served(
                request, decision, found, AnsweredBy.SEMANTIC_CACHE, timings, started_ns
            )
            return
        yield reading.decision
        async with aclosing(self._answer(request, reading.decision, stream=stream)) as parts:
            async for part in parts:
                if isinstance(part, DecideOutcome):
                    yield self._answered(request, place, reading, part, timings, started_ns)
                else:
                    yield part

    async def _answer(
        self, request: Request, decision: Decision, *, stream: bool
    ) -> AsyncGenerator[str | DecideOutcome, None]:
        if request.questions:
            yield await self._typed.answer(request, decision)
            return
        async with aclosing(self._text.answer(request, decision, stream=stream)) as parts:
            async for part in parts:
                yield part

    def _served(
        self,
        request: Request,
        decision: Decision,
        found: FoundAnswer,
        answered_by: AnsweredBy,
        timings: Timings,
        started_ns: int,
    ) -> DecideOutcome:
        """Return the outcome of a hit; rejecting it evicts the entry it came from."""
        self._remember(request, decision, answered_by=answered_by, cache_key=found.match.key)
        return DecideOutcome(
            decision=decision,
            answered_by=answered_by,
            text=found.stored.text,
            answers=found.stored.answers,
            finish_reason=found.stored.finish_reason,
            timings=replace(timings, total_ns=self._clock.perf_ns() - started_ns),
            cache_match=found.match,
            model_revision=found.stored.model_revision,
        )

    def _answered(
        self,
        request: Request,
        place: Place,
        reading: Reading,
        outcome: DecideOutcome,
        timings: Timings,
        started_ns: int,
    ) -> DecideOutcome:
        """Store a new answer, then return it with the times of every stage."""
        stored = self._answers.store(place, request, outcome, reading)
        self._remember(
            request,
            reading.decision,
            answered_by=outcome.answered_by,
            cache_key=place.key if stored else None,
        )
        return replace(
            outcome,
            timings=replace(
                outcome.timings,
                queue_ns=timings.queue_ns,
                encode_ns=timings.encode_ns,
                cache_ns=timings.cache_ns,
                total_ns=self._clock.perf_ns() - started_ns,
            ),
        )

    def _remember(
        self,
        request: Request,
        decision: Decision,
        *,
        answered_by: AnsweredBy | None = None,
        cache_key: str | None = None,
    ) -> None:
        self._ledger.remember(
            decision.decision_id,
            tenant=request.tenant,
            answered_by=answered_by,
            cache_key=cache_key,
        )
