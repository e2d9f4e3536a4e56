"""Judge a classifier that may stay silent where it is unsure.

Source: El-Yaniv & Wiener, "On the Foundations of Noise-free Selective Classification", JMLR
2010; Geifman & El-Yaniv, "Selective Classification for Deep Neural Networks", NeurIPS 2017,
arXiv:1705.08500.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from router.evaluation.bootstrap import Floats, whole
from router.evaluation.ranking import grouped, tie_groups


def accuracy_at_coverage(
    right: NDArray[np.bool_], confidence: Floats, coverage: float, counts: Floats | None = None
) -> Floats:
    """Return the accuracy on the most confident rows.

    Args:
        right: Whether the prediction is right, shape ``(rows,)``.
        confidence: Shape ``(rows,)``; rows of equal confidence count as in random order.
        coverage: Share of the rows that are answered, in (0, 1].
        counts: Shape ``(resamples, rows)``; ``None`` = the rows as they are.

    Returns:
        Shape ``(resamples,)``, in [0, 1].
    """
    if not 0.0 < coverage <= 1.0:
        msg = f"coverage: must be in (0, 1], got {coverage}"
        raise ValueError(msg)
    covered, correct = _accumulated(right, confidence, counts)
    values = [np.interp(coverage, x, y) / coverage for x, y in zip(covered, correct, strict=True)]
    return np.asarray(values)


def area_under_risk_coverage(
    right: NDArray[np.bool_], confidence: Floats, counts: Floats | None = None
) -> Floats:
    """Return the mean error over all coverages (AURC), shape ``(resamples,)``, in [0, 1].

    Source: Geifman et al., "Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers",
    ICLR 2019, arXiv:1805.08206, section 2. Lower is better; a confidence that says nothing
    scores the error rate.
    """
    covered, correct = _accumulated(right, confidence, counts)
    # Nothing is covered yet where a resample lacks the most confident rows.
    error = 1.0 - correct[:, 1:] / np.maximum(covered[:, 1:], 1e-12)
    area: Floats = (np.diff(covered, axis=1) * error).sum(axis=1)
    return area


def _accumulated(
    right: NDArray[np.bool_], confidence: Floats, counts: Floats | None
) -> tuple[Floats, Floats]:
    counts = whole(len(right)) if counts is None else counts
    order, starts = tie_groups(-confidence)
    total = counts.sum(axis=1, keepdims=True)
    covered = np.cumsum(grouped(counts, order, starts), axis=1) / total
    correct = np.cumsum(grouped(counts * right, order, starts), axis=1) / total
    zero = np.zeros((len(counts), 1))
    return np.concatenate([zero, covered], axis=1), np.concatenate([zero, correct], axis=1)
