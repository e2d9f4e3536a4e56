"""Limit of the calls worked on at once.

A permit is taken before any work and given back on every way out. Beyond the limit a call is
refused at once instead of queued: a queue would only let it die of its deadline later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from router.errors import Overloaded, RouterError


class Draining(RouterError):  # noqa: N818 - named for what it says to the caller
    """The service is about to stop and takes no new calls.

    UNAVAILABLE on the wire, not RESOURCE_EXHAUSTED: the caller has nothing to wait for here,
    clients and proxies retry UNAVAILABLE on another replica, and gRPC itself answers so once
    the server stops listening, hence callers see one status however far the stop has come.
    """


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
        self._draining = False

    @property
    def in_flight(self) -> int:
        """Calls that hold a permit now."""
        return self._in_flight

    @property
    def draining(self) -> bool:
        """Whether new calls are refused because the service stops."""
        return self._draining

    def drain(self) -> None:
        """Refuse every further call; those that hold a permit keep it."""
        self._draining = True

    @contextmanager
    def permit(self) -> Iterator[None]:
        """Hold a permit inside the ``with`` block.

        Raises:
            Draining: After ``drain``.
            Overloaded: If all permits are taken.
        """
        if self._draining:
            msg = "the service is shutting down; another replica may answer"
            raise Draining(msg)
        if self._in_flight >= self._limit:
            msg = f"{self._limit} calls are in flight (limits.in_flight)"
            raise Overloaded(msg, retry_after_s=self._retry_after_s)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
