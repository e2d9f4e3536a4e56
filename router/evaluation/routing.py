"""Measure who should answer: artifact and baselines on the routing rows held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.domain import EncoderInput, Tier
from router.evaluation.baselines import UNATTAINABLE, Missing, Scores, score_baselines
from router.evaluation.bootstrap import Draws, Floats, Statistic, draw
from router.evaluation.progress import progress, say
from router.evaluation.ranking import auc
from router.evaluation.routing_curve import GRID, aiq, apgr, cpt, quality_curve
from router.evaluation.routing_decisions import calibration_of, decisions_of
from router.evaluation.routing_set import RoutingSet
from router.evaluation.settings import Settings
from router.evaluation.skipped import SectionSkipped
from router.evaluation.subject import Subject, sent_to

ROUTER = "router"
COMPARED = ("auc_weak_fails", "apgr", "apgr_by_strong_gain", "aiq")
_CURVE_POINTS = slice(None, None, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The test rows and what every router says about them."""

    rows: RoutingSet
    routers: Mapping[str, Scores]
    p_fast: Floats
    sent_fast: NDArray[np.bool_]

    def take(self, chosen: NDArray[np.bool_]) -> _Judged:
        routers = {
            name: Scores(hardness=s.hardness[chosen], gain=s.gain[chosen])
            for name, s in self.routers.items()
        }
        return _Judged(
            rows=self.rows.take(chosen),
            routers=routers,
            p_fast=self.p_fast[chosen],
            sent_fast=self.sent_fast[chosen],
        )


def measure_routing(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return the routing figures of every source and of all of them pooled.

    A prompt is read as a request without tools, so tool routes are masked, as the service
    does when an answer is wanted.
    """
    if not subject.has(Tier.FAST):
        msg = "the artifact has no fast route"
        raise SectionSkipped(msg)
    train = RoutingSet.read(settings, "train", "dev")
    test = RoutingSet.read(settings, "test", "ood")
    baselines = score_baselines(train, test, settings)
    encodings = subject.encode([EncoderInput(text=p) for p in test.prompts], "encode routing")
    p_fast = subject.probability(encodings, Tier.FAST, mask_tools=True)
    ours = Scores(hardness=1.0 - p_fast, gain=np.asarray([e.strong_gain for e in encodings]))
    usable = {name: s for name, s in baselines.items() if isinstance(s, Scores)}
    judged = _Judged(
        rows=test,
        routers={ROUTER: ours, **usable},
        p_fast=p_fast,
        sent_fast=sent_to(subject.decide(encodings, mask_tools=True), Tier.FAST),
    )
    groups: dict[str, Any] = {}
    same: dict[bytes, dict[str, Any]] = {}
    say("routing: intervals")
    for name, chosen in progress(list(test.groups().items()), "routing groups"):
        # A split of one source is also that split pooled.
        key = chosen.tobytes()
        if key not in same:
            same[key] = _group(judged.take(chosen), subject, settings)
        groups[name] = same[key]
    return {
        "trained_on": {"rows": len(train), "splits": "train, dev"},
        "missing": {n: s.reason for n, s in baselines.items() if isinstance(s, Missing)},
        "groups": groups,
    }


def _group(judged: _Judged, subject: Subject, settings: Settings) -> dict[str, Any]:
    rows = judged.rows
    statistics = {
        f"{metric}:{name}": statistic
        for name, scores in judged.routers.items()
        for metric, statistic in _statistics(rows, name, scores).items()
    }
    drawn = draw(statistics, rows=len(rows), resampling=settings.resampling)
    metrics: dict[str, dict[str, Any]] = {}
    for key, draws in drawn.items():
        metric, name = key.split(":")
        metrics.setdefault(metric, {})[name] = draws.figure().to_json()
    return {
        "n": len(rows),
        "weak_fails": float(rows.weak_fails.mean()),
        "weak_quality": float(rows.weak.mean()),
        "strong_quality": float(rows.strong.mean()),
        "metrics": metrics,
        "differences": {metric: _differences(metric, drawn) for metric in COMPARED},
        "curves": _curves(judged),
        **calibration_of(judged.p_fast, ~rows.weak_fails, settings),
        **decisions_of(rows, judged.p_fast, judged.sent_fast, subject.artifact, settings),
    }


def _statistics(rows: RoutingSet, name: str, scores: Scores) -> dict[str, Statistic]:
    # The oracle knows the gain, so that is what it spends calls by.
    order = scores.gain if name == "oracle" else scores.hardness
    return {
        "auc_weak_fails": partial(auc, rows.weak_fails, scores.hardness),
        "apgr": partial(apgr, rows.gain, order),
        "apgr_by_strong_gain": partial(apgr, rows.gain, scores.gain),
        "cpt50": lambda counts: cpt(rows.gain, order, recovered=0.5, counts=counts),
        "cpt80": lambda counts: cpt(rows.gain, order, recovered=0.8, counts=counts),
        "aiq": partial(aiq, rows.weak, rows.gain, order),
    }


def _differences(metric: str, drawn: Mapping[str, Draws]) -> dict[str, Any]:
    """Return the router's lead over each baseline, and which one is the best attainable."""
    ours = drawn[f"{metric}:{ROUTER}"]
    others = {
        key.split(":")[1]: draws
        for key, draws in drawn.items()
        if key.startswith(f"{metric}:") and not key.endswith(f":{ROUTER}")
    }
    attainable = {
        name: draws.value
        for name, draws in others.items()
        if name not in UNATTAINABLE and np.isfinite(draws.value)
    }
    return {
        "over": {name: ours.minus(draws).figure().to_json() for name, draws in others.items()},
        "best_baseline": max(attainable, key=lambda n: attainable[n]) if attainable else None,
    }


def _curves(judged: _Judged) -> dict[str, list[float]]:
    """Return mean quality by share of strong calls, for the router and each baseline."""
    rows = judged.rows
    curves: dict[str, list[float]] = {"share_strong": GRID[_CURVE_POINTS].tolist()}
    for name, scores in judged.routers.items():
        order = scores.gain if name == "oracle" else scores.hardness
        curves[name] = quality_curve(rows.weak, rows.gain, order)[0, _CURVE_POINTS].tolist()
    return curves
