"""Read the prompts that a pair of models is to be labelled on.

A row is ``{text, answer?, response_schema?}``, in a JSON array or one a line (JSONL).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic.dataclasses import dataclass

from router.errors import RouterError
from router.json_schema import parse_schema
from router.training.row_files import read_placed
from router.training.row_problems import Place, Placed, Problems
from router.training.user_rows import ROW_CONFIG, Text, normalised
from slow_tier.json_schema import JsonSchema

MAX_ANSWERS = 64


class Grading(enum.StrEnum):
    """How an answer gets its score."""

    EXACT = "exact"
    SCHEMA = "schema"
    MODEL = "model"


def _answers(value: Any) -> Any:
    """Take one answer for a list of one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_ANSWERS:
        msg = f"must be text or a list of 1 to {MAX_ANSWERS} texts"
        raise ValueError(msg)
    return tuple(value)


def _schema(document: dict[str, Any]) -> dict[str, Any]:
    try:
        parse_schema(json.dumps(document), field="")
    except (RouterError, RecursionError) as error:
        raise ValueError(str(error) or "is nested too deeply") from None
    return document


@dataclass(frozen=True, slots=True, kw_only=True, config=ROW_CONFIG)
class PromptRow:
    """One row of a file of prompts.

    Attributes:
        text: What both models are asked.
        answer: Right answers, any of which will do; written as text or a list; None = unknown.
        response_schema: JSON Schema (draft 2020-12) of a right answer, None = free text.

    Raises:
        ValueError: Naming the field, never its value.
    """

    text: Text
    answer: Annotated[tuple[Text, ...], BeforeValidator(_answers)] | None = None
    response_schema: Annotated[dict[str, Any], AfterValidator(_schema)] | None = None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt with the way its answers are graded.

    Attributes:
        place: Where it stands.
        text: What both models are asked.
        grading: How the answers get their scores.
        answers: Right answers, empty = unknown.
        schema: What an answer must satisfy, None = free text.
    """

    place: Place
    text: str
    grading: Grading
    answers: tuple[str, ...]
    schema: JsonSchema | None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """The prompts of a file.

    Attributes:
        prompts: Distinct, in order.
        repeated: Rows left out because an earlier one is the same.
    """

    prompts: tuple[Prompt, ...]
    repeated: int


def read_prompts(file: Path, *, grading: Grading | None = None) -> Prompts:
    """Return the prompts of a file.

    Args:
        file: A JSON array or JSONL, UTF-8.
        grading: The same for all; None goes by what a row carries: a right answer, a schema,
            else the judge.

    Raises:
        RowsError: With every mistake: what `PromptRow` refuses, a row without what the
            grading needs, or one text with two answers or schemas.
    """
    problems = Problems()
    kept: dict[str, Placed[PromptRow]] = {}
    repeated = 0
    for each in read_placed(file, PromptRow, problems):
        _check_grading(each, grading, problems)
        earlier = kept.setdefault(normalised(each.row.text), each)
        if earlier is each:
            continue
        repeated += 1
        for field in ("answer", "response_schema"):
            if getattr(earlier.row, field) != getattr(each.row, field):
                problems.add(
                    each.place, f"differs from {earlier.place.row}: same text", field=field
                )
    problems.raise_if_any()
    return Prompts(prompts=_prompts(kept.values(), grading), repeated=repeated)


def _check_grading(each: Placed[PromptRow], grading: Grading | None, problems: Problems) -> None:
    row = each.row
    if grading is None and row.answer is not None and row.response_schema is not None:
        text = "excludes response_schema, unless the grading is named with --judge"
        problems.add(each.place, text, field="answer")
    needs = {Grading.EXACT: "answer", Grading.SCHEMA: "response_schema"}
    if grading in needs and getattr(row, needs[grading]) is None:
        problems.add(each.place, f"is missing; --judge {grading} needs it", field=needs[grading])


def _prompts(rows: Iterable[Placed[PromptRow]], grading: Grading | None) -> tuple[Prompt, ...]:
    return tuple(
        Prompt(
            place=each.place,
            text=each.row.text,
            grading=grading or _natural_grading(each.row),
            answers=each.row.answer or (),
            schema=_compiled(each.row.response_schema),
        )
        for each in rows
    )


def _compiled(document: dict[str, Any] | None) -> JsonSchema | None:
    return None if document is None else JsonSchema(document)


def _natural_grading(row: PromptRow) -> Grading:
    if row.answer is not None:
        return Grading.EXACT
    return Grading.MODEL if row.response_schema is None else Grading.SCHEMA
