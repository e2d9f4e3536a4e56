"""Count what one tenant's lookups came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cache.entry import CacheHit, CacheMiss, MissReason, Namespace


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
    """What one tenant holds, with what happened since the start.

    Attributes:
        entries: Entries now.
        size_bytes: Their text, key, payload and vector.
        exact_hits: Exact lookups answered.
        semantic_hits: Semantic lookups answered.
        misses: Lookups not answered, by reason; a request that misses both levels counts once
            in each.
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


class LookupCounts:
    """Running counts of one tenant. Not synchronised: the cache holds the lock."""

    __slots__ = ("exact_hits", "misses", "semantic_hits")

    def __init__(self) -> None:
        self.exact_hits = 0
        self.semantic_hits = 0
        self.misses: Counter[MissReason] = Counter()

    def add(self, result: CacheHit | CacheMiss) -> None:
        """Count one lookup."""
        if isinstance(result, CacheMiss):
            self.misses[result.reason] += 1
        elif result.kind == "exact":
            self.exact_hits += 1
        else:
            self.semantic_hits += 1
