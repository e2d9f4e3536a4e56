"""Write figures the way people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = {
    "router": "this router",
    "length": "prompt length",
    "subject_prior": "subject prior",
    "tfidf": "TF-IDF",
    "tfidf_overlap": "TF-IDF and word overlap",
    "minilm": "MiniLM",
    "litellm_heuristic": "litellm heuristic",
    "teacher": "MiniLM (teacher)",
}


# For "no figure".
_DASH = "\N{EN DASH}"


def figure_text(figure: Mapping[str, Any] | float | None) -> str:
    """Return ``.671 [.650, .691]``, or a dash where there is no figure."""
    if figure is None:
        return _DASH
    if not isinstance(figure, Mapping):
        return number_text(figure)
    if figure["value"] is None:
        return _DASH
    if figure["low"] is None:
        return number_text(figure["value"])
    value, low, high = (number_text(figure[part]) for part in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def number_text(value: float | None) -> str:
    """Return a number with three places and no leading zero, as tables of shares have it."""
    if value is None:
        return _DASH
    text = f"{round(value, 3) + 0.0:.3f}"  # the addition turns -0.0 into 0.0
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def value_text(figure: Mapping[str, Any] | None) -> str:
    """Return the figure without its interval."""
    return _DASH if figure is None else number_text(figure["value"])


def target_text(row: Mapping[str, Any]) -> str:
    """Return ``≥ .71``, or ``report`` where there is no target."""
    if row["target"] is None:
        return "report"
    sign = {">=": "≥", "<=": "≤", ">": ">"}[row["relation"]]
    return f"{sign} {number_text(row['target'])}"


def name_text(name: str) -> str:
    """Return a baseline's name for people."""
    return NAMES.get(name, name.replace("_", " "))
