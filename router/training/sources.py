"""Read the public data sets the artifact is trained on.

The folder layout is documented in ``router/training/README.md``. Every reader returns only
rows that may train weights, unless it takes the part as an argument: the data set's own split
column is obeyed. Other sets are split by a hash of the normalised prompt (:func:`split_of`), so
that the duplicates within one stay together.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def split_of(text: str) -> str:
    """Return ``"train"`` (70 %), ``"dev"`` (10 %) or ``"test"`` (20 %) for a prompt.

    Blind to case, punctuation and spacing.
    """
    normalised = re.sub(r"\W+", " ", text.lower()).strip()
    bucket = int(hashlib.sha256(normalised.encode()).hexdigest()[:8], 16) % 100
    if 25 <= bucket < 45:
        return "test"
    return "dev" if 45 <= bucket < 55 else "train"


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a ``.jsonl`` or ``.jsonl.gz`` file.

    Raises:
        ValueError: Naming file and line, where a line is not a JSON object.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                msg = f"{path}, line {number}: not JSON: {error.msg}"
                raise ValueError(msg) from error
            if not isinstance(row, dict):
                msg = f"{path}, line {number}: expected an object, got {type(row).__name__}"
                raise ValueError(msg)
            yield row


def routing_rows(data: Path, *splits: str) -> list[dict[str, Any]]:
    """Return the routing rows of the named splits (``train``, ``dev``, ``test``, ``ood``)."""
    rows = read_rows(data / "routing" / "labels.jsonl.gz")
    return [row for row in rows if row["split"] in splits]


def tool_text(functions: list[dict[str, Any]]) -> str:
    """Return a tool list as the encoder reads it, one ``name: description`` a line."""
    return "\n".join(f"{f['name']}: {f.get('description', '')}".strip() for f in functions)


def tool_rows(data: Path, *, live: bool) -> list[dict[str, Any]]:
    """Return BFCL rows that offer at least one function; ``live`` picks the held-out half.

    Rows without functions are nearly all positive, a leak, and are never returned.
    """
    rows = read_rows(data / "tools" / "bfcl.jsonl.gz")
    return [r for r in rows if r["functions"] and r["category"].startswith("live_") is live]


def chatterbot_turns(data: Path, language: str, topics: tuple[str, ...]) -> list[str]:
    """Return the distinct opening turns of the named chatterbot topics, in file order."""
    import yaml

    turns: dict[str, None] = {}
    for topic in topics:
        path = data / "kinds" / "chatterbot_corpus" / f"{language}__{topic}.yml"
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for conversation in content["conversations"]:
            turns.setdefault(str(conversation[0]).strip(), None)
    return [turn for turn in turns if turn]


def arena_rows(data: Path) -> list[dict[str, Any]]:
    """Return arena-hard v2.0 prompts; v0.1 is held out to measure "hard goes slow"."""
    return list(read_rows(data / "kinds" / "arena_hard" / "v2.0_question.jsonl.gz"))


def distillation_corpus(data: Path) -> list[str]:
    """Return the distinct texts the student's embedding is distilled on, in a stable order.

    The sentence corpus plus the training parts of the prompt sets, so that the student has
    seen exam questions, code and tool lists and not only short sentences.
    """
    texts: dict[str, None] = {}
    for row in read_rows(data / "sentences" / "sentences.jsonl.gz"):
        texts.setdefault(row["text"].strip(), None)
    for row in routing_rows(data, "train"):
        texts.setdefault(row["prompt"].strip(), None)
    for row in tool_rows(data, live=False):
        texts.setdefault(row["prompt"].strip(), None)
        texts.setdefault(tool_text(row["functions"]), None)
    for row in arena_rows(data):
        texts.setdefault(row["prompt"].strip(), None)
    return [text for text in texts if text]


def temperature_tables(data: Path) -> dict[str, dict[str, float]]:
    """Return the sampling temperature a category, by table."""
    tables = json.loads((data / "kinds" / "temperature_by_category.json").read_text("utf-8"))
    return {name: table for name, table in tables.items() if isinstance(table, dict)}
