"""Route texts in process, without a server.

>>> from router import LayaRouter
>>> routed = LayaRouter.from_pretrained("laya-base").route("How many legs does a spider have?")
>>> routed.tier
'fast'
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from router.artifact import Artifact, load_artifact
from router.clock import Clock
from router.deciding import Decider, DecisionRules
from router.domain import EncoderInput, Encoding, Message, Request, Role, Tier
from router.encoder import Encoder
from router.policy import ThresholdPolicy

_BATCH_ROWS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """Where one text should go.

    Attributes:
        tier: ``"fast"``, ``"slow"`` or ``"tool"``.
        reason: Bare word of the closed enum, e.g. ``"CONFIDENT"``.
        probabilities: Calibrated probability in [0, 1] by route name; they sum to 1.
        temperature: Sampling temperature, in [0.1, 1.5].
        expected_output_tokens: Expected answer length, median, tokens.
        embedding: Shape ``(dim,)``, float32, unit norm.
    """

    tier: Literal["fast", "slow", "tool"]
    reason: str
    probabilities: Mapping[str, float]
    temperature: float
    expected_output_tokens: int
    embedding: NDArray[np.float32]


_TIERS: Mapping[Tier, Literal["fast", "slow", "tool"]] = {
    Tier.FAST: "fast",
    Tier.SLOW: "slow",
    Tier.TOOL: "tool",
}


class LayaRouter:
    """A loaded artifact with the default policy; safe to call from several threads."""

    def __init__(self, encoder: Encoder, decider: Decider) -> None:
        self._encoder = encoder
        self._decider = decider

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, threshold: float | None = None, threads: int = 1
    ) -> Self:
        """Return a router over a registered artifact or an artifact folder.

        Args:
            name_or_path: ``"laya-base"``, or the path of an artifact folder.
            threshold: Probability in [0, 1] a route has to reach; ``None`` takes the
                artifact's own.
            threads: Threads of one forward pass.

        Raises:
            ArtifactError: If the folder is missing, damaged or has another checksum.
            ValueError: If ``threshold`` is outside [0, 1] or a route has no default tier.
        """
        artifact = load_artifact(name_or_path)
        return cls(Encoder.load(artifact, threads=threads), _decider(artifact, threshold))

    def route(self, text: str) -> Routed:
        """Return where ``text`` should go.

        Raises:
            ValueError: If ``text`` is blank or no valid Unicode.
        """
        return self.route_many([text])[0]

    def route_many(self, texts: Sequence[str]) -> list[Routed]:
        """Return where each text should go, in order; texts share forward passes.

        Raises:
            ValueError: If a text is blank or no valid Unicode, naming its position.
        """
        for position, text in enumerate(texts):
            if not text.strip():
                msg = f"texts[{position}]: blank"
                raise ValueError(msg)
            if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
                msg = f"texts[{position}]: holds a lone surrogate, which is no character"
                raise ValueError(msg)
        # Texts of similar length share a batch: a row is padded to its longest neighbour.
        by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        routed: dict[int, Routed] = {}
        for start in range(0, len(by_length), _BATCH_ROWS):
            chosen = by_length[start : start + _BATCH_ROWS]
            encodings = self._encoder.run([EncoderInput(text=texts[i]) for i in chosen])
            for i, encoding in zip(chosen, encodings, strict=True):
                routed[i] = self._routed(texts[i], encoding)
        return [routed[i] for i in range(len(texts))]

    def _routed(self, text: str, encoding: Encoding) -> Routed:
        request = Request(
            tenant="default",
            deadline_s=math.inf,
            messages=(Message(role=Role.USER, content=text),),
        )
        decision = self._decider.decide(request, encoding, mask_tools=False)
        return Routed(
            tier=_TIERS[decision.tier],
            reason=decision.reason.value,
            probabilities=decision.probabilities,
            temperature=decision.sampling_temperature,
            expected_output_tokens=decision.expected_output_tokens,
            embedding=encoding.embedding,
        )


def _decider(artifact: Artifact, threshold: float | None) -> Decider:
    known = {"fast": Tier.FAST, "slow": Tier.SLOW, "tool": Tier.TOOL}
    rules = DecisionRules(
        calibration=artifact.calibration,
        tiers={name: known[name] for name in artifact.routes if name in known},
        policy=ThresholdPolicy(),
        threshold=artifact.threshold if threshold is None else threshold,
        encoder_revision=artifact.revision,
        config_revision="",
    )
    return Decider(rules, clock=Clock(), new_id=lambda: uuid.uuid4().hex)
