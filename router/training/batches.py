"""Group tokenised texts of similar length into padded batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


def length_batches(
    lengths: NDArray[np.int64], *, batch_tokens: int, max_rows: int, seed: int
) -> list[NDArray[np.int64]]:
    """Return one epoch of row indices, shuffled, each batch holding rows of similar length.

    Args:
        lengths: Tokens a row, shape ``(rows,)``.
        batch_tokens: Upper limit of padded tokens in a batch.
        max_rows: Upper limit of rows in a batch.
        seed: Seed of the epoch; the same seed gives the same batches.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(lengths))
    batches: list[NDArray[np.int64]] = []
    for pool in np.array_split(order, max(1, len(order) // 16384)):
        by_length = pool[np.argsort(lengths[pool], kind="stable")]
        start = 0
        while start < len(by_length):
            stop = start + 1
            while (
                stop < len(by_length)
                and stop - start < max_rows
                and (stop - start + 1) * int(lengths[by_length[stop]]) <= batch_tokens
            ):
                stop += 1
            batches.append(by_length[start:stop])
            start = stop
    return [batches[i] for i in rng.permutation(len(batches))]


def pad(rows: Sequence[NDArray[np.int32]], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``input_ids`` and ``attention_mask``, int64, padded with 0 to the longest row."""
    width = max(len(row) for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.int64)
    mask = torch.zeros((len(rows), width), dtype=torch.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.from_numpy(row.astype(np.int64))
        mask[index, : len(row)] = 1
    return ids.to(device), mask.to(device)


def epochs(
    lengths: NDArray[np.int64], *, batch_tokens: int, max_rows: int, seed: int
) -> Iterator[NDArray[np.int64]]:
    """Yield batches for ever; epoch ``n`` is shuffled with ``seed + n``."""
    epoch = 0
    while True:
        yield from length_batches(
            lengths, batch_tokens=batch_tokens, max_rows=max_rows, seed=seed + epoch
        )
        epoch += 1
