"""Measure the embedding as the semantic cache uses it, against the teacher's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from cache.guard import refusal
from router.domain import EncoderInput
from router.evaluation.bootstrap import Floats, Statistic, draw, mean_of, measured
from router.evaluation.ranking import auc
from router.evaluation.routing import ROUTER
from router.evaluation.settings import Settings
from router.evaluation.subject import Subject
from router.evaluation.teacher_vectors import teacher_vectors
from router.training.sources import read_rows

PAIRS = 4000
_TEACHER = "teacher"


def measure_embedding(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return AUC of cosine similarity on QQP pairs, and what the cache's rule does to them.

    The labels are noisy at the top of the similarity range, so the share of negatives that
    hit is an upper bound.
    """
    rows = list(read_rows(settings.data / "cache_pairs" / "qqp_eval_only.jsonl.gz"))[:PAIRS]
    rows = settings.thin(rows)
    sides = [[row[key] for row in rows] for key in ("text_a", "text_b")]
    same = np.asarray([row["label"] == 1 for row in rows], dtype=np.bool_)
    encoded = subject.encode([EncoderInput(text=t) for t in [*sides[0], *sides[1]]], "encode QQP")
    ours = np.stack([e.embedding for e in encoded])
    similarity = {ROUTER: _cosines(ours)}
    missing: dict[str, str] = {}
    try:
        vectors = teacher_vectors(
            [*sides[0], *sides[1]], cache=settings.work, device=settings.device, name="QQP"
        )
        similarity[_TEACHER] = _cosines(vectors)
    except ImportError as error:
        missing[_TEACHER] = str(error)
    statistics: dict[str, Statistic] = {
        name: partial(auc, same, values) for name, values in similarity.items()
    }
    if _TEACHER in similarity:
        statistics["ratio"] = lambda counts: (
            auc(same, similarity[ROUTER], counts) / auc(same, similarity[_TEACHER], counts)
        )
    drawn = draw(statistics, rows=len(rows), resampling=settings.resampling)
    threshold = subject.artifact.semantic_threshold
    hit = similarity[ROUTER] >= threshold
    consent = np.asarray(
        [refusal(a, b) is None for a, b in zip(*sides, strict=True)], dtype=np.bool_
    )
    return {
        "n": len(rows),
        "missing": missing,
        "auc": {name: draws.figure().to_json() for name, draws in drawn.items()},
        "semantic_threshold": threshold,
        "recall": _share(hit[same], settings),
        "negative_hit_rate": _share(hit[~same], settings),
        "guarded_recall": _share((hit & consent)[same], settings),
        "guarded_negative_hit_rate": _share((hit & consent)[~same], settings),
    }


def _cosines(vectors: Any) -> Floats:
    """Return the cosine of each row of the first half with its partner in the second."""
    half = len(vectors) // 2
    cosines: Floats = (vectors[:half] * vectors[half:]).sum(axis=1).astype(np.float64)
    return cosines


def _share(values: Any, settings: Settings) -> dict[str, Any] | None:
    if not len(values):
        return None
    figure = measured({"": mean_of(values)}, rows=len(values), resampling=settings.resampling)
    share: dict[str, Any] = figure[""]
    return share
