"""Count what became of each tenant's semantic lookups, exact hits and entries."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from cache.entry import CacheHit, CacheMiss, MissReason, Namespace

MAX_COUNTED_TENANTS = 10_000
"""Tenants whose counts are kept; those of the one that was inactive longest start anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceStats:
    """What one namespace holds.

    Attributes:
        namespace: Which one.
        entries: Entries, all kinds.
        size_bytes: Their text, key, payload and vector.
        vectors: Entries that a semantic lookup can find.
    """

    namespace: Namespace
    entries: int
    size_bytes: int
    vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What one tenant holds, with what happened since it was first counted.

    That is the start, unless more than :data:`MAX_COUNTED_TENANTS` tenants were active since.

    Attributes:
        entries: Entries now.
        size_bytes: Their text, key, payload and vector.
        exact_hits: Exact lookups answered.
        semantic_hits: Semantic lookups answered.
        misses: Semantic lookups not answered, by reason. Exact ones that find nothing are not
            counted here: most of them go on to a semantic lookup.
        evictions: Entries removed because a limit was reached.
        expirations: Entries removed because their TTL ended.
        namespaces: Those that hold entries, in the order of their first entry.
    """

    entries: int
    size_bytes: int
    exact_hits: int
    semantic_hits: int
    misses: Mapping[MissReason, int]
    evictions: int
    expirations: int
    namespaces: tuple[NamespaceStats, ...]


class TenantCounts:
    """Running counts of one tenant. Not synchronised: the cache holds the lock."""

    __slots__ = ("evictions", "exact_hits", "expirations", "misses", "semantic_hits")

    def __init__(self) -> None:
        self.exact_hits = 0
        self.semantic_hits = 0
        self.misses: Counter[MissReason] = Counter()
        self.evictions = 0
        self.expirations = 0

    def add(self, result: CacheHit | CacheMiss) -> None:
        """Count one lookup."""
        if isinstance(result, CacheMiss):
            self.misses[result.reason] += 1
        elif result.kind == "exact":
            self.exact_hits += 1
        else:
            self.semantic_hits += 1


class CountsByTenant:
    """Counts of the tenants that were active last, at most :data:`MAX_COUNTED_TENANTS`.

    Who may name tenants could otherwise make the process grow without bound.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[str, TenantCounts] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def active(self, tenant: str) -> TenantCounts:
        """Return the counts to add to; the tenant becomes the one active last."""
        counts = self._counts.setdefault(tenant, TenantCounts())
        self._counts.move_to_end(tenant)
        if len(self._counts) > MAX_COUNTED_TENANTS:
            self._counts.popitem(last=False)
        return counts

    def of(self, tenant: str) -> TenantCounts:
        """Return the counts to read; zeros for a tenant without any."""
        return self._counts.get(tenant) or TenantCounts()
