"""Hold the artifact under test with everything it said so far.

Every row is encoded alone, as a quiet service would, on the graph as shipped; a row that
several sections read is encoded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from router.artifact import Artifact, load_artifact
from router.calibration import route_probabilities
from router.domain import EncoderInput, Encoding, Tier
from router.encoder import Encoder
from router.evaluation.bootstrap import Floats
from router.evaluation.progress import progress
from router.policy import Policy, Signals, ThresholdPolicy, Verdict

_TIERS = {"fast": Tier.FAST, "slow": Tier.SLOW, "tool": Tier.TOOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An artifact, its encoder and the policy that serves it by default.

    Attributes:
        artifact: What is measured.
        encoder: Loaded from it.
        policy: Turns probabilities into a tier.
    """

    artifact: Artifact
    encoder: Encoder
    policy: Policy = field(default_factory=ThresholdPolicy)
    _seen: dict[EncoderInput, Encoding] = field(default_factory=dict)

    @classmethod
    def load(cls, name_or_path: str | Path) -> Self:
        """Return the subject of a registered name or an artifact folder.

        Raises:
            ArtifactError: If the folder is missing, damaged or has another checksum.
        """
        artifact = load_artifact(name_or_path)
        return cls(artifact=artifact, encoder=Encoder.load(artifact))

    @property
    def tiers(self) -> Mapping[str, Tier]:
        """Tier by route name; a route with a name of its own is taken to mean slow."""
        return {name: _TIERS.get(name, Tier.SLOW) for name in self.artifact.routes}

    def has(self, tier: Tier) -> bool:
        """Return whether a route of the artifact leads to ``tier``."""
        return tier in self.tiers.values()

    def encode(self, items: Sequence[EncoderInput], name: str) -> list[Encoding]:
        """Return one encoding an item, in order; ``name`` labels the progress bar."""
        fresh = [item for item in dict.fromkeys(items) if item not in self._seen]
        for item in progress(fresh, name):
            self._seen[item] = self.encoder.run([item])[0]
        return [self._seen[item] for item in items]

    def probability(self, encodings: Sequence[Encoding], tier: Tier, *, mask_tools: bool) -> Floats:
        """Return the calibrated probability of a tier's routes together, shape ``(rows,)``.

        Args:
            encodings: What the encoder said.
            tier: Whose probability.
            mask_tools: Leave tool routes out and renormalise, as for requests without tools.
        """
        rows = [self._probabilities(each, mask_tools=mask_tools) for each in encodings]
        names = [name for name, of in self.tiers.items() if of is tier]
        return np.asarray([sum(row.get(name, 0.0) for name in names) for row in rows])

    def decide(
        self, encodings: Sequence[Encoding], *, mask_tools: bool, threshold: float | None = None
    ) -> list[Verdict]:
        """Return what the policy does with each encoding, abstentions included.

        Args:
            encodings: What the encoder said.
            mask_tools: Leave tool routes out and renormalise, as for requests without tools.
            threshold: ``None`` = the artifact's own.
        """
        return [
            self.policy.decide(
                Signals(
                    probabilities=self._probabilities(encoding, mask_tools=mask_tools),
                    tiers=self.tiers,
                    threshold=self.artifact.threshold if threshold is None else threshold,
                    strong_gain=encoding.strong_gain,
                    truncated=encoding.truncated,
                    language_known=encoding.language_known,
                    in_distribution=encoding.in_distribution,
                )
            )
            for encoding in encodings
        ]

    def outlier_distance(self, encodings: Sequence[Encoding]) -> Floats:
        """Return the out-of-distribution score of each encoding, higher = stranger."""
        seen = np.stack(
            [
                np.concatenate([e.embedding, np.fromiter(e.features.values(), np.float32)])
                for e in encodings
            ]
        )
        return self.artifact.detector.distance(seen).astype(np.float64)

    def close(self) -> None:
        """Stop the encoder's threads."""
        self.encoder.close()

    def _probabilities(self, encoding: Encoding, *, mask_tools: bool) -> Mapping[str, float]:
        masked = [name for name, tier in self.tiers.items() if tier is Tier.TOOL]
        return route_probabilities(
            encoding.route_logits,
            self.artifact.calibration,
            masked=masked if mask_tools else (),
        )


def sent_to(verdicts: Sequence[Verdict], tier: Tier) -> NDArray[np.bool_]:
    """Return which verdicts lead to ``tier``, shape ``(rows,)``."""
    return np.asarray([verdict.tier is tier for verdict in verdicts], dtype=np.bool_)


def abstaining(encodings: Sequence[Encoding]) -> NDArray[np.bool_]:
    """Return which inputs the encoder declines: cut, in another language or unfamiliar."""
    return np.asarray(
        [e.truncated or not e.language_known or not e.in_distribution for e in encodings],
        dtype=np.bool_,
    )
