"""Label exam questions with what the reference pair of models scored."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

from router.training.example import FAST, SLOW, Example
from router.training.sources import routing_rows, temperature_tables

if TYPE_CHECKING:
    from pathlib import Path

OWN_LABEL_SHARE = 0.5
SMOOTHING_ROWS = 5
# Our own priors in the spirit of the tables the data set brings: one right answer is drawn
# cold.
TASK_TEMPERATURES = {
    "agentverse-logicgrid": 0.1,
    "agentverse-mgsm": 0.1,
    "commongen": 0.7,
    "commonsense_qa": 0.3,
    "gpqa": 0.1,
    "gsm8k": 0.1,
    "human_eval": 0.1,
    "math": 0.1,
    "mbpp": 0.1,
    "mmlu": 0.1,
    "natural_qa": 0.3,
    "trivia_qa": 0.3,
}


def exam_examples(data: Path) -> list[Example]:
    """Return exam questions; training labels are drawn towards the mean of their task.

    One graded answer says little of how hard a question is, a task's mean says much. The
    blend is the shrinkage of an empirical-Bayes estimate (Efron & Morris, JASA 1975) at a
    fixed factor; dev rows keep their labels, so that calibration sees what happened.
    """
    tables = temperature_tables(data)
    rows = routing_rows(data, "train", "dev")
    means = _task_means([row for row in rows if row["split"] == "train"])
    examples = []
    for row in rows:
        good = float(row["weak_score"] >= 0.5)
        task = row["source"], row["task"]
        blended = OWN_LABEL_SHARE * good + (1.0 - OWN_LABEL_SHARE) * means.get(task, good)
        examples.append(
            Example(
                text=row["prompt"],
                source=row["source"],
                split=row["split"],
                routes=FAST if good else SLOW,
                p_fast=blended if row["split"] == "train" else good,
                gain=row["strong_score"] - row["weak_score"],
                temperature=tables["routing_sources"].get(
                    row["source"], TASK_TEMPERATURES.get(row["task"], math.nan)
                ),
            )
        )
    return examples


def _task_means(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the share of good weak answers a task, smoothed towards its source's."""
    by_source: dict[str, list[float]] = {}
    by_task: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        good = float(row["weak_score"] >= 0.5)
        by_source.setdefault(row["source"], []).append(good)
        by_task.setdefault((row["source"], row["task"]), []).append(good)
    return {
        task: (sum(goods) + SMOOTHING_ROWS * fmean(by_source[task[0]]))
        / (len(goods) + SMOOTHING_ROWS)
        for task, goods in by_task.items()
    }
