"""Turn rows into what an exported graph reads, run it over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
from tqdm import tqdm

from router.encoder import OUTPUTS
from router.features import explicit_features
from router.training.batches import length_batches, pad

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from router.domain import EncoderInput
    from router.tokens import InputTokenizer

_BATCH_TOKENS = 4096
_BATCH_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenisedRows:
    """Rows as the encoder reads them.

    Attributes:
        ids: Token ids a row, int32.
        text_ids: Those of the text alone, int64.
        features: Shape ``(rows, features)``, float32.
    """

    ids: list[NDArray[np.int32]]
    text_ids: list[NDArray[np.int64]]
    features: NDArray[np.float32]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens a row, shape ``(rows,)``."""
        return np.asarray([len(row) for row in self.ids], dtype=np.int64)

    def take(self, rows: NDArray[np.int64]) -> TokenisedRows:
        """Return the chosen rows."""
        return TokenisedRows(
            ids=[self.ids[i] for i in rows],
            text_ids=[self.text_ids[i] for i in rows],
            features=self.features[rows],
        )

    def feed(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return a graph's inputs for the chosen rows, padded to the longest."""
        ids, mask = pad([self.ids[i] for i in rows], "cpu")
        return {
            "input_ids": ids.numpy(),
            "attention_mask": mask.numpy(),
            "features": self.features[rows],
        }

    def batches(self) -> list[NDArray[np.int64]]:
        """Return all rows in batches of similar length."""
        return length_batches(
            self.lengths, batch_tokens=_BATCH_TOKENS, max_rows=_BATCH_ROWS, seed=0
        )


def tokenised(tokenizer: InputTokenizer, items: Sequence[EncoderInput]) -> TokenisedRows:
    """Return the items' tokens and explicit features."""
    rows = [tokenizer.row(item) for item in items]
    features = [
        explicit_features(
            item.text, item.tools, tokens=row.text_tokens, unknown_tokens=row.unknown_tokens
        )
        for item, row in zip(items, rows, strict=True)
    ]
    return TokenisedRows(
        ids=[row.ids.astype(np.int32) for row in rows],
        text_ids=[row.text_ids for row in rows],
        features=np.stack(features),
    )


def run_graph(graph: Path, rows: TokenisedRows, *, threads: int) -> dict[str, NDArray[np.float32]]:
    """Return every output of the graph for all rows, in the rows' order."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    batches = rows.batches()
    parts = [
        session.run(list(OUTPUTS), rows.feed(batch))
        for batch in tqdm(batches, desc=graph.name, unit="batch", disable=None)
    ]
    back = np.argsort(np.concatenate(batches))
    return {
        name: np.concatenate([part[i] for part in parts])[back] for i, name in enumerate(OUTPUTS)
    }
