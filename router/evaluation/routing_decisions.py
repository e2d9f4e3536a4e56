"""Measure what the artifact decides on routing rows, and whether its P(fast) can be trusted."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.artifact import Artifact
from router.evaluation.bootstrap import Floats, mean_of, measured
from router.evaluation.calibration_error import ece, ece_by_chance, ece_debiased, reliability
from router.evaluation.routing_set import RoutingSet
from router.evaluation.selective import accuracy_at_coverage, area_under_risk_coverage
from router.evaluation.settings import Settings
from router.evaluation.threshold import THRESHOLDS, error_rates, row_costs, search_threshold

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


def calibration_of(
    p_fast: Floats, weak_suffices: NDArray[np.bool_], settings: Settings
) -> dict[str, Any]:
    """Return calibration error, reliability diagram and selective accuracy of P(fast)."""
    right = (p_fast >= 0.5) == weak_suffices
    confidence = np.maximum(p_fast, 1.0 - p_fast)
    errors = measured(
        {
            "ece": partial(ece, p_fast, weak_suffices),
            "ece_debiased": partial(ece_debiased, p_fast, weak_suffices),
        },
        rows=len(p_fast),
        resampling=settings.resampling,
    )
    selective = measured(
        {
            "aurc": partial(area_under_risk_coverage, right, confidence),
            **{
                f"accuracy_at_{coverage:.1f}": partial(
                    accuracy_at_coverage, right, confidence, coverage
                )
                for coverage in COVERAGES
            },
        },
        rows=len(p_fast),
        resampling=settings.resampling,
    )
    return {
        "calibration": {
            **errors,
            "ece_by_chance": ece_by_chance(p_fast),
            "reliability": [dataclasses.asdict(b) for b in reliability(p_fast, weak_suffices)],
        },
        "selective": selective,
    }


def decisions_of(
    rows: RoutingSet,
    p_fast: Floats,
    sent_fast: NDArray[np.bool_],
    artifact: Artifact,
    settings: Settings,
) -> dict[str, Any]:
    """Return what the policy's decisions cost, by both directions of error and by stratum."""
    fails, matrix = rows.weak_fails, settings.cost_matrix
    everything = np.ones(len(rows), dtype=np.bool_)
    figures = measured(
        {
            "cost": mean_of(row_costs(sent_fast, fails, matrix)),
            "sent_fast": mean_of(sent_fast),
            "quality": mean_of(np.where(sent_fast, rows.weak, rows.strong)),
            **error_rates(sent_fast, fails),
        },
        rows=len(rows),
        resampling=settings.resampling,
    )
    search = search_threshold(p_fast, fails, matrix)
    return {
        "decisions": {
            "threshold": artifact.threshold,
            **figures,
            "cost_all_fast": float(row_costs(everything, fails, matrix).mean()),
            "cost_all_slow": float(row_costs(~everything, fails, matrix).mean()),
            "cost_best_threshold_here": min(cost for _, cost in search.curve),
            "best_threshold_here": search.threshold,
            "confusion": {
                "weak_suffices": _sent(sent_fast, ~fails),
                "weak_fails": _sent(sent_fast, fails),
            },
        },
        "sweep": [
            {
                "threshold": threshold,
                "cost": cost,
                "sent_fast": float((p_fast >= threshold).mean()),
                **{
                    name: float(rate(np.ones((1, len(rows))))[0])
                    for name, rate in error_rates(p_fast >= threshold, fails).items()
                },
            }
            for threshold, cost in zip(THRESHOLDS, (cost for _, cost in search.curve), strict=True)
        ],
        "strata": _strata(rows, p_fast, sent_fast),
    }


def _sent(sent_fast: NDArray[np.bool_], of: NDArray[np.bool_]) -> dict[str, int]:
    return {"fast": int((sent_fast & of).sum()), "slow": int((~sent_fast & of).sum())}


def _strata(
    rows: RoutingSet, p_fast: Floats, sent_fast: NDArray[np.bool_]
) -> dict[str, dict[str, Any]]:
    """Return decisions by who is right, and by what a wrong decision would lose."""
    weak_right, strong_right = ~rows.weak_fails, ~rows.strong_fails
    by_difficulty = {
        "both_right": weak_right & strong_right,
        "only_strong_right": ~weak_right & strong_right,
        "only_weak_right": weak_right & ~strong_right,
        "both_wrong": ~weak_right & ~strong_right,
    }
    by_loss = {
        "nothing_lost_by_fast": rows.gain <= 0.0,
        "up_to_half_lost_by_fast": (rows.gain > 0.0) & (rows.gain <= 0.5),
        "over_half_lost_by_fast": rows.gain > 0.5,
    }
    return {
        "by_difficulty": {
            n: _stratum(c, rows, p_fast, sent_fast) for n, c in by_difficulty.items()
        },
        "by_cost_of_error": {n: _stratum(c, rows, p_fast, sent_fast) for n, c in by_loss.items()},
    }


def _stratum(
    chosen: NDArray[np.bool_], rows: RoutingSet, p_fast: Floats, sent_fast: NDArray[np.bool_]
) -> dict[str, Any]:
    n = int(chosen.sum())
    if not n:
        return {"n": 0, "sent_fast": None, "mean_p_fast": None, "quality_lost": None}
    # What all rows lose, so that the strata add up to the whole.
    lost = (sent_fast & chosen) * rows.gain
    return {
        "n": n,
        "sent_fast": float(sent_fast[chosen].mean()),
        "mean_p_fast": float(p_fast[chosen].mean()),
        "quality_lost": float(lost.sum() / len(rows)),
    }
