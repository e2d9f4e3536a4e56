"""Define where a user's training run starts and ends."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from router.evaluation.threshold import CostMatrix
from router.training.recipe import Recipe

if TYPE_CHECKING:
    from pathlib import Path

    from router.training.graph_choice import Quantisation

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """Where a run starts and ends.

    Attributes:
        base: Registered name, artifact folder or ModernBERT folder.
        out: Folder of the new artifact.
        recipe: How to train.
        name: The artifact's; empty = that of ``out``.
        languages: ISO 639-1 codes; empty = the base artifact's, ``en`` for a bare encoder.
        quantisation: ``auto`` tries static where dynamic loses too much.
        max_auc_loss: Most that a quantised graph may lose of any route's AUC.
        cost_matrix: What wrong routing costs, for the threshold.
        device: Torch device.
        threads: Of a forward pass when measuring.
        force: Replace an artifact at ``out``.

    Raises:
        ValueError: Naming the setting.
    """

    base: str
    out: Path
    recipe: Recipe = field(default_factory=Recipe)
    name: str = ""
    languages: tuple[str, ...] = ()
    quantisation: Quantisation = "auto"
    max_auc_loss: float = 0.005
    cost_matrix: CostMatrix = field(default_factory=CostMatrix)
    device: str = "cpu"
    threads: int = 1
    force: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.artifact_name):
            msg = "name: must be 1 to 64 ASCII letters, digits, '_', '-' or '.'"
            raise ValueError(msg)
        if wrong := [code for code in self.languages if not re.fullmatch("[a-z]{2}", code)]:
            msg = f"languages: must be ISO 639-1 codes of two letters, got {', '.join(wrong)}"
            raise ValueError(msg)
        if not 0.0 <= self.max_auc_loss <= 1.0:
            msg = f"max_auc_loss: must be in [0, 1], got {self.max_auc_loss}"
            raise ValueError(msg)

    @property
    def artifact_name(self) -> str:
        """The new artifact's name."""
        return self.name or self.out.resolve().name
