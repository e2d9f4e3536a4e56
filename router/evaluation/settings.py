"""Say what one evaluation run depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from router.evaluation.bootstrap import Resampling
from router.evaluation.threshold import CostMatrix

Item = TypeVar("Item")

QUICK_ROWS = 60
QUICK_RESAMPLES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run depends on beside the artifact.

    Attributes:
        data: Folder of the public data sets; ``router/training/README.md`` has its layout.
        work: Folder for what later runs can reuse, such as the teacher's embeddings.
        resampling: How intervals are drawn.
        cost_matrix: What wrong routing costs.
        quick: Measure only evenly spaced rows; for trying the command out.
        device: Torch device of the teacher.
    """

    data: Path
    work: Path
    resampling: Resampling = field(default_factory=Resampling)
    cost_matrix: CostMatrix = field(default_factory=CostMatrix)
    quick: bool = False
    device: str = "cpu"

    def thin(self, rows: Sequence[Item], *, limit: int = QUICK_ROWS) -> list[Item]:
        """Return all rows, or ``limit`` evenly spaced ones in a quick run."""
        if not self.quick or len(rows) <= limit:
            return list(rows)
        return [rows[i * len(rows) // limit] for i in range(limit)]
