"""Measure whether the tool route knows an offered tool that fits from one that does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.domain import EncoderInput, Tier
from router.evaluation.bootstrap import Statistic, draw
from router.evaluation.ranking import auc, balanced_accuracy
from router.evaluation.routing import ROUTER
from router.evaluation.settings import Settings
from router.evaluation.skipped import SectionSkipped
from router.evaluation.subject import Subject, sent_to
from router.evaluation.text_models import TfidfTexts, probability_of
from router.training.sources import tool_rows, tool_text

_WORD = re.compile(r"[a-z0-9]+")
_ROWS = 300


def measure_tools(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return balanced accuracy and AUC of "an offered tool fits" on BFCL's live categories.

    Rows without functions are left out: nearly all of them are positive, a leak. The
    baselines are fitted on the categories that are not live.
    """
    if not subject.has(Tier.TOOL):
        msg = "the artifact has no tool route"
        raise SectionSkipped(msg)
    train = settings.thin(tool_rows(settings.data, live=False), limit=_ROWS)
    rows = settings.thin(tool_rows(settings.data, live=True))
    fits = np.asarray([row["tool_fits"] for row in rows], dtype=np.bool_)
    items = [EncoderInput(text=r["prompt"], tools=tool_text(r["functions"])) for r in rows]
    encodings = subject.encode(items, "encode tools")
    p_tool = {ROUTER: subject.probability(encodings, Tier.TOOL, mask_tools=False)}
    missing: dict[str, str] = {}
    for name, baseline in _BASELINES.items():
        try:
            p_tool[name] = baseline(train, rows)
        except ImportError as error:
            missing[name] = str(error)
    statistics: dict[str, Statistic] = {}
    for name, p in p_tool.items():
        statistics[f"balanced_accuracy:{name}"] = partial(balanced_accuracy, fits, p >= 0.5)
        statistics[f"auc:{name}"] = partial(auc, fits, p)
    sent = sent_to(subject.decide(encodings, mask_tools=False), Tier.TOOL)
    statistics["balanced_accuracy:router_policy"] = partial(balanced_accuracy, fits, sent)
    drawn = draw(statistics, rows=len(rows), resampling=settings.resampling)
    figures: dict[str, dict[str, Any]] = {}
    over: dict[str, dict[str, Any]] = {}
    for key, draws in drawn.items():
        metric, name = key.split(":")
        figures.setdefault(metric, {})[name] = draws.figure().to_json()
        if name in _BASELINES:
            lead = drawn[f"{metric}:{ROUTER}"].minus(draws)
            over.setdefault(metric, {})[name] = lead.figure().to_json()
    return {
        "n": len(rows),
        "fits": float(fits.mean()),
        "trained_on": {"rows": len(train), "categories": "without the prefix live_"},
        "missing": missing,
        **figures,
        "differences": over,
        "recall": {
            "fits": float((p_tool[ROUTER] >= 0.5)[fits].mean()),
            "does_not_fit": float((p_tool[ROUTER] < 0.5)[~fits].mean()),
        },
    }


def _tfidf(train: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> NDArray[Any]:
    """Fit on the words of request and tools together."""
    texts = TfidfTexts.fit([_joined(row) for row in train])
    wanted = texts.of([_joined(row) for row in rows])
    return probability_of(texts.vectors, _fits(train), wanted, balanced=True)


def _tfidf_overlap(train: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> NDArray[Any]:
    """Fit on the same words plus how many of the request's words a tool shares."""
    from scipy.sparse import csr_matrix, hstack

    texts = TfidfTexts.fit([_joined(row) for row in train])
    seen = hstack([texts.vectors, csr_matrix(_overlap(train))])
    wanted = hstack([texts.of([_joined(row) for row in rows]), csr_matrix(_overlap(rows))])
    return probability_of(seen.tocsr(), _fits(train), wanted.tocsr(), balanced=True)


_BASELINES: dict[
    str, Callable[[Sequence[dict[str, Any]], Sequence[dict[str, Any]]], NDArray[Any]]
] = {"tfidf": _tfidf, "tfidf_overlap": _tfidf_overlap}


def _joined(row: dict[str, Any]) -> str:
    return f"{row['prompt']}\n{tool_text(row['functions'])}"


def _fits(rows: Sequence[dict[str, Any]]) -> NDArray[np.bool_]:
    return np.asarray([row["tool_fits"] for row in rows], dtype=np.bool_)


def _overlap(rows: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """Return best and mean word overlap with a tool, and the number of tools, a row."""
    values = []
    for row in rows:
        asked = set(_WORD.findall(row["prompt"].lower()))
        shares = []
        for function in row["functions"]:
            offered = set(_WORD.findall(tool_text([function]).lower().replace("_", " ")))
            shares.append(len(asked & offered) / max(1, len(offered)))
        values.append((max(shares), float(np.mean(shares)), np.log1p(len(shares))))
    return np.asarray(values)
