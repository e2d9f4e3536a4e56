"""Limit of the calls worked on at once.

A permit is taken before any work and given back on every way out. Beyond the limit a call is
refused at once instead of queued: a queue would only let it die of its deadline later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from router.errors import Overloaded


class Admission:
    """Permits for calls; one call is one permit, however many items it carries.

    Used from one event loop, so a plain counter is exact.

    Args:
        limit: Most calls at once, >= 1.
        retry_after_s: What a refused caller is told to wait, seconds.
    """

    def __init__(self, *, limit: int, retry_after_s: float) -> None:
        if limit < 1:
            msg = f"limit must be >= 1, got {limit}"
            raise ValueError(msg)
        self._limit = limit
        self._retry_after_s = retry_after_s
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Calls that hold a permit now."""
        return self._in_flight

    @contextmanager
    def permit(self) -> Iterator[None]:
        """Hold a permit inside the ``with`` block.

        Raises:
            Overloaded: If all permits are taken.
        """
        if self._in_flight >= self._limit:
            msg = f"{self._limit} calls are in flight (limits.in_flight)"
            raise Overloaded(msg, retry_after_s=self._retry_after_s)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
