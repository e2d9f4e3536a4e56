"""Gather the labelled rows the heads are fitted on."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

from router.training.example import FAST, NO_TOOL, SLOW, TOOL, Example
from router.training.exams import exam_examples
from router.training.intents import banking_texts, clinc_examples, hwu_examples
from router.training.sources import (
    arena_rows,
    chatterbot_turns,
    read_rows,
    split_of,
    temperature_tables,
    tool_rows,
    tool_text,
)

if TYPE_CHECKING:
    from pathlib import Path

CHARS_PER_TOKEN = 4.0
CHARS_PER_TOKEN_ZH = 1.6
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


def all_examples(data: Path, *, seed: int) -> list[Example]:
    """Return every labelled row of the training and dev parts, plus augmented ones."""
    rows = [
        *exam_examples(data),
        *_tools(data),
        *clinc_examples(data),
        *hwu_examples(data),
        *_arena(data),
        *_belle(data),
        *_lengths(data),
        *_plain_questions(data),
        *_user_tasks(data),
    ]
    return rows + _with_other_tools(rows, data, random.Random(seed))  # noqa: S311 - nothing secret


def is_ordinary(example: Example) -> bool:
    """Whether the text is one of those that tell what requests usually look like.

    Chinese is undeclared; the prompts of ``lengths:arena_hard`` are those of arena-hard v0.1,
    which measure what is done with prompts never seen.
    """
    return "belle_zh" not in example.source and example.source != "lengths:arena_hard"


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
        if example.split == split and example.tools is None and is_ordinary(example):
            by_source.setdefault(example.source, {})[example.text] = None
    corpus = [row["text"] for row in read_rows(data / "sentences" / "sentences.jsonl.gz")]
    part = [text for text in corpus if (split_of(text) == "dev") is (split == "dev")]
    step = max(1, len(part) // sentences)
    texts = [
        t for group in by_source.values() for t in list(group)[:: max(1, len(group) // per_source)]
    ]
    return texts + part[::step]


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
    banking = rng.sample(banking_texts(data), 300)
    return copies + [
        Example(text=text, source="banking77", split="train", routes=TOOL, weight=0.5)
        for text in banking
    ]
