"""Judge how well one number a row orders the rows.

Every function takes ``counts``, shape ``(resamples, rows)``, and returns one value a
resample (see :mod:`router.evaluation.bootstrap`); NaN marks what is undefined. Rows of equal
score count as in random order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.evaluation.bootstrap import Floats, whole


def tie_groups(score: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the ascending order of ``score`` and where each run of equal scores starts in it.

    Args:
        score: Shape ``(rows,)``, finite, at least one row.
    """
    order = np.argsort(score, kind="stable")
    ranked = score[order]
    starts = np.flatnonzero(np.append([True], ranked[1:] != ranked[:-1]))
    return order, starts


def grouped(values: Floats, order: NDArray[np.intp], starts: NDArray[np.intp]) -> Floats:
    """Return the sums of ``values`` ``(resamples, rows)`` over runs of equal scores."""
    ranked = values[:, order]
    if len(starts) == len(order):
        return ranked
    sums: Floats = np.add.reduceat(ranked, starts, axis=1)
    return sums


def auc(event: NDArray[np.bool_], score: NDArray[Any], counts: Floats | None = None) -> Floats:
    """Return the probability that a row with the event scores higher than one without.

    The area under the ROC curve (Hanley & McNeil, Radiology 1982); a tie counts one half.

    Args:
        event: Shape ``(rows,)``.
        score: Shape ``(rows,)``; higher means the event is more likely.
        counts: Shape ``(resamples, rows)``; ``None`` = the rows as they are.

    Returns:
        Shape ``(resamples,)``, in [0, 1]; NaN where a resample has one class only.
    """
    counts = whole(len(event)) if counts is None else counts
    order, starts = tie_groups(score)
    positive = grouped(counts * event, order, starts)
    negative = grouped(counts * ~event, order, starts)
    below = np.cumsum(negative, axis=1) - negative / 2.0
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    return _ratio((positive * below).sum(axis=1), pairs)


def spearman(a: NDArray[Any], b: NDArray[Any], counts: Floats | None = None) -> Floats:
    """Return Spearman's rank correlation, in [-1, 1]; ties share their mean rank.

    Args:
        a: Shape ``(rows,)``.
        b: Shape ``(rows,)``.
        counts: Shape ``(resamples, rows)``; ``None`` = the rows as they are.

    Returns:
        Shape ``(resamples,)``; NaN where one side is constant.
    """
    counts = whole(len(a)) if counts is None else counts
    ranks = []
    total = counts.sum(axis=1, keepdims=True)
    for values in (a, b):
        order, starts = tie_groups(values)
        weight = grouped(counts, order, starts)
        middle = np.cumsum(weight, axis=1) - weight / 2.0
        group_of = np.empty(len(order), dtype=np.intp)
        group_of[order] = np.cumsum(np.isin(np.arange(len(order)), starts)) - 1
        # The mean of mid-ranks is half the rows, whatever the ties.
        ranks.append(middle[:, group_of] - total / 2.0)
    x, y = ranks
    spread = (counts * x * x).sum(axis=1) * (counts * y * y).sum(axis=1)
    return _ratio((counts * x * y).sum(axis=1), np.sqrt(spread))


def balanced_accuracy(
    truth: NDArray[np.bool_], predicted: NDArray[np.bool_], counts: Floats | None = None
) -> Floats:
    """Return the mean of the two classes' recalls, shape ``(resamples,)``, in [0, 1].

    NaN where a resample has one class only.
    """
    counts = whole(len(truth)) if counts is None else counts
    right = counts * (truth == predicted)
    recalls = [
        _ratio(right[:, chosen].sum(axis=1), counts[:, chosen].sum(axis=1))
        for chosen in (truth, ~truth)
    ]
    mean: Floats = (recalls[0] + recalls[1]) / 2.0
    return mean


def roc_points(
    event: NDArray[np.bool_], score: NDArray[Any]
) -> tuple[Floats, Floats, NDArray[Any]]:
    """Return the ROC curve's corners: false-positive rate, true-positive rate, threshold.

    A point is reached by calling every row with ``score >= threshold`` positive; the first
    point, at threshold infinity, calls none.

    Raises:
        ValueError: If there is one class only.
    """
    if event.all() or not event.any():
        msg = "event: a ROC curve needs rows with it and rows without"
        raise ValueError(msg)
    order, starts = tie_groups(-score)
    once = whole(len(event))
    hits = np.cumsum(grouped(once * event, order, starts)[0])
    alarms = np.cumsum(grouped(once * ~event, order, starts)[0])
    thresholds = score[order][starts]
    return (
        np.append(0.0, alarms / alarms[-1]),
        np.append(0.0, hits / hits[-1]),
        np.append(np.inf, thresholds),
    )


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    out = np.full(numerator.shape, np.nan)
    return np.divide(numerator, denominator, out=out, where=denominator > 0.0)
