"""Turn a clock that may step back into time that only moves forward.

A wall clock steps back when it is corrected. Read directly, it would prolong the life of every
entry by the size of the step. Here a step back counts as no time passed, so an entry never
outlives its TTL counted from the first reading after the step, and ages never go negative.
"""

from __future__ import annotations

from collections.abc import Callable


class ForwardClock:
    """Non-decreasing seconds; equal to the clock's reading until that first steps back.

    Not synchronised: callers hold the lock of the store it belongs to.
    """

    __slots__ = ("_clock", "_last_reading_s", "_offset_s")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last_reading_s = clock()
        self._offset_s = 0.0

    def now_s(self) -> float:
        """Return the time in seconds, never less than the value returned before."""
        reading_s = self._clock()
        if reading_s < self._last_reading_s:
            self._offset_s += self._last_reading_s - reading_s
        self._last_reading_s = reading_s
        return reading_s + self._offset_s
