"""Measure the predicted sampling temperature on question sets held out of training."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from router.domain import EncoderInput
from router.evaluation.bootstrap import Floats, draw, mean_of
from router.evaluation.ranking import spearman
from router.evaluation.settings import Settings
from router.evaluation.subject import Subject
from router.training.sources import read_rows

_SETS = {"mt_bench": "question.jsonl", "vicuna80": "vicuna80_question.jsonl"}
_RANGE = (0.1, 1.5)


def measure_temperature(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return mean absolute error and rank correlation on MT-bench and Vicuna.

    The wanted temperatures are human priors by category, clipped to what the service sends.
    The best constant is the median of the wanted ones, the least error a constant can have
    here; no constant known beforehand does better.
    """
    items, wanted = [], []
    path = settings.data / "kinds" / "temperature_by_category.json"
    tables = json.loads(path.read_text(encoding="utf-8"))
    for table, file in _SETS.items():
        for row in settings.thin(list(read_rows(settings.data / "kinds" / "mt_bench" / file))):
            items.append(EncoderInput(text=row["turns"][0]))
            wanted.append(float(np.clip(tables[table][row["category"]], *_RANGE)))
    encodings = subject.encode(items, "encode temperature")
    predicted = np.asarray([e.temperature for e in encodings])
    target = np.asarray(wanted)
    error, constant = np.abs(predicted - target), np.abs(target - np.median(target))

    def ratio(counts: Floats) -> Floats:
        # Where every wanted temperature is the same, no constant errs.
        below = counts @ constant
        out = np.full(below.shape, np.nan)
        return np.divide(counts @ error, below, out=out, where=below > 0.0)

    drawn = draw(
        {
            "mean_absolute_error": mean_of(error),
            "best_constant": mean_of(constant),
            "ratio": ratio,
            "spearman": partial(spearman, predicted, target),
        },
        rows=len(items),
        resampling=settings.resampling,
    )
    return {"n": len(items), **{name: d.figure().to_json() for name, d in drawn.items()}}


def wanted_prompts(settings: Settings) -> list[str]:
    """Return the first turns of MT-bench and Vicuna."""
    folder = settings.data / "kinds" / "mt_bench"
    return [
        row["turns"][0]
        for file in _SETS.values()
        for row in settings.thin(list(read_rows(folder / file)))
    ]
