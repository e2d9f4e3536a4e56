"""The clocks of the process, handed down so that tests can turn them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Three views of time.

    Attributes:
        monotonic_s: Seconds that never go back; deadlines are written in them.
        time_s: Unix time, seconds.
        perf_ns: Nanoseconds of the finest clock, for durations.
    """

    monotonic_s: Callable[[], float] = time.monotonic
    time_s: Callable[[], float] = time.time
    perf_ns: Callable[[], int] = time.perf_counter_ns
