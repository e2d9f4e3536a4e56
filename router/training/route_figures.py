"""Measure how well probabilities tell a user's routes apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from router.evaluation.ranking import auc
from router.evaluation.threshold import CostMatrix, search_threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from router.artifact import ThresholdSearch

    Floats = NDArray[np.float64]
    Routes = NDArray[np.int64]

FAST, SLOW, TOOL = "fast", "slow", "tool"
# Predictions this close together say nothing, where labels at least that far apart do.
COLLAPSED_STD, VARIED_STD = 0.02, 0.05


def probabilities(
    logits: NDArray[np.float32], calibration: tuple[float, tuple[float, ...]]
) -> Floats:
    """Return calibrated probabilities, shape ``(rows, routes)``."""
    temperature, bias = calibration
    scaled = logits.astype(np.float64) / temperature + np.asarray(bias)
    exponentials = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    shares: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares


def route_aucs(p: Floats, labels: Routes) -> list[float | None]:
    """Return each route's AUC against all others; None where only one of both is there."""
    values = [float(auc(labels == index, p[:, index])[0]) for index in range(p.shape[1])]
    return [None if math.isnan(value) else value for value in values]


def worst_auc_loss(full: Floats, quantised: Floats, labels: Routes) -> tuple[float, int]:
    """Return the largest loss of a route's AUC through quantisation, with the route's index.

    Args:
        full: Probabilities of the float32 graph, shape ``(rows, routes)``.
        quantised: The same of the quantised one.
        labels: Index of each row's route; at least two different ones.
    """
    pairs = zip(route_aucs(full, labels), route_aucs(quantised, labels), strict=True)
    losses = [(a - b, i) for i, (a, b) in enumerate(pairs) if a is not None and b is not None]
    return max(losses)


def figures(p: Floats, labels: Routes, routes: Sequence[str]) -> dict[str, Any]:
    """Return rows, accuracy of the likeliest route, and AUC and recall of every route."""
    right = p.argmax(axis=1) == labels
    return {
        "rows": len(labels),
        "accuracy": float(right.mean()) if len(labels) else None,
        "routes": {
            name: {
                "rows": int((labels == index).sum()),
                "auc": area,
                "accuracy": float(right[labels == index].mean()) if index in labels else None,
            }
            for index, (name, area) in enumerate(
                zip(
                    routes,
                    route_aucs(p, labels) if len(labels) else [None] * len(routes),
                    strict=True,
                )
            )
        },
    }


def choose_threshold(
    p: Floats, labels: Routes, routes: Sequence[str], matrix: CostMatrix
) -> ThresholdSearch:
    """Return the threshold of least mean cost on the given rows.

    With routes named fast and slow, of P(fast), on the rows that need no tool and with the
    tool route masked. With other names it is not known here what a route leads to; below the
    threshold a request goes slow whatever its likeliest route, so a wrong likeliest route costs
    what a wrong fast does, and giving up on a right one what a needless slow does.
    """
    return search_threshold(*_choices(p, labels, routes), matrix)


def at_threshold(
    p: Floats, labels: Routes, routes: Sequence[str], threshold: float
) -> dict[str, Any]:
    """Return the share of rows that reach the threshold and how many of them rightly.

    Either is None where there are no rows to take a share of.
    """
    score, wrong = _choices(p, labels, routes)
    decided = score >= threshold
    return {
        "where": FAST if {FAST, SLOW} <= set(routes) else "to their likeliest route",
        "coverage": float(decided.mean()) if len(decided) else None,
        "accuracy": float(1.0 - wrong[decided].mean()) if decided.any() else None,
    }


def _choices(p: Floats, labels: Routes, routes: Sequence[str]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return what is compared with the threshold, and whether reaching it would be wrong."""
    if not {FAST, SLOW} <= set(routes):
        return p.max(axis=1), p.argmax(axis=1) != labels
    kept = [index for index, name in enumerate(routes) if name != TOOL]
    rows, fast = np.isin(labels, kept), routes.index(FAST)
    return p[rows, fast] / p[rows][:, kept].sum(axis=1), labels[rows] != fast


def temperature_figures(predicted: Floats, wanted: Floats) -> dict[str, Any] | None:
    """Return error and spread of temperatures; None where fewer than two are labelled.

    ``collapsed`` means that predictions have a standard deviation below 0.02 though labels
    have at least 0.05.
    """
    known = ~np.isnan(wanted)
    if known.sum() < 2:
        return None
    predicted, wanted = predicted[known], wanted[known]
    spread, needed = float(predicted.std()), float(wanted.std())
    return {
        "rows": len(wanted),
        "mean_absolute_error": float(np.abs(predicted - wanted).mean()),
        "predicted_std": spread,
        "labels_std": needed,
        "collapsed": spread < COLLAPSED_STD and needed >= VARIED_STD,
    }
