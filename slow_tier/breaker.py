"""Stop asking an upstream that keeps failing, until it has had time to recover.

The circuit breaker of M. Nygard, "Release It!", 2nd edition 2018, section 5.3: closed
until enough consecutive failures, then open for a cool-down, then half open, where one
probe decides. It does no I/O, starts no task, reads only the clock it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

State = Literal["closed", "open", "half_open"]


class CircuitBreaker:
    """One upstream's breaker, for use within one event loop.

    Args:
        failure_threshold: Consecutive failures that open it, >= 1.
        cool_down_s: Seconds it stays open before a probe, > 0.
        clock: Monotonic seconds.
    """

    def __init__(
        self, *, failure_threshold: int, cool_down_s: float, clock: Callable[[], float]
    ) -> None:
        if failure_threshold < 1:
            msg = f"failure_threshold: must be >= 1, got {failure_threshold}"
            raise ValueError(msg)
        if not 0.0 < cool_down_s < math.inf:
            msg = f"cool_down_s: must be finite and > 0, got {cool_down_s}"
            raise ValueError(msg)
        self._failure_threshold = failure_threshold
        self._cool_down_s = cool_down_s
        self._clock = clock
        self._failures = 0
        self._open_until_s: float | None = None
        self._probing = False
        # Counts state changes. An attempt admitted before the last one has no say any more:
        # its late success must not close a breaker that opened meanwhile.
        self._generation = 0

    @property
    def state(self) -> State:
        """Return the state at this moment; half open means that a probe may go or is out."""
        if self._open_until_s is None:
            return "closed"
        return "open" if self._clock() < self._open_until_s else "half_open"

    def admit(self) -> Permit | None:
        """Return a permit for one attempt, None when it is to be refused."""
        state = self.state
        if state == "open" or (state == "half_open" and self._probing):
            return None
        if state == "half_open":
            self._probing = True
        return Permit(self, self._generation)

    def _begin(self, generation: int) -> int:
        """Close for a probe that begins to answer; return the generation it now speaks for.

        One more failure, its own included, opens again.
        """
        if generation == self._generation and self._probing:
            self._probing = False
            self._open_until_s = None
            self._failures = self._failure_threshold - 1
            self._generation += 1
            return self._generation
        return generation

    def _settle(self, generation: int, *, success: bool | None) -> None:
        if generation != self._generation:
            return
        if self._probing:
            self._probing = False
            if success is None:
                return  # the probe was abandoned: the next attempt is the probe
        if success:
            self._failures = 0
            if self._open_until_s is not None:
                self._open_until_s = None
                self._generation += 1
        elif success is False:
            self._failures += 1
            if self._open_until_s is not None or self._failures >= self._failure_threshold:
                self._open_until_s = self._clock() + self._cool_down_s
                self._generation += 1


class Permit:
    """Leave to make one attempt; a context manager, so that no probe can get lost.

    An attempt that ends without `succeed` or `fail` (its task was cancelled, its caller's
    short deadline passed) says nothing about the upstream and counts as neither.
    """

    __slots__ = ("_breaker", "_generation", "_settled")

    def __init__(self, breaker: CircuitBreaker, generation: int) -> None:
        self._breaker = breaker
        self._generation = generation
        self._settled = False

    def begin(self) -> None:
        """Record that the upstream begins to answer: nobody needs to wait for its end."""
        if not self._settled:
            self._generation = self._breaker._begin(self._generation)  # noqa: SLF001 - one unit

    def succeed(self) -> None:
        """Record that the upstream is alive; only the first outcome counts."""
        self._settle(success=True)

    def fail(self) -> None:
        """Record that the upstream failed; only the first outcome counts."""
        self._settle(success=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._settle(success=None)

    def _settle(self, *, success: bool | None) -> None:
        if not self._settled:
            self._settled = True
            self._breaker._settle(self._generation, success=success)  # noqa: SLF001 - one unit
