"""Measure whether requests outside every known intent are kept from the fast tier."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.domain import EncoderInput, Encoding, Tier
from router.evaluation.bootstrap import Floats, mean_of, measured
from router.evaluation.ranking import auc, roc_points
from router.evaluation.settings import Settings
from router.evaluation.skipped import SectionSkipped
from router.evaluation.subject import Subject, abstaining, sent_to

IN_SCOPE_LIMIT = 0.05
_CURVE_POINTS = 41
_SOURCE = "Larson et al., EMNLP 2019, CLINC150"


def measure_out_of_scope(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return how CLINC150's out-of-scope and in-scope test rows are decided.

    Read as ``Route`` with tools unknown, so that an in-scope command may be a tool's. A row
    counts as kept when the encoder abstains or it goes slow. Beside the decisions, every
    score that could tell the two apart, with its whole trade-off.
    """
    inside, outside = in_scope_texts(settings), _texts(settings, "oos_test")
    encodings = {
        name: subject.encode([EncoderInput(text=t) for t in texts], f"encode CLINC {name}")
        for name, texts in (("in-scope", inside), ("out-of-scope", outside))
    }
    decided: dict[str, Any] = {}
    for name, encoded in encodings.items():
        verdicts = subject.decide(encoded, mask_tools=False)
        masked = subject.decide(encoded, mask_tools=True)
        decided[name.replace("-", "_")] = measured(
            {
                "kept": mean_of(sent_to(verdicts, Tier.SLOW)),
                "abstaining": mean_of(abstaining(encoded)),
                "sent_fast": mean_of(sent_to(verdicts, Tier.FAST)),
                "sent_to_tool": mean_of(sent_to(verdicts, Tier.TOOL)),
                "kept_without_tools": mean_of(sent_to(masked, Tier.SLOW)),
            },
            rows=len(encoded),
            resampling=settings.resampling,
        )
    both = [*encodings["in-scope"], *encodings["out-of-scope"]]
    strange = np.arange(len(both)) >= len(inside)
    return {
        "n": {"in_scope": len(inside), "out_of_scope": len(outside)},
        "source": _SOURCE,
        "decisions": decided,
        "scores": {
            name: _trade_off(strange, score, settings)
            for name, score in _scores(subject, both).items()
        },
    }


def in_scope_texts(settings: Settings) -> list[str]:
    """Return the in-scope test texts of CLINC150.

    Raises:
        SectionSkipped: If the file has no such part.
    """
    return _texts(settings, "test")


def _texts(settings: Settings, part: str) -> list[str]:
    path = settings.data / "intents" / "clinc150" / "data_full.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        parts = json.load(file)
    if not parts.get(part):
        msg = f"{path}: no part {part!r}"
        raise SectionSkipped(msg)
    return settings.thin([text for text, _ in parts[part]])


def _scores(subject: Subject, encodings: Sequence[Encoding]) -> dict[str, Floats]:
    """Return every score that is higher for stranger requests."""
    p_slow = subject.probability(encodings, Tier.SLOW, mask_tools=False)
    p_fast = subject.probability(encodings, Tier.FAST, mask_tools=False)
    p_tool = subject.probability(encodings, Tier.TOOL, mask_tools=False)
    return {
        "outlier_distance": subject.outlier_distance(encodings),
        "p_slow": p_slow,
        "unsure": 1.0 - np.maximum(p_fast, p_tool),
    }


def _trade_off(strange: NDArray[np.bool_], score: Floats, settings: Settings) -> dict[str, Any]:
    alarms, hits, thresholds = roc_points(strange, score)
    # The last corner within the limit.
    best = int(np.flatnonzero(alarms <= IN_SCOPE_LIMIT)[-1])
    shown = np.linspace(0.0, 1.0, _CURVE_POINTS)
    figures = measured(
        {"auc": partial(auc, strange, score)}, rows=len(score), resampling=settings.resampling
    )
    return {
        **figures,
        "out_of_scope_kept_at_limit": float(hits[best]),
        "in_scope_kept_at_limit": float(alarms[best]),
        "threshold_at_limit": None if best == 0 else float(thresholds[best]),
        "curve": {
            "in_scope_kept": shown.tolist(),
            "out_of_scope_kept": np.interp(shown, alarms, hits).tolist(),
        },
    }
