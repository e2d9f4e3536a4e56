"""Judge a router between a weak and a strong model by what its calls to the strong one buy.

A router scores every row; the share of calls that may go to the strong model goes to the
rows with the highest scores. Rows of equal score are called in random order, so the curve
below is its expectation: straight between the ends of a run of ties. Every function takes
``counts``, shape ``(resamples, rows)`` (see :mod:`router.evaluation.bootstrap`).

Sources: Ong et al., "RouteLLM", arXiv:2406.18665, section 3 (PGR, APGR, CPT); Hu et al.,
"RouterBench", arXiv:2403.12031, section 3 (non-decreasing convex hull, AIQ).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.evaluation.bootstrap import Floats, whole
from router.evaluation.ranking import grouped, tie_groups

GRID = np.linspace(0.0, 1.0, 101)


def apgr(gain: Floats, score: NDArray[Any], counts: Floats | None = None) -> Floats:
    """Return the average performance gap recovered, shape ``(resamples,)``.

    The gap recovered at a share of strong calls is the quality gained over weak-only, as a
    share of what strong-only gains; this is its mean over all shares from 0 to 1, the exact
    integral. RouteLLM approximates the integral by the mean at 10 %, 20 %, ... 100 %, which
    lies about .05 higher; a random router scores .5 here.

    Args:
        gain: Strong minus weak score, shape ``(rows,)``.
        score: Shape ``(rows,)``; higher rows go to the strong model first.
        counts: Shape ``(resamples, rows)``; ``None`` = the rows as they are.

    Returns:
        Around [0, 1], above 1 where the weak model is often the better one; NaN where the
        strong model gains nothing.
    """
    calls, gained = _accumulated(gain, score, counts)
    steps = np.diff(calls, axis=1)
    area = (steps * (gained[:, 1:] + gained[:, :-1]) / 2.0).sum(axis=1)
    return _relative(area, gained[:, -1])


def cpt(
    gain: Floats, score: NDArray[Any], *, recovered: float, counts: Floats | None = None
) -> Floats:
    """Return the least share of strong calls that recovers a part of the gap: CPT.

    Args:
        gain: Strong minus weak score, shape ``(rows,)``.
        score: Shape ``(rows,)``; higher rows go to the strong model first.
        recovered: Part of the gap, in (0, 1]; .5 gives CPT(50).
        counts: Shape ``(resamples, rows)``; ``None`` = the rows as they are.

    Returns:
        Shape ``(resamples,)``, in [0, 1]; NaN where the strong model gains nothing.
    """
    calls, gained = _accumulated(gain, score, counts)
    share = _relative(gained.T, gained[:, -1]).T
    # Rounding must not push the last point under 1.
    reached = share >= recovered - 1e-12
    after = np.maximum(reached.argmax(axis=1), 1)
    rows = np.arange(len(share))
    low, high = share[rows, after - 1], share[rows, after]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (recovered - low) / (high - low), 0.0)
    start, end = calls[rows, after - 1], calls[rows, after]
    needed: Floats = start + np.clip(part, 0.0, 1.0) * (end - start)
    needed[~reached.any(axis=1)] = np.nan
    return needed


def quality_curve(
    weak: Floats, gain: Floats, score: NDArray[Any], counts: Floats | None = None
) -> Floats:
    """Return the mean quality at each share of strong calls in :data:`GRID`.

    Args:
        weak: Weak model's score, shape ``(rows,)``.
        gain: Strong minus weak score, shape ``(rows,)``.
        score: Shape ``(rows,)``; higher rows go to the strong model first.
        counts: Shape ``(resamples, rows)``; ``None`` = the rows as they are.

    Returns:
        Shape ``(resamples, len(GRID))``.
    """
    counts = whole(len(gain)) if counts is None else counts
    calls, gained = _accumulated(gain, score, counts)
    base = (counts @ weak) / counts.sum(axis=1)
    rows = zip(calls, gained, strict=True)
    return base[:, None] + np.stack([np.interp(GRID, call, part) for call, part in rows])


def aiq(weak: Floats, gain: Floats, score: NDArray[Any], counts: Floats | None = None) -> Floats:
    """Return the average improvement in quality, shape ``(resamples,)``, in [0, 1].

    The mean height of the non-decreasing convex hull over the cost-quality curve. Costs are
    normalised to [0, 1] between weak-only and strong-only, so with one price a model they are
    the share of strong calls. The curve is read at :data:`GRID`.
    """
    curves = quality_curve(weak, gain, score, counts)
    hulls = np.stack([non_decreasing_hull(GRID, curve) for curve in curves])
    return np.asarray(np.trapezoid(hulls, GRID, axis=1))


def non_decreasing_hull(cost: Floats, quality: Floats) -> Floats:
    """Return the height at ``cost`` of the non-decreasing convex hull of the points.

    What mixing two points at random reaches lies on the line between them, and a router may
    always do without a dearer point that is no better.

    Args:
        cost: Shape ``(points,)``, strictly ascending.
        quality: Shape ``(points,)``.
    """
    x, y = cost.tolist(), np.maximum.accumulate(quality).tolist()
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            above = (y[b] - y[a]) * (x[i] - x[a]) > (y[i] - y[a]) * (x[b] - x[a])
            if above:
                break
            kept.pop()
        kept.append(i)
    hull: Floats = np.interp(cost, cost[kept], np.asarray(y)[kept])
    return hull


def _accumulated(gain: Floats, score: NDArray[Any], counts: Floats | None) -> tuple[Floats, Floats]:
    """Return share of strong calls and quality gained so far at the end of every tie.

    Both have shape ``(resamples, ties + 1)`` and start at 0.
    """
    counts = whole(len(gain)) if counts is None else counts
    order, starts = tie_groups(-score)
    total = counts.sum(axis=1, keepdims=True)
    calls = np.cumsum(grouped(counts, order, starts), axis=1) / total
    gained = np.cumsum(grouped(counts * gain, order, starts), axis=1) / total
    zero = np.zeros((len(counts), 1))
    return np.concatenate([zero, calls], axis=1), np.concatenate([zero, gained], axis=1)


def _relative(values: Floats, gap: Floats) -> Floats:
    out = np.full(values.shape, np.nan)
    return np.divide(values, gap, out=out, where=np.broadcast_to(gap > 1e-12, values.shape))
