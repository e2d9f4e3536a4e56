"""Read the rows a user wrote to train routes of their own.

A row is ``{text, route, temperature?, weight?, tools?, weak_score?, strong_score?}``, in a JSON
array or one a line (JSONL). Every file is checked whole before anything is trained, and all
mistakes are told together.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, StrictFloat, StrictStr
from pydantic.dataclasses import dataclass

from router.training.row_files import read_placed
from router.training.row_problems import Place, Placed, Problems, RowsError
from router.training.sources import split_of, tool_text

__all__ = ["RowsError", "Tool", "UserRow", "read_user_rows", "routes_of"]

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.1, 1.5
MAX_WEIGHT = 1000.0
MAX_TEXT_BYTES = 262_144  # what a service reads, limits.prompt_bytes
MAX_TOOLS = 128
MIN_ROUTES, MAX_ROUTES = 2, 16
_ROUTE = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # names that a configuration can map to a tier
_KNOWN_ORDER = ("fast", "slow", "tool")

# A validation error that quoted its input would show what a user typed.
ROW_CONFIG = ConfigDict(extra="forbid", hide_input_in_errors=True)


def checked_text(text: str) -> str:
    """Return a text that an encoder can read.

    Raises:
        ValueError: If it is blank, over ``MAX_TEXT_BYTES``, or holds a NUL or a lone surrogate.
    """
    try:
        size_bytes = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        msg = "holds a lone surrogate, which is no character"
        raise ValueError(msg) from None
    if size_bytes > MAX_TEXT_BYTES:
        msg = f"must be at most {MAX_TEXT_BYTES} bytes of UTF-8, is {size_bytes}"
        raise ValueError(msg)
    if "\0" in text:
        msg = "holds a NUL character"
        raise ValueError(msg)
    if not text.strip():
        msg = "must not be blank"
        raise ValueError(msg)
    return text


def _between(low: float, high: float) -> AfterValidator:
    def check(value: float) -> float:
        if not low <= value <= high:  # NaN compares false
            msg = f"must be a finite number in [{low:g}, {high:g}]"
            raise ValueError(msg)
        return value

    return AfterValidator(check)


def _weight(value: float) -> float:
    if not 0.0 < value <= MAX_WEIGHT:
        msg = f"must be a finite number in (0, {MAX_WEIGHT:g}]"
        raise ValueError(msg)
    return value


def _route(name: str) -> str:
    if not _ROUTE.fullmatch(name):
        msg = "must be a name of 1 to 64 ASCII letters, digits, '_', '-' or '.'"
        raise ValueError(msg)
    return name


def _description(text: str) -> str:
    return checked_text(text) if text else text


def _few(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    if len(tools) > MAX_TOOLS:
        msg = f"must be at most {MAX_TOOLS} tools, are {len(tools)}"
        raise ValueError(msg)
    return tools


Text = Annotated[StrictStr, AfterValidator(checked_text)]
Score = Annotated[StrictFloat, _between(0.0, 1.0)]


@dataclass(frozen=True, slots=True, kw_only=True, config=ROW_CONFIG)
class Tool:
    """A tool on offer beside a text."""

    name: Text
    description: Annotated[StrictStr, AfterValidator(_description)] = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=ROW_CONFIG)
class UserRow:
    """One labelled text.

    Attributes:
        text: What a user would ask; not blank, at most ``MAX_TEXT_BYTES``.
        route: Where it should go.
        temperature: Sampling temperature in [0.1, 1.5]; None keeps the row from the
            temperature head, since few people can tell one and a default would be learnt.
        weight: How much the row counts, in (0, 1000].
        tools: Tools on offer; None = unknown, empty = none.
        weak_score: How well the fast tier's model answers, in [0, 1], None = not measured.
        strong_score: How well the slow tier's model answers, in [0, 1], None = not measured.

    Raises:
        ValueError: Naming the field, never its value.
    """

    text: Text
    route: Annotated[StrictStr, AfterValidator(_route)]
    temperature: Annotated[StrictFloat, _between(MIN_TEMPERATURE, MAX_TEMPERATURE)] | None = None
    weight: Annotated[StrictFloat, AfterValidator(_weight)] = 1.0
    tools: Annotated[tuple[Tool, ...], AfterValidator(_few)] | None = None
    weak_score: Score | None = None
    strong_score: Score | None = None

    @property
    def split(self) -> Literal["train", "dev", "test"]:
        """Where the text belongs, the same in every run: 70, 10 and 20 % by its hash."""
        return split_of(self.text)  # type: ignore[return-value]

    @property
    def tool_text(self) -> str | None:
        """The tools as an encoder reads them; None = unknown, empty = none."""
        if self.tools is None:
            return None
        return tool_text([{"name": t.name, "description": t.description} for t in self.tools])

    @property
    def identity(self) -> tuple[str, str | None]:
        """Equal for two rows that ask the same: blind to case, spacing and Unicode form.

        Punctuation counts, unlike in the split: "is 5 > 3" and "is 5 < 3" may differ in route.
        """
        return normalised(self.text), self.tool_text

    def to_json(self) -> dict[str, Any]:
        """Return the row as it is written to a file, absent fields left out."""
        row = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.tools is not None:
            row["tools"] = [{"name": t.name, "description": t.description} for t in self.tools]
        return {name: value for name, value in row.items() if value is not None}


def normalised(text: str) -> str:
    """Return a text in NFC, case folded, with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def routes_of(rows: Iterable[UserRow]) -> tuple[str, ...]:
    """Return the rows' routes: fast, slow, tool where present, then others by name."""
    found = {row.route for row in rows}
    known = [name for name in _KNOWN_ORDER if name in found]
    return (*known, *sorted(found.difference(known)))


def read_user_rows(*files: Path, routes: Sequence[str] | None = None) -> tuple[UserRow, ...]:
    """Return the rows of all files, in order.

    Args:
        files: JSON arrays or JSONL, UTF-8.
        routes: Allowed route names; None takes them from the data, 2 to 16.

    Raises:
        RowsError: With every mistake of every file: what `UserRow` refuses, an unknown route,
            one route only, or one text with two routes.
    """
    problems = Problems()
    placed = [row for file in files for row in placed_rows(file, problems, routes=routes)]
    check_contradictions(placed, problems)
    found = routes_of(row.row for row in placed)
    everywhere = ", ".join(str(file) for file in files)
    # Said of a file that cannot be read whole, it might not be true.
    if not problems and len(found) < MIN_ROUTES:
        problems.add(
            Place(file=Path(everywhere)),
            f"every row has one route; to learn a difference takes at least {MIN_ROUTES}",
            field="route",
        )
    if len(found) > MAX_ROUTES:
        msg = f"must be at most {MAX_ROUTES} routes, are {len(found)}"
        problems.add(Place(file=Path(everywhere)), msg, field="route")
    problems.raise_if_any()
    return tuple(row.row for row in placed)


def placed_rows(
    file: Path, problems: Problems, *, routes: Sequence[str] | None = None
) -> list[Placed[UserRow]]:
    """Return the valid rows of one file with where they stand, note what is wrong otherwise."""
    placed = read_placed(file, UserRow, problems)
    if routes is not None:
        for each in placed:
            if each.row.route not in routes:
                allowed = ", ".join(routes)
                problems.add(each.place, f"is no known route; allowed: {allowed}", field="route")
    return placed


def check_contradictions(rows: Iterable[Placed[UserRow]], problems: Problems) -> None:
    """Note every row that asks the same as an earlier one but has another route."""
    first: dict[tuple[str, str | None], Placed[UserRow]] = {}
    for each in rows:
        earlier = first.setdefault(each.row.identity, each)
        if earlier.row.route != each.row.route:
            same_file = earlier.place.file == each.place.file
            where = earlier.place.row if same_file else str(earlier.place)
            problems.add(each.place, f"contradicts {where}: same text", field="route")
