"""Answer a request that was answered before, or one that asks the same.

Tenants are separate by construction: entries, vectors and counters live in structures found
only through the tenant of the caller's namespace. What may be stored at all is decided
before, by :mod:`cache.admission`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cache import guard
from cache.admission import StoreRefusal
from cache.entry import CacheEntry, CacheHit, CacheMiss, MissReason, Namespace, text_bytes
from cache.entry_store import EntryStore, StoredEntry
from cache.errors import EntryError, SettingError
from cache.partitions import Partitions
from cache.statistics import CacheStats, CountsByTenant
from cache.vector_index import unit_vector

_FLOAT32_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Limits of the cache.

    Attributes:
        max_entries: Most entries of all tenants together, >= 1.
        max_bytes: Most bytes of text, key, payload and vector of all tenants together, >= 1.
            Python objects around them take about 400 bytes an entry on top.
        ttl_s: Longest life of an entry in seconds, > 0.
        max_entry_bytes: Largest entry that is stored, from 1 to ``max_bytes``.
        similarity_threshold: Least cosine of a semantic hit, in (0, 1].
        candidates: How many of the closest entries the guard looks at, >= 1.
    """

    max_entries: int
    max_bytes: int
    ttl_s: float
    max_entry_bytes: int
    similarity_threshold: float
    candidates: int

    def __post_init__(self) -> None:
        for name in ("max_entries", "max_bytes", "max_entry_bytes", "candidates"):
            if getattr(self, name) < 1:
                msg = f"{name} must be >= 1, got {getattr(self, name)}"
                raise SettingError(msg)
        if not 0.0 < self.ttl_s < math.inf:
            msg = f"ttl_s must be finite and > 0, got {self.ttl_s}"
            raise SettingError(msg)
        if self.max_entry_bytes > self.max_bytes:
            msg = (
                f"max_entry_bytes ({self.max_entry_bytes}) must be at most max_bytes "
                f"({self.max_bytes})"
            )
            raise SettingError(msg)
        if not 0.0 < self.similarity_threshold <= 1.0:
            msg = f"similarity_threshold must be in (0, 1], got {self.similarity_threshold}"
            raise SettingError(msg)


class SemanticCache:
    """Exact and semantic cache in memory; safe to share between threads.

    Every method takes one lock for microseconds; a search of a large namespace holds it
    longest. The guard runs outside of it.

    Args:
        settings: Limits.
        dim: Length of the embeddings, >= 1.
        clock: Seconds, e.g. ``time.time``. It may step back, which counts as no time
            passed (see :mod:`cache.forward_clock`).
    """

    def __init__(self, settings: CacheSettings, *, dim: int, clock: Callable[[], float]) -> None:
        if dim < 1:
            msg = f"dim must be >= 1, got {dim}"
            raise SettingError(msg)
        self._settings = settings
        self._dim = dim
        self._lock = threading.Lock()
        self._store = EntryStore(
            max_entries=settings.max_entries, max_bytes=settings.max_bytes, clock=clock
        )
        self._partitions = Partitions(dim)
        self._counts = CountsByTenant()

    def lookup_exact(self, namespace: Namespace, key: str) -> CacheHit | None:
        """Return the answer stored under ``key`` (see :func:`cache.entry.request_key`)."""
        with self._lock:
            self._expire()
            stored = self._store.find(namespace, key)
            if stored is None:
                return None
            hit = self._use(stored, similarity=None)
            self._counts.active(namespace.tenant).add(hit)
            return hit

    def lookup_semantic(
        self,
        namespace: Namespace,
        text: str,
        embedding: NDArray[np.float32],
        *,
        is_suitable: Callable[[CacheEntry], bool] = lambda _: True,
    ) -> CacheHit | CacheMiss:
        """Return the closest answer over the threshold to which the guard consents.

        Args:
            namespace: Only its entries are looked at.
            text: What was asked, for the guard.
            embedding: float32, shape ``(dim,)``, norm 1.
            is_suitable: Whether an entry over the threshold may answer this caller; the guard
                is asked about those only.

        Returns:
            The hit, or the reason at which the closest entry failed.

        Raises:
            VectorError: If the embedding is unfit.
        """
        unit_vector(embedding, self._dim)
        with self._lock:
            self._expire()
            found = self._partitions.search(namespace, embedding, self._settings.candidates)
            neighbours = [(self._store.at(serial), similarity) for serial, similarity in found]
        result = self._judge(text, neighbours, is_suitable)
        with self._lock:
            self._counts.active(namespace.tenant).add(result)
        return result

    def insert(
        self,
        namespace: Namespace,
        *,
        key: str,
        text: str,
        payload: bytes,
        embedding: NDArray[np.float32] | None,
        decision_id: str,
        model_revision: str,
        ttl_s: float | None,
    ) -> StoreRefusal | None:
        """Store an answer, in place of one stored under the same key.

        Args:
            namespace: Where the answer holds.
            key: :func:`cache.entry.request_key` of the request; not empty.
            text: What was asked.
            payload: The serialised answer.
            embedding: float32, shape ``(dim,)``, norm 1; None keeps it from semantic lookups.
            decision_id: Decision that produced it.
            model_revision: Revision of the model that wrote it.
            ttl_s: Life in seconds, > 0; None, or more than the setting: the setting.

        Returns:
            None when stored, else why not; what was stored under the key then stays.

        Raises:
            EntryError: If the key is empty or ``ttl_s`` is not > 0.
            VectorError: If the embedding is unfit.
        """
        if ttl_s is not None and not ttl_s > 0.0:
            msg = f"ttl_s must be > 0, got {ttl_s}"
            raise EntryError(msg)
        if embedding is not None:
            unit_vector(embedding, self._dim)
        size_bytes = len(payload) + text_bytes(text, key)
        size_bytes += 0 if embedding is None else self._dim * _FLOAT32_BYTES
        if size_bytes > self._settings.max_entry_bytes:
            return StoreRefusal.ENTRY_TOO_LARGE
        life_s = self._settings.ttl_s if ttl_s is None else min(ttl_s, self._settings.ttl_s)
        with self._lock:
            self._expire()
            now_s = self._store.now_s()
            entry = CacheEntry(
                key=key,
                namespace=namespace,
                text=text,
                payload=payload,
                decision_id=decision_id,
                model_revision=model_revision,
                created_at_s=now_s,
                expires_at_s=now_s + life_s,
            )
            replaced = self._store.find(namespace, key)
            if replaced is not None:
                self._remove([replaced])
            stored, evicted = self._store.put(entry, size_bytes=size_bytes)
            self._partitions.add(stored, embedding)
            self._partitions.discard(evicted)
            for lost in evicted:
                self._counts.active(lost.entry.namespace.tenant).evictions += 1
        return None

    def evict(self, tenant: str, key: str) -> bool:
        """Remove the tenant's entries of that key; return whether there was one."""
        return self.invalidate(tenant, namespace=None, key=key, revision=None) > 0

    def invalidate(
        self, tenant: str, *, namespace: str | None, key: str | None, revision: str | None
    ) -> int:
        """Remove the tenant's entries that fit every given condition; return how many.

        Args:
            tenant: Whose entries; no other's are touched.
            namespace: Digest of a namespace; None for all.
            key: Key of a request; None for all.
            revision: Model or encoder revision of an entry; None for all.
        """
        with self._lock:
            self._expire()
            chosen = [
                stored
                for stored in self._candidates(tenant, key)
                if namespace in (None, stored.entry.namespace.digest)
                and revision
                in (None, stored.entry.model_revision, stored.entry.namespace.encoder_revision)
            ]
            self._remove(chosen)
            return len(chosen)

    def stats(self, tenant: str) -> CacheStats:
        """Return what the tenant holds and its counts; zeros for one never seen."""
        with self._lock:
            self._expire()
            entries, size_bytes = self._store.size_of(tenant)
            counts = self._counts.of(tenant)
            return CacheStats(
                entries=entries,
                size_bytes=size_bytes,
                exact_hits=counts.exact_hits,
                semantic_hits=counts.semantic_hits,
                misses=dict(counts.misses),
                evictions=counts.evictions,
                expirations=counts.expirations,
                namespaces=self._partitions.stats(tenant),
            )

    def _judge(
        self,
        text: str,
        neighbours: list[tuple[StoredEntry, float]],
        is_suitable: Callable[[CacheEntry], bool],
    ) -> CacheHit | CacheMiss:
        """Return the first neighbour that may answer, else why the closest may not."""
        if not neighbours:
            return CacheMiss(reason=MissReason.EMPTY, similarity=None)
        reason: MissReason | None = None
        for stored, similarity in neighbours:
            if similarity < self._settings.similarity_threshold:
                reason = reason or MissReason.BELOW_THRESHOLD
                break
            if not is_suitable(stored.entry):
                reason = reason or MissReason.UNSUITABLE
                continue
            refused = guard.refusal(text, stored.entry.text)
            if refused is None:
                with self._lock:
                    self._expire()
                    # It may have been invalidated while the guard was reading.
                    if stored in self._store:
                        return self._use(stored, similarity=similarity)
                refused = MissReason.REMOVED_MEANWHILE
            reason = reason or refused
        return CacheMiss(reason=reason or MissReason.EMPTY, similarity=neighbours[0][1])

    def _use(self, stored: StoredEntry, *, similarity: float | None) -> CacheHit:
        self._store.touch(stored)
        return CacheHit(
            entry=stored.entry,
            kind="exact" if similarity is None else "semantic",
            similarity=1.0 if similarity is None else similarity,
            age_s=self._store.now_s() - stored.entry.created_at_s,
        )

    def _candidates(self, tenant: str, key: str | None) -> Iterable[StoredEntry]:
        if key is None:
            return list(self._store.entries_of(tenant))
        found = (self._store.find(n, key) for n in self._partitions.namespaces(tenant))
        return [stored for stored in found if stored is not None]

    def _remove(self, chosen: Iterable[StoredEntry]) -> None:
        for stored in chosen:
            self._store.remove(stored)
            self._partitions.discard([stored])

    def _expire(self) -> None:
        expired = self._store.expire()
        self._partitions.discard(expired)
        for stored in expired:
            self._counts.active(stored.entry.namespace.tenant).expirations += 1
