"""Choose the threshold of P(fast) that costs least under a cost matrix.

Cost-sensitive thresholding by direct search (Sheng & Ling, "Thresholding for Making
Classifiers Cost-sensitive", AAAI 2006). For calibrated probabilities and costs ``a`` (complex
sent to fast) and ``b`` (simple sent to slow) the least cost lies at ``a / (a + b)`` (Elkan,
IJCAI 2001, section 2.2), so with 10 to 1 a search up to .90 usually ends at its upper end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from router.artifact import ThresholdSearch
from router.evaluation.bootstrap import Floats, Statistic

THRESHOLDS = tuple(round(0.50 + 0.01 * step, 2) for step in range(41))


@dataclass(frozen=True, slots=True, kw_only=True)
class CostMatrix:
    """What wrong routing costs; right routing costs nothing.

    Attributes:
        complex_to_fast: A request the weak model fails on is sent to it, >= 0.
        simple_to_slow: A request the weak model masters is sent to the strong one, >= 0.
    """

    complex_to_fast: float = 10.0
    simple_to_slow: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (
            ("complex_to_fast", self.complex_to_fast),
            ("simple_to_slow", self.simple_to_slow),
        ):
            if not (math.isfinite(value) and value >= 0.0):
                msg = f"{name}: must be finite and >= 0, got {value}"
                raise ValueError(msg)


def row_costs(
    sent_fast: NDArray[np.bool_], weak_fails: NDArray[np.bool_], matrix: CostMatrix
) -> Floats:
    """Return the cost of every row, shape ``(rows,)``."""
    wrong_fast = (sent_fast & weak_fails) * matrix.complex_to_fast
    wrong_slow = (~sent_fast & ~weak_fails) * matrix.simple_to_slow
    costs: Floats = wrong_fast + wrong_slow
    return costs


def error_rates(
    sent_fast: NDArray[np.bool_], weak_fails: NDArray[np.bool_]
) -> dict[str, Statistic]:
    """Return both error directions as statistics, NaN where a resample lacks the class.

    ``complex_sent_fast`` is the share of the rows the weak model fails on that are sent to
    it; ``simple_sent_slow`` the share of those it masters that are not.
    """

    def rate(of: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> Statistic:
        def statistic(counts: Floats) -> Floats:
            rows = counts @ of.astype(np.float64)
            out = np.full(rows.shape, np.nan)
            hits = counts @ (of & wrong).astype(np.float64)
            return np.divide(hits, rows, out=out, where=rows > 0.0)

        return statistic

    return {
        "complex_sent_fast": rate(weak_fails, sent_fast),
        "simple_sent_slow": rate(~weak_fails, ~sent_fast),
    }


def search_threshold(
    p_fast: Floats,
    weak_fails: NDArray[np.bool_],
    matrix: CostMatrix,
    thresholds: tuple[float, ...] = THRESHOLDS,
) -> ThresholdSearch:
    """Return the threshold of least mean cost, with the whole curve.

    Of equally cheap thresholds the highest is chosen: a wrong answer is worse than a slow one.

    Args:
        p_fast: Calibrated probability that the weak model suffices, shape ``(rows,)``.
        weak_fails: Whether it does not, shape ``(rows,)``.
        matrix: What errors cost.
        thresholds: Ascending, each in [0, 1].

    Raises:
        ValueError: If there are no rows or no thresholds.
    """
    if not len(p_fast) or not thresholds:
        msg = "a threshold search needs rows and thresholds"
        raise ValueError(msg)
    costs = [float(row_costs(p_fast >= t, weak_fails, matrix).mean()) for t in thresholds]
    least = min(costs)
    chosen = max(t for t, c in zip(thresholds, costs, strict=True) if c <= least + 1e-12)
    return ThresholdSearch(
        threshold=chosen,
        complex_to_fast=matrix.complex_to_fast,
        simple_to_slow=matrix.simple_to_slow,
        rows=len(p_fast),
        curve=tuple(zip(thresholds, costs, strict=True)),
    )
