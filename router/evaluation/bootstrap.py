"""Put an interval on a figure by resampling the rows it was measured on.

A statistic is a function of *counts*: how often each row occurs in each resample, shape
``(resamples, rows)``. Every statistic of one call sees the same resamples, so the difference
of two of them is paired. Source: Efron & Tibshirani, "An Introduction to the Bootstrap",
1993, chapters 8 (pairs) and 13 (percentile interval).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Counts (resamples, rows) -> one value a resample, NaN where it is undefined.
Statistic = Callable[[Floats], Floats]

_CELLS = 4_000_000  # of a block of resamples, 32 MB a matrix
_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """How intervals are drawn.

    Attributes:
        resamples: Number of resamples, >= 2.
        seed: Of the resamples; the same seed and row count give the same ones.
    """

    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resamples < 2:
            msg = f"resamples: must be at least 2, got {self.resamples}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value with its 95 % interval.

    Attributes:
        value: ``None`` where it is undefined, such as an AUC of one class.
        low: Lower end, ``None`` where undefined.
        high: Upper end, ``None`` where undefined.
        n: Rows it was measured on.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    def to_json(self) -> dict[str, Any]:
        """Return the figure as plain values."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """A statistic on the rows themselves and on every resample.

    Attributes:
        value: On the rows.
        samples: Shape ``(resamples,)``, NaN where undefined.
        n: Number of rows.
    """

    value: float
    samples: Floats
    n: int

    def figure(self) -> Figure:
        """Return value and percentile interval; undefined resamples are left out."""
        if not math.isfinite(self.value):
            return Figure(value=None, low=None, high=None, n=self.n)
        known = self.samples[np.isfinite(self.samples)]
        if self.n < 2 or not known.size:
            return Figure(value=self.value, low=None, high=None, n=self.n)
        low, high = np.percentile(known, _PERCENTILES)
        return Figure(value=self.value, low=float(low), high=float(high), n=self.n)

    def minus(self, other: Draws) -> Draws:
        """Return the paired difference; ``other`` must come from the same call."""
        return Draws(value=self.value - other.value, samples=self.samples - other.samples, n=self.n)


def whole(rows: int) -> Floats:
    """Return the counts of the rows as they are, shape ``(1, rows)``."""
    return np.ones((1, rows))


def draw(
    statistics: Mapping[str, Statistic], *, rows: int, resampling: Resampling
) -> dict[str, Draws]:
    """Return every statistic on ``rows`` rows and on their resamples, by name.

    Raises:
        ValueError: If there are no rows.
    """
    if rows < 1:
        msg = "rows: need at least one to measure anything"
        raise ValueError(msg)
    rng = np.random.default_rng(resampling.seed)
    drawn: dict[str, list[Floats]] = {name: [] for name in statistics}
    block = max(1, _CELLS // rows)
    for start in range(0, resampling.resamples, block):
        size = min(block, resampling.resamples - start)
        counts = rng.multinomial(rows, np.full(rows, 1.0 / rows), size).astype(np.float64)
        for name, statistic in statistics.items():
            drawn[name].append(statistic(counts))
    once = whole(rows)
    return {
        name: Draws(value=float(statistic(once)[0]), samples=np.concatenate(drawn[name]), n=rows)
        for name, statistic in statistics.items()
    }


def measured(
    statistics: Mapping[str, Statistic], *, rows: int, resampling: Resampling
) -> dict[str, Any]:
    """Return every statistic as a figure in plain values, by name."""
    drawn = draw(statistics, rows=rows, resampling=resampling)
    return {name: each.figure().to_json() for name, each in drawn.items()}


def mean_of(values: NDArray[Any]) -> Statistic:
    """Return the statistic "mean of ``values``", of shape ``(rows,)``; a share for booleans."""
    numbers = np.asarray(values, dtype=np.float64)

    def statistic(counts: Floats) -> Floats:
        means: Floats = (counts @ numbers) / counts.sum(axis=1)
        return means

    return statistic
