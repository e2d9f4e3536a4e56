"""Ask the first upstream that can answer.

One client serves any number of upstreams in order of preference: an attempt that fails for
a passing reason is repeated, then the next upstream is asked, for which a part of the time is
kept. Nothing here knows whether a
server is slow, fast, local or hosted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from random import Random

import httpx

from slow_tier.breaker import CircuitBreaker, Permit
from slow_tier.completion import Completion, CompletionRequest, Delta
from slow_tier.errors import NotConfigured, SlowTierError, UpstreamUnavailable
from slow_tier.exchange import check_deadline
from slow_tier.generation import generate
from slow_tier.probe import Probe, probe
from slow_tier.retry import RetryPolicy, next_delay_s
from slow_tier.upstream import Upstream

__all__ = ["Attempt", "ChatClient", "Probe", "Upstream"]

# A server that fails five times in a row is down for everybody; ten seconds let most
# restart. Both are choices, not measurements.
_FAILURE_THRESHOLD = 5
_COOL_DOWN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at one upstream, as reported while a call runs.

    Attributes:
        upstream: Name of the upstream.
        outcome: ``ok``, ``cancelled`` (closing a stream early is the same), the ``outcome``
            of the error's class, or ``error`` for a request that cannot be carried out.
        elapsed_ns: Time spent on it; 0 when its breaker was open.
        detail: The error's reason, empty when there is none; never holds user text.
    """

    upstream: str
    outcome: str
    elapsed_ns: int
    detail: str


class ChatClient:
    """Chat completions from the first of several upstreams that can answer.

    For use within one event loop. Calls may run concurrently without limit; whoever owns
    the client bounds them.

    Args:
        upstreams: In order of preference, names unique; may be empty.
        clock: Monotonic seconds, the clock of every ``deadline_s``.
        random: Source of the jitter between attempts.
        transport: Replaces the network, for tests.

    Raises:
        ValueError: If two upstreams have one name.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        clock: Callable[[], float],
        random: Random,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._upstreams = {upstream.name: upstream for upstream in upstreams}
        if len(self._upstreams) < len(upstreams):
            names = [upstream.name for upstream in upstreams]
            twice = next(name for name in names if names.count(name) > 1)
            msg = f"upstreams: two are named {twice!r}; names must be unique"
            raise ValueError(msg)
        self._breakers = {
            name: CircuitBreaker(
                failure_threshold=_FAILURE_THRESHOLD, cool_down_s=_COOL_DOWN_S, clock=clock
            )
            for name in self._upstreams
        }
        self._clock = clock
        self._random = random
        # No proxy, netrc or certificate path from the environment, no redirect to another
        # host: prompts go where the configuration says, nowhere else.
        self._http = httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def complete(
        self,
        request: CompletionRequest,
        *,
        deadline_s: float,
        start_by_s: float | None = None,
        on_attempt: Callable[[Attempt], None] | None = None,
    ) -> Completion:
        """Return a whole answer.

        With a ``response_schema`` the text is JSON that satisfies it, slightly broken JSON
        repaired, unless the finish reason says that the text was cut or filtered.

        Args:
            request: What to generate.
            deadline_s: Absolute monotonic time, finite.
            start_by_s: Absolute monotonic time after which somebody else is asked instead, so
                that being late is the upstreams' failure; None = the deadline.
            on_attempt: Called once after each attempt.

        Raises:
            SlowTierError: The last upstream's error, see `slow_tier.errors`.
            ValueError: If the deadline is not finite.
        """
        deltas = self._deltas(request, deadline_s, start_by_s, on_attempt, stream=False)
        async with aclosing(deltas):
            async for delta in deltas:
                if delta.completion is not None:
                    return delta.completion
        msg = "an attempt ended with neither completion nor error"
        raise AssertionError(msg)

    def stream(
        self,
        request: CompletionRequest,
        *,
        deadline_s: float,
        start_by_s: float | None = None,
        on_attempt: Callable[[Attempt], None] | None = None,
    ) -> AsyncGenerator[Delta, None]:
        """Yield an answer as it is generated; the last delta carries the completion.

        Once text was yielded there is no other attempt: an error after it is final. Closing
        the generator early closes the connection to the server.

        Args:
            request: What to generate. A ``response_schema`` is checked at the end, where
                text that violates it raises instead of the last delta.
            deadline_s: Absolute monotonic time, finite.
            start_by_s: As in `complete`; holds until the answer begins.
            on_attempt: Called once after each attempt.

        Raises:
            SlowTierError: As in `complete`.
            ValueError: As in `complete`.
        """
        return self._deltas(request, deadline_s, start_by_s, on_attempt, stream=True)

    async def probe(self, upstream_name: str, deadline_s: float) -> Probe:
        """Ask one upstream for its models (``GET /models``), past breaker and retries.

        Raises:
            SlowTierError: As in `complete`; UpstreamRejected means that it is reachable.
            ValueError: If the deadline is not finite.
        """
        check_deadline(deadline_s)
        upstream = self._upstreams.get(upstream_name)
        if upstream is None:
            raise NotConfigured(upstream=upstream_name, reason="no upstream has this name")
        return await probe(self._http, upstream, deadline_s=deadline_s, clock=self._clock)

    async def _deltas(
        self,
        request: CompletionRequest,
        deadline_s: float,
        start_by_s: float | None,
        on_attempt: Callable[[Attempt], None] | None,
        *,
        stream: bool,
    ) -> AsyncGenerator[Delta, None]:
        check_deadline(deadline_s)
        all_start_by_s = deadline_s if start_by_s is None else min(start_by_s, deadline_s)
        upstreams_left = len(self._upstreams)
        failure: SlowTierError = NotConfigured(upstream="(none)", reason="none is configured")
        for upstream in self._upstreams.values():
            start_by_s = all_start_by_s
            if upstreams_left > 1:  # equal parts of what time is left
                start_by_s = self._clock()
                start_by_s += (all_start_by_s - start_by_s) / upstreams_left
            upstreams_left -= 1
            policy = RetryPolicy(max_attempts=upstream.max_attempts)
            attempts_made = 0
            delay_s: float | None = 0.0
            while delay_s is not None:
                if delay_s > 0.0:
                    await asyncio.sleep(delay_s)
                attempts_made += 1
                started = False
                try:
                    attempt = self._attempt(
                        upstream,
                        request,
                        start_by_s=start_by_s,
                        deadline_s=deadline_s,
                        on_attempt=on_attempt,
                        stream=stream,
                    )
                    async with aclosing(attempt):
                        async for delta in attempt:
                            started = True
                            yield delta
                except SlowTierError as error:
                    if started or not error.elsewhere:
                        raise
                    failure = error
                else:
                    return
                delay_s = next_delay_s(
                    failure,
                    attempts_made=attempts_made,
                    policy=policy,
                    random=self._random,
                    now_s=self._clock(),
                    deadline_s=start_by_s,
                )
        raise failure

    async def _attempt(
        self,
        upstream: Upstream,
        request: CompletionRequest,
        *,
        start_by_s: float,
        deadline_s: float,
        on_attempt: Callable[[Attempt], None] | None,
        stream: bool,
    ) -> AsyncGenerator[Delta, None]:
        """Make one attempt, telling its outcome to the breaker, then to ``on_attempt``."""
        started_s = self._clock()
        outcome, detail = "error", ""
        last = None
        try:
            with self._admit(upstream) as permit:
                generation = generate(
                    self._http,
                    upstream,
                    request,
                    start_by_s=start_by_s,
                    deadline_s=deadline_s,
                    clock=self._clock,
                    stream=stream,
                )
                try:
                    async with aclosing(generation):
                        async for delta in generation:
                            if delta.completion is None:
                                permit.begin()
                                yield delta
                            else:
                                last = delta
                except SlowTierError as error:
                    if error.alive is not None:
                        (permit.succeed if error.alive else permit.fail)()
                    raise
                permit.succeed()
            outcome = "ok"
        except SlowTierError as error:
            outcome, detail = error.outcome, error.reason
            raise
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "cancelled"
            raise
        finally:
            if on_attempt is not None:
                elapsed_ns = round((self._clock() - started_s) * 1e9)
                on_attempt(
                    Attempt(
                        upstream=upstream.name,
                        outcome=outcome,
                        elapsed_ns=elapsed_ns,
                        detail=detail,
                    )
                )
        # Reported before it is handed on: many callers stop at the last delta.
        if last is not None:
            yield last

    def _admit(self, upstream: Upstream) -> Permit:
        permit = self._breakers[upstream.name].admit()
        if permit is None:
            raise UpstreamUnavailable(upstream=upstream.name, reason="circuit breaker is open")
        return permit
