"""Hold values within limits that no tenant can use up for the others.

When a limit is reached, the tenant that holds most of what is short loses its least recently
used value. What is about to be stored does not count, so no tenant pushes out another that
holds less than itself; on a tie the tenant that stores pays. With a single tenant this is plain
LRU. Every operation takes O(log n), whatever the number of tenants.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from cache.errors import SettingError
from cache.forward_clock import ForwardClock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# A lazy heap is rebuilt when more than half of it, and more than this, is stale.
_STALE_ROOM = 64


@dataclass(frozen=True, slots=True)
class _Held(Generic[V]):
    serial: int
    value: V
    size_bytes: int
    expires_at_s: float


class FairLru(Generic[K, V]):
    """Values by tenant and key, each with a size and a time to live.

    Not synchronised: callers hold a lock where threads share it. Nothing expires by itself:
    callers run :meth:`expire` before they read. A tenant that holds nothing costs nothing.

    Args:
        max_entries: Most values of all tenants together, >= 1.
        max_bytes: Most bytes of all tenants together, >= 1.
        clock: Seconds; may step back, which counts as no time passed.
    """

    def __init__(self, *, max_entries: int, max_bytes: int, clock: Callable[[], float]) -> None:
        for name, limit in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if limit < 1:
                msg = f"{name} must be >= 1, got {limit}"
                raise SettingError(msg)
        self._clock = ForwardClock(clock)
        self._next_serial = itertools.count()
        self._tenants: dict[str, OrderedDict[K, _Held[V]]] = {}
        self._entries = _Shares(max_entries)
        self._bytes = _Shares(max_bytes)
        self._deadlines: list[tuple[float, int, str, K]] = []

    def __len__(self) -> int:
        return self._entries.total

    @property
    def max_bytes(self) -> int:
        """Most bytes of all tenants together."""
        return self._bytes.limit

    def now_s(self) -> float:
        """Return the time in seconds, which never decreases."""
        return self._clock.now_s()

    def get(self, tenant: str, key: K) -> V | None:
        """Return the value of the tenant's key; does not count as a use."""
        held = self._find(tenant, key)
        return None if held is None else held.value

    def values_of(self, tenant: str) -> Iterator[V]:
        """Yield the tenant's values, least recently used first."""
        return (held.value for held in self._tenants.get(tenant, OrderedDict()).values())

    def size_of(self, tenant: str) -> tuple[int, int]:
        """Return how many values the tenant holds, then their bytes."""
        return self._entries.held(tenant), self._bytes.held(tenant)

    def touch(self, tenant: str, key: K) -> None:
        """Mark a key that is held as the most recently used of its tenant."""
        self._tenants[tenant].move_to_end(key)

    def put(
        self, tenant: str, key: K, value: V, *, size_bytes: int, expires_at_s: float
    ) -> list[V]:
        """Hold ``value`` in place of the key's earlier one; return what was evicted for it.

        Args:
            tenant: Owner.
            key: Unique within the tenant.
            value: Anything.
            size_bytes: From 1 to ``max_bytes``.
            expires_at_s: First moment, in the time of :meth:`now_s`, at which it is gone.

        Raises:
            SettingError: If ``size_bytes`` alone exceeds the limit.
        """
        if size_bytes > self.max_bytes:
            msg = f"a value of {size_bytes} bytes exceeds max_bytes = {self.max_bytes}"
            raise SettingError(msg)
        self.remove(tenant, key)
        evicted = []
        for shares, added in ((self._entries, 1), (self._bytes, size_bytes)):
            while shares.total + added > shares.limit:
                loser = shares.heaviest(on_a_tie=tenant)
                evicted.append(self._take(loser, next(iter(self._tenants[loser]))).value)
        held = _Held(next(self._next_serial), value, size_bytes, expires_at_s)
        self._tenants.setdefault(tenant, OrderedDict())[key] = held
        self._entries.add(tenant, 1)
        self._bytes.add(tenant, size_bytes)
        heapq.heappush(self._deadlines, (held.expires_at_s, held.serial, tenant, key))
        if len(self._deadlines) > 2 * len(self) + _STALE_ROOM:
            self._deadlines = [
                (held.expires_at_s, held.serial, tenant, key)
                for tenant, values in self._tenants.items()
                for key, held in values.items()
            ]
            heapq.heapify(self._deadlines)
        return evicted

    def remove(self, tenant: str, key: K) -> V | None:
        """Take out the value of the tenant's key; return it, None when there was none."""
        held = self._find(tenant, key)
        return None if held is None else self._take(tenant, key).value

    def expire(self) -> list[V]:
        """Remove and return every value whose time ended."""
        now_s = self.now_s()
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, serial, tenant, key = heapq.heappop(self._deadlines)
            held = self._find(tenant, key)
            if held is not None and held.serial == serial:
                expired.append(self._take(tenant, key).value)
        return expired

    def _find(self, tenant: str, key: K) -> _Held[V] | None:
        values = self._tenants.get(tenant)
        return None if values is None else values.get(key)

    def _take(self, tenant: str, key: K) -> _Held[V]:
        values = self._tenants[tenant]
        held = values.pop(key)
        if not values:
            del self._tenants[tenant]
        self._entries.add(tenant, -1)
        self._bytes.add(tenant, -held.size_bytes)
        return held


class _Shares:
    """How much of one limited thing each tenant holds, with the one that holds most at hand."""

    __slots__ = ("_heap", "_held", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._held: dict[str, int] = {}
        # Every amount a tenant had since the last rebuild, negated; old ones are skipped.
        self._heap: list[tuple[int, str]] = []

    def held(self, tenant: str) -> int:
        return self._held.get(tenant, 0)

    def add(self, tenant: str, amount: int) -> None:
        self.total += amount
        held = self.held(tenant) + amount
        if held == 0:
            del self._held[tenant]
            return
        self._held[tenant] = held
        heapq.heappush(self._heap, (-held, tenant))
        if len(self._heap) > 2 * len(self._held) + _STALE_ROOM:
            self._heap = [(-held, tenant) for tenant, held in self._held.items()]
            heapq.heapify(self._heap)

    def heaviest(self, *, on_a_tie: str) -> str:
        """Return the tenant that holds most; something must be held."""
        while self.held(self._heap[0][1]) != -self._heap[0][0]:
            heapq.heappop(self._heap)
        most, tenant = self._heap[0]
        return on_a_tie if self.held(on_a_tie) == -most else tenant
