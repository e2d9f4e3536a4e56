"""Build the labelled rows the heads are fitted on.

One row may label several heads and leave others open. A route label is the set of routes
that would be right: exam questions say fast or slow, an irrelevant tool list says "not tool"
and no more. The reference pair's weak score decides between fast and slow (score >= .5 is
fast), as in RouteLLM (Ong et al., arXiv:2406.18665, section 3).
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from router.training.sources import (
    arena_rows,
    chatterbot_turns,
    read_rows,
    routing_rows,
    split_of,
    tool_rows,
    tool_text,
)

if TYPE_CHECKING:
    from pathlib import Path

ROUTES = ("fast", "slow", "tool")
FAST, SLOW, TOOL = (frozenset({name}) for name in ROUTES)
NO_TOOL = FAST | SLOW
CHARS_PER_TOKEN = 4.0
CHARS_PER_TOKEN_ZH = 1.6
INTENTS_PER_CLASS = 40
OWN_LABEL_SHARE = 0.5
SMOOTHING_ROWS = 5
# Our own priors in the spirit of the tables the data set brings: one right answer is drawn
# cold, conversation is not.
SMALL_TALK_TEMPERATURE = 0.7
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
PLAIN_TOPICS = (
    "ai",
    "computers",
    "food",
    "health",
    "history",
    "literature",
    "money",
    "movies",
    "politics",
    "psychology",
    "science",
    "sports",
)

# Our own reading of which intents a language model can serve alone; every other intent of
# the two sets asks for live data, an account or an action, hence for a tool.
_CLINC_ALONE = frozenset(
    (
        "definition",
        "spelling",
        "translate",
        "calculator",
        "recipe",
        "ingredient_substitution",
        "cook_time",
        "food_last",
        "nutrition_info",
        "calories",
        "meal_suggestion",
        "ingredients_list",
        "vaccines",
        "plug_type",
        "travel_suggestion",
        "improve_credit_score",
        "tire_change",
        "jump_start",
        "oil_change_how",
    )
)
_HWU_ALONE = frozenset(
    (
        "general_quirky",
        "general_dontcare",
        "general_praise",
        "general_explain",
        "general_affirm",
        "general_confirm",
        "general_negate",
        "general_joke",
        "qa_definition",
        "qa_factoid",
        "qa_maths",
        "cooking_recipe",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One training row.

    Attributes:
        text: The request.
        source: Data set, for reports.
        split: ``train``, ``dev`` or ``test``.
        tools: Offered tools; ``None`` = unknown, empty = none.
        routes: Routes that would be right; empty = no route label.
        p_fast: Soft label: probability in [0, 1] that fast is right, given that no tool is
            needed; NaN = ``routes`` says all there is.
        gain: Strong minus weak score, NaN = no label.
        temperature: Sampling temperature, NaN = no label.
        log_tokens: Natural logarithm of the answer's tokens, NaN = no label.
        weight: Weight of the row's route label.
    """

    text: str
    source: str
    split: str
    tools: str | None = None
    routes: frozenset[str] = frozenset()
    p_fast: float = math.nan
    gain: float = math.nan
    temperature: float = math.nan
    log_tokens: float = math.nan
    weight: float = 1.0


def all_examples(data: Path, *, seed: int) -> list[Example]:
    """Return every labelled row of the training and dev parts, plus augmented ones."""
    rows = [
        *_routing(data),
        *_tools(data),
        *_clinc(data),
        *_hwu(data),
        *_arena(data),
        *_belle(data),
        *_lengths(data),
        *_plain_questions(data),
        *_user_tasks(data),
    ]
    return rows + _with_other_tools(rows, data, random.Random(seed))  # noqa: S311 - nothing secret


def ordinary_texts(data: Path, examples: list[Example], split: str) -> list[str]:
    """Return English texts of every kind that is to be served, about as many of each.

    Args:
        data: For the sentence corpus, of which a tenth counts as dev.
        examples: Every labelled row.
        split: ``train`` or ``dev``.
    """
    limits = {"train": (900, 4000), "dev": (250, 1000)}
    per_source, sentences = limits[split]
    by_source: dict[str, dict[str, None]] = {}
    for example in examples:
        source = example.source.split(":")[0]
        if example.split == split and example.tools is None and source != "belle_zh":
            by_source.setdefault(source, {})[example.text] = None
    corpus = [row["text"] for row in read_rows(data / "sentences" / "sentences.jsonl.gz")]
    part = [text for text in corpus if (split_of(text) == "dev") is (split == "dev")]
    step = max(1, len(part) // sentences)
    texts = [
        t for group in by_source.values() for t in list(group)[:: max(1, len(group) // per_source)]
    ]
    return texts + part[::step]


def temperature_tables(data: Path) -> dict[str, dict[str, float]]:
    """Return the sampling temperature a category, by table."""
    tables = json.loads((data / "kinds" / "temperature_by_category.json").read_text("utf-8"))
    return {name: table for name, table in tables.items() if isinstance(table, dict)}


def _routing(data: Path) -> list[Example]:
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


def _tools(data: Path) -> list[Example]:
    return [
        Example(
            text=row["prompt"],
            source="bfcl",
            split="dev" if split_of(row["prompt"]) == "dev" else "train",
            tools=tool_text(row["functions"]),
            routes=TOOL if row["tool_fits"] else NO_TOOL,
            weight=1.0 if row["tool_fits"] else 3.0,
        )
        for row in tool_rows(data, live=False)
    ]


def _clinc(data: Path) -> list[Example]:
    folder = data / "intents" / "clinc150"
    domains = json.loads((folder / "domains.json").read_text("utf-8"))
    small_talk = set(domains["small_talk"])
    with gzip.open(folder / "data_full.json.gz", "rt", encoding="utf-8") as file:
        parts = json.load(file)
    rows: list[Example] = []
    for part, split in (("train", "train"), ("val", "dev")):
        for text, intent in parts[part]:
            talk = intent in small_talk
            alone = talk or intent in _CLINC_ALONE
            rows.append(
                Example(
                    text=text,
                    source="clinc150",
                    split=split,
                    routes=FAST if alone else TOOL,
                    temperature=SMALL_TALK_TEMPERATURE if talk else math.nan,
                    weight=0.25,
                )
            )
    # Outside the scope of every intent: nothing is known to serve them, so the strong model.
    for part, split in (("oos_train", "train"), ("oos_val", "dev")):
        rows += [
            Example(text=text, source="clinc150_oos", split=split, routes=SLOW, weight=4.0)
            for text, _ in parts[part]
        ]
    return rows


def _hwu(data: Path) -> list[Example]:
    rows: list[Example] = []
    for part, split in (("train", "train"), ("valid", "dev")):
        folder = data / "intents" / "hwu64" / part
        labels = (folder / "label").read_text("utf-8").splitlines()
        texts = (folder / "seq.in").read_text("utf-8").splitlines()
        taken: dict[str, int] = {}
        for text, label in zip(texts, labels, strict=True):
            taken[label] = taken.get(label, 0) + 1
            alone = label in _HWU_ALONE
            if taken[label] > (160 if alone else INTENTS_PER_CLASS):
                continue
            routes = FAST if alone else TOOL
            rows.append(Example(text=text, source="hwu64", split=split, routes=routes, weight=0.5))
    return rows


def _banking_texts(data: Path) -> list[str]:
    with (data / "intents" / "banking77" / "train.csv").open(encoding="utf-8") as file:
        return [row["text"] for row in csv.DictReader(file)]


def _arena(data: Path) -> list[Example]:
    table = temperature_tables(data)["arena_hard_v2"]
    rows: list[Example] = []
    for row in arena_rows(data):
        hard = row["category"] == "hard_prompt"
        rows.append(
            Example(
                text=row["prompt"],
                source="arena_hard_v2",
                split="dev" if split_of(row["prompt"]) == "dev" else "train",
                routes=SLOW if hard else NO_TOOL,
                temperature=table.get(f"{row['category']}/{row['subcategory']}", math.nan),
                weight=1.0 if hard else 0.5,
            )
        )
    return rows


def _belle(data: Path) -> list[Example]:
    table = temperature_tables(data)["belle_zh"]
    rows = read_rows(data / "kinds" / "belle_zh" / "eval_set.json.gz")
    return [
        Example(
            text=row["question"],
            source="belle_zh",
            split=split_of(row["question"]),
            temperature=table.get(row["class"], math.nan),
        )
        for row in rows
        if split_of(row["question"]) != "test"
    ]


def _lengths(data: Path) -> list[Example]:
    """Return answer lengths; one generator a source, the stronger one where there are two."""
    wanted = {
        "arena_hard": "gpt-4-0314",
        "routellm_gsm8k": "gpt-4-1106-preview",
        "self_instruct_seed": "human",
        "belle_zh": "reference",
    }
    rows: list[Example] = []
    for row in read_rows(data / "kinds" / "lengths.jsonl.gz"):
        if row["split"] == "test" or wanted.get(row["source"]) != row["generator"]:
            continue
        chars = CHARS_PER_TOKEN_ZH if row["source"] == "belle_zh" else CHARS_PER_TOKEN
        rows.append(
            Example(
                text=row["prompt"],
                source=f"lengths:{row['source']}",
                split=row["split"],
                routes=NO_TOOL if row["source"] == "self_instruct_seed" else frozenset(),
                weight=0.5,
                log_tokens=math.log(max(1.0, row["out_chars"] / chars)),
            )
        )
    return rows


def _plain_questions(data: Path) -> list[Example]:
    """Return chatterbot's questions on general topics: what a small model knows.

    The small-talk files are held out to measure "small talk goes fast".
    """
    return [
        Example(text=text, source="chatterbot", split=split_of(text), routes=FAST, weight=0.5)
        for text in chatterbot_turns(data, "english", PLAIN_TOPICS)
        if split_of(text) != "test"
    ]


def _user_tasks(data: Path) -> list[Example]:
    """Return self-instruct's tasks of office life; they need no tool, and no more is known."""
    rows = read_rows(data / "kinds" / "self_instruct" / "user_oriented_instructions.jsonl.gz")
    texts = [f"{row['instruction']}\n{row['instances'][0]['input']}".strip() for row in rows]
    return [
        Example(text=text, source="self_instruct", split=split_of(text), routes=NO_TOOL, weight=0.5)
        for text in texts
        if split_of(text) != "test"
    ]


def _with_other_tools(rows: list[Example], data: Path, rng: random.Random) -> list[Example]:
    """Return copies of rows beside tools that do not fit, or beside an empty tool set.

    Breaks the tie between style and need: exam questions, small talk and commands all appear
    with tool lists that are no help.
    """
    lists = [
        tool_text(row["functions"])
        for row in tool_rows(data, live=False)
        if split_of(row["prompt"]) == "train"
    ]
    copies: list[Example] = []
    for row in rows:
        if not row.routes or row.tools is not None or rng.random() > 0.2:
            continue
        if rng.random() < 0.3:
            if row.routes != TOOL:
                copies.append(replace(row, tools=""))
            continue
        routes = NO_TOOL if row.routes == TOOL else row.routes
        copies.append(replace(row, tools=rng.choice(lists), routes=routes, gain=math.nan))
    banking = rng.sample(_banking_texts(data), 300)
    return copies + [
        Example(text=text, source="banking77", split="train", routes=TOOL, weight=0.5)
        for text in banking
    ]
