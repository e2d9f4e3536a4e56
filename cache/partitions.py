"""Group the entries of the cache by tenant, then namespace, each with a vector index of its own.

A search can only meet entries of one namespace, because it runs in an index that holds no
others.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cache.entry import Namespace
from cache.entry_store import StoredEntry
from cache.statistics import NamespaceStats
from cache.vector_index import VectorIndex


class _Partition:
    """One namespace's share of the cache."""

    __slots__ = ("entries", "index", "namespace", "size_bytes")

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.entries = 0
        self.size_bytes = 0
        self.index: VectorIndex | None = None


class Partitions:
    """Entries by namespace. Not synchronised: the cache holds the lock.

    Args:
        dim: Length of the embeddings, >= 1.
    """

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._tenants: dict[str, dict[str, _Partition]] = {}

    def add(self, stored: StoredEntry, embedding: NDArray[np.float32] | None) -> None:
        """Enter a stored entry, findable by ``embedding`` (float32, ``(dim,)``, norm 1) if any."""
        namespace = stored.entry.namespace
        partitions = self._tenants.setdefault(namespace.tenant, {})
        partition = partitions.setdefault(namespace.digest, _Partition(namespace))
        partition.entries += 1
        partition.size_bytes += stored.size_bytes
        if embedding is not None:
            if partition.index is None:
                partition.index = VectorIndex(self._dim)
            partition.index.add(stored.serial, embedding)

    def discard(self, removed: Iterable[StoredEntry]) -> None:
        """Take out entries that were entered, with every index and namespace left empty."""
        for stored in removed:
            namespace = stored.entry.namespace
            partitions = self._tenants[namespace.tenant]
            partition = partitions[namespace.digest]
            partition.entries -= 1
            partition.size_bytes -= stored.size_bytes
            if partition.index is not None:
                partition.index.remove(stored.serial)
                if len(partition.index) == 0:
                    partition.index = None
            if partition.entries == 0:
                del partitions[namespace.digest]
            if not partitions:
                del self._tenants[namespace.tenant]

    def search(
        self, namespace: Namespace, embedding: NDArray[np.float32], k: int
    ) -> list[tuple[int, float]]:
        """Return serial and cosine of up to ``k`` entries of the namespace, closest first."""
        partition = self._tenants.get(namespace.tenant, {}).get(namespace.digest)
        if partition is None or partition.index is None:
            return []
        return partition.index.search(embedding, k)

    def namespaces(self, tenant: str) -> list[Namespace]:
        """Return the tenant's namespaces that hold entries."""
        return [partition.namespace for partition in self._tenants.get(tenant, {}).values()]

    def stats(self, tenant: str) -> tuple[NamespaceStats, ...]:
        """Return what each of the tenant's namespaces holds."""
        return tuple(
            NamespaceStats(
                namespace=partition.namespace,
                entries=partition.entries,
                size_bytes=partition.size_bytes,
                vectors=0 if partition.index is None else len(partition.index),
            )
            for partition in self._tenants.get(tenant, {}).values()
        )
