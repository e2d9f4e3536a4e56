"""Measure the expected answer length within each source and generator."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from router.domain import EncoderInput
from router.evaluation.bootstrap import Floats, Statistic, draw
from router.evaluation.ranking import spearman
from router.evaluation.routing import ROUTER
from router.evaluation.settings import Settings
from router.evaluation.subject import Subject
from router.evaluation.text_models import TfidfTexts, value_of
from router.training.sources import read_rows

_BASELINE = "tfidf"


def measure_lengths(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return Spearman's correlation of expected and actual length, by source and generator.

    A generator has its own manner, so pooling several would reward knowing which one wrote.
    The baseline is a ridge regression on TF-IDF, fitted on the same generator's train and dev
    rows with the logarithm of the length as target.
    """
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in read_rows(settings.data / "kinds" / "lengths.jsonl.gz"):
        part = "test" if row["split"] == "test" else "train"
        group = groups.setdefault(f"{row['source']}/{row['generator']}", {"train": [], "test": []})
        group[part].append(row)
    report: dict[str, Any] = {"groups": {}, "missing": {}}
    for name, parts in sorted(groups.items()):
        test = settings.thin(parts["test"])
        if len(test) < 2:
            continue
        items = [EncoderInput(text=row["prompt"]) for row in test]
        encodings = subject.encode(items, f"encode lengths, {name}")
        predicted = {ROUTER: np.asarray([float(e.output_tokens_p50) for e in encodings])}
        try:
            predicted[_BASELINE] = _tfidf(parts["train"], test)
        except ImportError as error:
            report["missing"][_BASELINE] = str(error)
        report["groups"][name] = _correlations(predicted, test, settings)
    return report


def _correlations(
    predicted: dict[str, Floats], test: list[dict[str, Any]], settings: Settings
) -> dict[str, Any]:
    actual = np.asarray([float(row["out_chars"]) for row in test])
    statistics: dict[str, Statistic] = {
        name: partial(spearman, values, actual) for name, values in predicted.items()
    }
    drawn = draw(statistics, rows=len(test), resampling=settings.resampling)
    lead = {
        name: drawn[ROUTER].minus(draws).figure().to_json()
        for name, draws in drawn.items()
        if name != ROUTER
    }
    return {
        "n": len(test),
        "spearman": {name: draws.figure().to_json() for name, draws in drawn.items()},
        "differences": lead,
    }


def _tfidf(train: list[dict[str, Any]], test: list[dict[str, Any]]) -> Floats:
    texts = TfidfTexts.fit([row["prompt"] for row in train])
    target = np.asarray([math.log(max(1, row["out_chars"])) for row in train])
    return value_of(texts.vectors, target, texts.of([row["prompt"] for row in test]))
