"""Keep entries within their TTL, a number of entries and a number of bytes.

Eviction is by least recent use inside one tenant. The tenant chosen is the one that holds the
most, the entry just stored not counted, so no tenant pushes out another that holds less than
itself. With a single tenant this is plain LRU.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cache.entry import CacheEntry, Namespace
from cache.errors import SettingError
from cache.forward_clock import ForwardClock


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """An entry in its place.

    Attributes:
        serial: Unique for the life of the store, so it names this version of the entry.
        entry: What was stored.
        size_bytes: What it counts against the limit.
    """

    serial: int
    entry: CacheEntry
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUsage:
    """What one tenant holds, what it lost.

    Attributes:
        entries: Entries now.
        size_bytes: Their bytes.
        evictions: Entries removed since the start because a limit was reached.
        expirations: Entries removed since the start because their TTL ended.
    """

    entries: int
    size_bytes: int
    evictions: int
    expirations: int


class _Holding:
    """One tenant's entries, least recently used first, with its counts."""

    __slots__ = ("evictions", "expirations", "serials", "size_bytes")

    def __init__(self) -> None:
        self.serials: OrderedDict[int, None] = OrderedDict()
        self.size_bytes = 0
        self.evictions = 0
        self.expirations = 0


class EntryStore:
    """Entries by namespace and key. Not synchronised: the cache holds the lock.

    Nothing here removes expired entries by itself: callers run :meth:`expire` before they
    read, which costs one comparison when nothing expired.

    Args:
        max_entries: Most entries of all tenants together, >= 1.
        max_bytes: Most bytes of all tenants together, >= 1.
        clock: Seconds; may step back.
    """

    def __init__(self, *, max_entries: int, max_bytes: int, clock: Callable[[], float]) -> None:
        for name, limit in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if limit < 1:
                msg = f"{name} must be >= 1, got {limit}"
                raise SettingError(msg)
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = ForwardClock(clock)
        self._next_serial = itertools.count()
        self._entries: dict[int, StoredEntry] = {}
        self._serials: dict[tuple[str, str], int] = {}
        self._holdings: dict[str, _Holding] = {}
        self._size_bytes = 0
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, stored: StoredEntry) -> bool:
        return stored.serial in self._entries

    def now_s(self) -> float:
        """Return the store's time in seconds, which never decreases."""
        return self._clock.now_s()

    def find(self, namespace: Namespace, key: str) -> StoredEntry | None:
        """Return the entry of that key; does not count as a use."""
        serial = self._serials.get((namespace.digest, key))
        return None if serial is None else self._entries[serial]

    def at(self, serial: int) -> StoredEntry:
        """Return the entry of a serial that the store holds; does not count as a use."""
        return self._entries[serial]

    def touch(self, stored: StoredEntry) -> None:
        """Mark a stored entry as the most recently used of its tenant."""
        self._holdings[stored.entry.namespace.tenant].serials.move_to_end(stored.serial)

    def entries_of(self, tenant: str) -> Iterator[StoredEntry]:
        """Yield the tenant's entries, least recently used first."""
        holding = self._holdings.get(tenant)
        if holding is not None:
            for serial in holding.serials:
                yield self._entries[serial]

    def usage(self, tenant: str) -> TenantUsage:
        """Return what the tenant holds; zeros for one never seen."""
        holding = self._holdings.get(tenant) or _Holding()
        return TenantUsage(
            entries=len(holding.serials),
            size_bytes=holding.size_bytes,
            evictions=holding.evictions,
            expirations=holding.expirations,
        )

    def put(self, entry: CacheEntry, *, size_bytes: int) -> tuple[StoredEntry, list[StoredEntry]]:
        """Store ``entry``; return it in its place, then every entry that had to leave.

        An entry of the same key is replaced, which is not counted as an eviction.

        Args:
            entry: Not expired.
            size_bytes: At most ``max_bytes``.

        Raises:
            SettingError: If ``size_bytes`` alone exceeds the limit.
        """
        if size_bytes > self._max_bytes:
            msg = f"entry of {size_bytes} bytes exceeds max_bytes = {self._max_bytes}"
            raise SettingError(msg)
        displaced = []
        replaced = self.find(entry.namespace, entry.key)
        if replaced is not None:
            self.remove(replaced)
            displaced.append(replaced)
        stored = StoredEntry(serial=next(self._next_serial), entry=entry, size_bytes=size_bytes)
        self._place(stored)
        while len(self._entries) > self._max_entries or self._size_bytes > self._max_bytes:
            victim = self._victim(newest=stored)
            self.remove(victim)
            self._holdings[victim.entry.namespace.tenant].evictions += 1
            displaced.append(victim)
        return stored, displaced

    def remove(self, stored: StoredEntry) -> None:
        """Take out an entry that the store holds."""
        del self._entries[stored.serial]
        del self._serials[stored.entry.namespace.digest, stored.entry.key]
        holding = self._holdings[stored.entry.namespace.tenant]
        del holding.serials[stored.serial]
        holding.size_bytes -= stored.size_bytes
        self._size_bytes -= stored.size_bytes

    def expire(self) -> list[StoredEntry]:
        """Remove and return every entry whose TTL ended."""
        now_s = self.now_s()
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            stored = self._entries.get(heapq.heappop(self._deadlines)[1])
            if stored is not None:
                self.remove(stored)
                self._holdings[stored.entry.namespace.tenant].expirations += 1
                expired.append(stored)
        return expired

    def _place(self, stored: StoredEntry) -> None:
        namespace = stored.entry.namespace
        self._entries[stored.serial] = stored
        self._serials[namespace.digest, stored.entry.key] = stored.serial
        holding = self._holdings.setdefault(namespace.tenant, _Holding())
        holding.serials[stored.serial] = None
        holding.size_bytes += stored.size_bytes
        self._size_bytes += stored.size_bytes
        heapq.heappush(self._deadlines, (stored.entry.expires_at_s, stored.serial))
        # Entries removed before their time leave their deadline behind.
        if len(self._deadlines) > 2 * len(self._entries) + 64:
            self._deadlines = [(s.entry.expires_at_s, s.serial) for s in self._entries.values()]
            heapq.heapify(self._deadlines)

    def _victim(self, *, newest: StoredEntry) -> StoredEntry:
        """Return the least recently used entry of the tenant that holds the most."""
        by_entries = len(self._entries) > self._max_entries
        newest_tenant = newest.entry.namespace.tenant

        def held(tenant: str) -> tuple[int, bool]:
            holding = self._holdings[tenant]
            amount = len(holding.serials) if by_entries else holding.size_bytes
            if tenant == newest_tenant:
                amount -= 1 if by_entries else newest.size_bytes
            return amount, tenant == newest_tenant

        serials = self._holdings[max(self._holdings, key=held)].serials
        return self._entries[next(iter(serials))]
