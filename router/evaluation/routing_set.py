"""Read the routing rows as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from router.evaluation.bootstrap import Floats
from router.evaluation.settings import QUICK_ROWS, Settings
from router.training.sources import routing_rows

_ACCEPTABLE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingSet:
    """Prompts with both models' scores, every column of shape ``(rows,)``.

    Attributes:
        prompts: What was asked.
        source: Data set.
        task: Subject or data set within the source.
        split: ``train``, ``dev``, ``test`` or ``ood``.
        weak: Weak model's score, in [0, 1].
        strong: Strong model's score, in [0, 1].
    """

    prompts: tuple[str, ...]
    source: NDArray[np.str_]
    task: NDArray[np.str_]
    split: NDArray[np.str_]
    weak: Floats
    strong: Floats

    @classmethod
    def read(cls, settings: Settings, *splits: str) -> Self:
        """Return the rows of the named splits; a quick run keeps a few of each source."""
        rows = routing_rows(settings.data, *splits)
        if settings.quick:
            groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
            for row in rows:
                groups.setdefault((row["source"], row["split"]), []).append(row)
            rows = [r for group in groups.values() for r in settings.thin(group, limit=QUICK_ROWS)]
        return cls(
            prompts=tuple(row["prompt"] for row in rows),
            source=np.asarray([row["source"] for row in rows], dtype=np.str_),
            task=np.asarray([row["task"] for row in rows], dtype=np.str_),
            split=np.asarray([row["split"] for row in rows], dtype=np.str_),
            weak=np.asarray([row["weak_score"] for row in rows], dtype=np.float64),
            strong=np.asarray([row["strong_score"] for row in rows], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.prompts)

    def take(self, chosen: NDArray[np.bool_]) -> Self:
        """Return the rows that ``chosen`` marks."""
        return type(self)(
            prompts=tuple(p for p, keep in zip(self.prompts, chosen, strict=True) if keep),
            source=self.source[chosen],
            task=self.task[chosen],
            split=self.split[chosen],
            weak=self.weak[chosen],
            strong=self.strong[chosen],
        )

    @property
    def weak_fails(self) -> NDArray[np.bool_]:
        """Whether the weak model's answer is not acceptable (score < .5)."""
        return self.weak < _ACCEPTABLE

    @property
    def strong_fails(self) -> NDArray[np.bool_]:
        """Whether the strong model's answer is not acceptable (score < .5)."""
        return self.strong < _ACCEPTABLE

    @property
    def gain(self) -> Floats:
        """Strong minus weak score, in [-1, 1]."""
        return self.strong - self.weak

    def groups(self) -> dict[str, NDArray[np.bool_]]:
        """Return the rows of every ``source/split`` and of every split pooled, by name."""
        names = np.char.add(np.char.add(self.source, "/"), self.split)
        groups = {str(name): names == name for name in sorted(set(names.tolist()))}
        for split in sorted(set(self.split.tolist())):
            groups[f"pooled/{split}"] = self.split == split
        return groups
