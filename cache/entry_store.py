"""Keep cache entries findable by key or by serial, within their limits.

Which entry leaves when a limit is reached says :mod:`cache.fair_lru`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cache.entry import CacheEntry, Namespace
from cache.fair_lru import FairLru


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
        self._next_serial = itertools.count()
        self._by_serial: dict[int, StoredEntry] = {}
        self._by_key: FairLru[tuple[str, str], StoredEntry] = FairLru(
            max_entries=max_entries, max_bytes=max_bytes, clock=clock
        )

    def __contains__(self, stored: StoredEntry) -> bool:
        return stored.serial in self._by_serial

    def now_s(self) -> float:
        """Return the store's time in seconds, which never decreases."""
        return self._by_key.now_s()

    def find(self, namespace: Namespace, key: str) -> StoredEntry | None:
        """Return the entry of that key; does not count as a use."""
        return self._by_key.get(namespace.tenant, (namespace.digest, key))

    def at(self, serial: int) -> StoredEntry:
        """Return the entry of a serial that the store holds; does not count as a use."""
        return self._by_serial[serial]

    def touch(self, stored: StoredEntry) -> None:
        """Mark a stored entry as the most recently used of its tenant."""
        self._by_key.touch(*_place(stored.entry))

    def entries_of(self, tenant: str) -> Iterator[StoredEntry]:
        """Yield the tenant's entries, least recently used first."""
        return self._by_key.values_of(tenant)

    def size_of(self, tenant: str) -> tuple[int, int]:
        """Return how many entries the tenant holds, then their bytes."""
        return self._by_key.size_of(tenant)

    def put(self, entry: CacheEntry, *, size_bytes: int) -> tuple[StoredEntry, list[StoredEntry]]:
        """Store ``entry``; return it in its place, then what had to leave for want of room.

        Args:
            entry: Not expired, of a key that the store does not hold.
            size_bytes: From 1 to ``max_bytes``.

        Raises:
            SettingError: If ``size_bytes`` alone exceeds the limit.
        """
        stored = StoredEntry(serial=next(self._next_serial), entry=entry, size_bytes=size_bytes)
        evicted = self._by_key.put(
            *_place(entry),
            stored,
            size_bytes=size_bytes,
            expires_at_s=entry.expires_at_s,
        )
        self._by_serial[stored.serial] = stored
        return stored, self._gone(evicted)

    def remove(self, stored: StoredEntry) -> None:
        """Take out an entry that the store holds."""
        self._by_key.remove(*_place(stored.entry))
        self._gone([stored])

    def expire(self) -> list[StoredEntry]:
        """Remove and return every entry whose TTL ended."""
        return self._gone(self._by_key.expire())

    def _gone(self, removed: Iterable[StoredEntry]) -> list[StoredEntry]:
        removed = list(removed)
        for stored in removed:
            del self._by_serial[stored.serial]
        return removed


def _place(entry: CacheEntry) -> tuple[str, tuple[str, str]]:
    return entry.namespace.tenant, (entry.namespace.digest, entry.key)
