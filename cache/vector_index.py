"""Find the stored unit vectors closest to a given one.

Exact search by inner product in a flat FAISS index (Johnson et al., "Billion-scale similarity
search with GPUs", arXiv:1702.08734). For unit vectors the inner product is the cosine.
"""

from __future__ import annotations

import faiss
import numpy as np
from numpy.typing import NDArray

from cache.errors import VectorError

NORM_TOLERANCE = 1e-3
"""Largest accepted distance of a vector's norm from 1."""


def unit_vector(vector: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """Return ``vector`` as one C-contiguous row, shape ``(1, dim)``, after checking it.

    Raises:
        VectorError: If it is not a float32 vector of shape ``(dim,)``, has a value that is
            not finite, or a norm further than :data:`NORM_TOLERANCE` from 1.
    """
    if vector.dtype != np.float32:
        msg = f"embedding must be float32, got {vector.dtype}"
        raise VectorError(msg)
    if vector.shape != (dim,):
        msg = f"embedding must have shape ({dim},), got {vector.shape}"
        raise VectorError(msg)
    norm = float(np.linalg.norm(vector.astype(np.float64)))  # float32 squares overflow
    if not np.isfinite(norm):
        msg = "embedding has a value that is not finite"
        raise VectorError(msg)
    if abs(norm - 1.0) > NORM_TOLERANCE:
        msg = f"embedding must have norm 1 within {NORM_TOLERANCE}, got {norm:.6f}"
        raise VectorError(msg)
    return np.ascontiguousarray(vector).reshape(1, dim)


class VectorIndex:
    """Unit vectors by integer id, searched exactly.

    Not synchronised: callers hold the lock of the cache it belongs to.

    Args:
        dim: Length of every vector, >= 1.
    """

    def __init__(self, dim: int) -> None:
        if dim < 1:
            msg = f"dim must be >= 1, got {dim}"
            raise VectorError(msg)
        self._dim = dim
        self._index = faiss.IndexFlatIP(dim)
        self._id_of_row: list[int] = []
        self._row_of_id: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._id_of_row)

    def __contains__(self, vector_id: int) -> bool:
        return vector_id in self._row_of_id

    def add(self, vector_id: int, vector: NDArray[np.float32]) -> None:
        """Store ``vector``, float32 of shape ``(dim,)`` and norm 1, under a new id.

        Raises:
            VectorError: If the vector is unfit (see :func:`unit_vector`) or the id is taken.
        """
        if vector_id in self._row_of_id:
            msg = f"vector id {vector_id} is taken"
            raise VectorError(msg)
        self._index.add(unit_vector(vector, self._dim))
        self._row_of_id[vector_id] = len(self._id_of_row)
        self._id_of_row.append(vector_id)

    def remove(self, vector_id: int) -> bool:
        """Forget the vector of ``vector_id``; return whether there was one.

        The last row moves into the gap. FAISS's own removal by id would shift every later row
        and rebuild its id map, about twenty times slower at 10,000 vectors.
        """
        row = self._row_of_id.pop(vector_id, None)
        if row is None:
            return False
        last = len(self._id_of_row) - 1
        moved_id = self._id_of_row.pop()
        if row != last:
            rows = faiss.rev_swig_ptr(self._index.get_xb(), (last + 1) * self._dim)
            rows = rows.reshape(last + 1, self._dim)
            rows[row] = rows[last]
            self._id_of_row[row] = moved_id
            self._row_of_id[moved_id] = row
        self._index.remove_ids(faiss.IDSelectorRange(last, last + 1))
        return True

    def search(self, vector: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        """Return up to ``k`` pairs of id and cosine, the closest first.

        Args:
            vector: float32, shape ``(dim,)``, norm 1.
            k: How many to return, >= 1; fewer come back when fewer are stored.

        Returns:
            Ids with their similarity, clipped to [-1, 1].

        Raises:
            VectorError: If the vector is unfit (see :func:`unit_vector`).
        """
        query = unit_vector(vector, self._dim)
        k = min(k, len(self._id_of_row))
        if k < 1:
            return []
        # One query is too little work to share: with a busy second core, waiting for the other
        # OpenMP threads takes milliseconds. The setting is per calling thread, so it is made
        # at each call.
        faiss.omp_set_num_threads(1)
        similarities, rows = self._index.search(query, k)
        return [
            (self._id_of_row[row], min(1.0, max(-1.0, similarity)))
            for row, similarity in zip(rows[0].tolist(), similarities[0].tolist(), strict=True)
        ]
