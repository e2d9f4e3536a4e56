"""The index finds what a brute-force scan finds, after any removals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.errors import VectorError
from cache.vector_index import VectorIndex

DIM = 8


def unit(seed: int, dim: int = DIM) -> np.ndarray:
    vector = np.random.default_rng(seed).normal(size=dim)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def test_similarity_is_the_cosine_closest_first() -> None:
    index = VectorIndex(2)
    index.add(7, np.array([1.0, 0.0], dtype=np.float32))
    index.add(8, np.array([0.0, 1.0], dtype=np.float32))
    found = index.search(np.array([0.6, 0.8], dtype=np.float32), 5)
    assert [vector_id for vector_id, _ in found] == [8, 7]
    assert [similarity for _, similarity in found] == pytest.approx([0.8, 0.6])


def test_similarity_never_exceeds_one() -> None:
    index = VectorIndex(DIM)
    longer = unit(1) * np.float32(1.0005)
    index.add(1, longer)
    assert index.search(longer, 1) == [(1, 1.0)]


@given(st.lists(st.integers(0, 9), max_size=60))
def test_any_order_of_adding_and_removing_agrees_with_a_scan(operations: list[int]) -> None:
    index, model = VectorIndex(DIM), {}
    for vector_id in operations:
        if vector_id in model:
            assert index.remove(vector_id)
            del model[vector_id]
        else:
            model[vector_id] = unit(vector_id)
            index.add(vector_id, model[vector_id])
    assert len(index) == len(model)
    query = unit(99)
    expected = sorted(((float(v @ query), k) for k, v in model.items()), reverse=True)[:3]
    found = index.search(query, 3)
    assert [vector_id for vector_id, _ in found] == [k for _, k in expected]
    assert [s for _, s in found] == pytest.approx([s for s, _ in expected], abs=1e-6)


def test_removing_an_unknown_id_says_so_and_changes_nothing() -> None:
    index = VectorIndex(DIM)
    index.add(1, unit(1))
    assert not index.remove(2)
    assert len(index) == 1


def test_an_id_cannot_be_taken_twice() -> None:
    index = VectorIndex(DIM)
    index.add(1, unit(1))
    with pytest.raises(VectorError, match="id 1 is taken"):
        index.add(1, unit(2))


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (unit(1).astype(np.float64), "must be float32, got float64"),
        (unit(1, dim=9), r"must have shape \(8,\), got \(9,\)"),
        (unit(1)[None, :], r"must have shape \(8,\), got \(1, 8\)"),
        (unit(1) * np.float32(1.01), "norm 1 within 0.001, got 1.010"),
        (np.zeros(DIM, dtype=np.float32), "norm 1 within 0.001, got 0.000"),
        (np.full(DIM, np.nan, dtype=np.float32), "not finite"),
        (np.full(DIM, 1e30, dtype=np.float32), "not finite|norm 1"),
    ],
)
def test_an_unfit_vector_is_refused_with_what_is_wrong(vector, message) -> None:
    index = VectorIndex(DIM)
    with pytest.raises(VectorError, match=message):
        index.add(1, vector)
    with pytest.raises(VectorError, match=message):
        index.search(vector, 1)
    assert len(index) == 0


def test_a_strided_view_is_stored_by_value() -> None:
    index = VectorIndex(DIM)
    doubled = np.repeat(unit(3), 2)
    index.add(1, doubled[::2])
    doubled[:] = 0.0
    assert index.search(unit(3), 1)[0][1] == pytest.approx(1.0, abs=1e-6)


def test_an_index_needs_a_dimension() -> None:
    with pytest.raises(VectorError, match="dim must be >= 1, got 0"):
        VectorIndex(0)
