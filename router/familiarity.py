"""Judge from its tokens whether a text is of a kind the encoder was trained for.

A linear classifier over explicit features and token statistics tells ordinary requests from
other languages and from noise. It was shown such texts in training (outlier exposure:
Hendrycks et al., arXiv:1812.04606); what nobody thought of showing it is left to the distance
of the embedding (:mod:`router.outlier_detector`). Tables, weights and thresholds are the
artifact's: nothing here knows a script or a language.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from router.array_file import read_arrays
from router.errors import ArtifactError
from router.features import FEATURE_NAMES

KINDS = ("ordinary", "other_language", "strange")
# What is offered beside a text says nothing of the text.
TEXT_FEATURES = tuple(name for name in FEATURE_NAMES if name not in {"tools_known", "log_tools"})
STATISTICS = (
    "mean_rarity",
    "high_rarity",
    "spread_of_rarity",
    "rare_share",
    "repeated_share",
    "mean_foreign_odds",
    "evidence_of_foreign",
    "foreign_share",
    "native_share",
    "mean_native_odds",
)
_TEXT_COLUMNS = [FEATURE_NAMES.index(name) for name in TEXT_FEATURES]
_RARE_NATS = 4.0
_TELLING_NATS = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Familiarity:
    """What an artifact knows of ordinary texts.

    Attributes:
        rarity: Negative log-probability of every token in ordinary text, relative to its
            mean there, natural logarithm, shape ``(vocabulary,)``, float32.
        foreign_odds: Log-odds of every token between other languages and ordinary text, shape
            ``(vocabulary,)``, float32.
        weights: One row an input (:data:`TEXT_FEATURES`, then :data:`STATISTICS`), one column
            a kind of :data:`KINDS`, shape ``(27, 3)``, float32.
        bias: Shape ``(3,)``, float32.
        thresholds: Highest probabilities, of another language and of noise, that are let
            pass, shape ``(2,)``, float32.

    Raises:
        ValueError: If a shape differs or a number is not finite, naming the array.
    """

    rarity: NDArray[np.float32]
    foreign_odds: NDArray[np.float32]
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    thresholds: NDArray[np.float32]

    def __post_init__(self) -> None:
        inputs = len(TEXT_FEATURES) + len(STATISTICS)
        wanted = {
            "rarity": (self.rarity.size,),
            "foreign_odds": (self.rarity.size,),
            "weights": (inputs, len(KINDS)),
            "bias": (len(KINDS),),
            "thresholds": (len(KINDS) - 1,),
        }
        for field in fields(self):
            array = getattr(self, field.name)
            if array.shape != wanted[field.name]:
                msg = f"{field.name}: expected shape {wanted[field.name]}, got {array.shape}"
                raise ValueError(msg)
            if not np.isfinite(array).all():
                msg = f"{field.name}: holds a number that is not finite"
                raise ValueError(msg)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return what :meth:`save` wrote.

        Raises:
            ArtifactError: If the file cannot be read or does not hold what it should.
        """
        read = read_arrays(path, *(field.name for field in fields(cls)))
        try:
            return cls(**read)
        except ValueError as error:
            msg = f"{path}: {error}"
            raise ArtifactError(msg) from error

    def save(self, path: Path) -> None:
        """Write the arrays to ``path``, the two token tables in half precision."""
        halved = {"rarity": np.float16, "foreign_odds": np.float16}
        arrays = {
            field.name: getattr(self, field.name).astype(halved.get(field.name, np.float32))
            for field in fields(self)
        }
        np.savez_compressed(path, **arrays)

    def probabilities(
        self, text_ids: NDArray[np.int64], features: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the probability of each kind of :data:`KINDS`, shape ``(3,)``.

        Args:
            text_ids: Token ids of the text without special tokens, shape ``(tokens,)``.
            features: All explicit features, in the order of ``FEATURE_NAMES``.
        """
        inputs = classifier_inputs(text_ids, features, self.rarity, self.foreign_odds)
        logits = inputs @ self.weights + self.bias
        exponentials = np.exp(logits - logits.max())
        shares: NDArray[np.float32] = exponentials / exponentials.sum()
        return shares

    def judge(
        self, text_ids: NDArray[np.int64], features: NDArray[np.float32]
    ) -> tuple[bool, bool]:
        """Return whether the language is a declared one, and whether the text is no noise."""
        passed = self.probabilities(text_ids, features)[1:] <= self.thresholds
        return bool(passed[0]), bool(passed[1])


def classifier_inputs(
    ids: NDArray[np.int64],
    features: NDArray[np.float32],
    rarity: NDArray[np.float32],
    foreign_odds: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return what the classifier reads of one text, shape ``(27,)``, float32."""
    chosen = features[_TEXT_COLUMNS]
    if not len(ids):
        return np.concatenate([chosen, np.zeros(len(STATISTICS), np.float32)])
    rare, odds = rarity[ids], foreign_odds[ids]
    statistics = (
        rare.mean(),
        np.sort(rare)[int(0.8 * (len(rare) - 1))],  # numpy.quantile takes far longer
        rare.std(),
        (rare > _RARE_NATS).mean(),
        1.0 - len(set(ids.tolist())) / len(ids),
        odds.mean(),
        # The sum grows with the length; its chance spread with the root of the length.
        odds.sum() / np.sqrt(len(ids)),
        (odds > _TELLING_NATS).mean(),
        (odds < -_TELLING_NATS).mean(),
        np.minimum(odds, 0.0).mean(),
    )
    return np.concatenate([chosen, np.asarray(statistics, dtype=np.float32)])
