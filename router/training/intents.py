"""Label commands and small talk by our own reading of which intents need a tool."""

from __future__ import annotations

import csv
import gzip
import json
import math
from typing import TYPE_CHECKING

from router.training.example import FAST, SLOW, TOOL, Example

if TYPE_CHECKING:
    from pathlib import Path

INTENTS_PER_CLASS = 40
# In the spirit of the tables the data set brings: conversation is not drawn cold.
SMALL_TALK_TEMPERATURE = 0.7

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


def clinc_examples(data: Path) -> list[Example]:
    """Return CLINC150's commands, small talk and requests outside the scope of all intents."""
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


def hwu_examples(data: Path) -> list[Example]:
    """Return HWU64's utterances, at most so many an intent."""
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


def banking_texts(data: Path) -> list[str]:
    """Return BANKING77's training queries; each needs an account, hence a tool."""
    with (data / "intents" / "banking77" / "train.csv").open(encoding="utf-8") as file:
        return [row["text"] for row in csv.DictReader(file)]
