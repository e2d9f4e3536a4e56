"""Collect the mistakes of row files, to tell them all at once.

Whoever wrote a file by hand wants to hear of all its mistakes in one run. A message names file,
row, field and limit; it repeats no value, because values are what users typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

RowT = TypeVar("RowT")

MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a row stands.

    Attributes:
        file: The file as the user named it.
        row: ``line 7`` of a JSONL file, counted from 1, or ``index 6`` of an array, counted
            from 0; empty for the file as a whole.
    """

    file: Path
    row: str = ""

    def __str__(self) -> str:
        return f"{self.file}, {self.row}" if self.row else str(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Generic[RowT]):
    """A row with where it stands."""

    place: Place
    row: RowT


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake.

    Attributes:
        place: The row, or the file where no single row is at fault.
        field: Field of the row, empty where the mistake is not one field's.
        text: What is wrong, with the limit.
    """

    place: Place
    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}{', ' * bool(self.field)}{self.field}: {self.text}"


class RowsError(ValueError):
    """Files of rows cannot be used; the message has one line a mistake.

    Attributes:
        problems: The first ``MAX_PROBLEMS`` mistakes, in the order of files and checks.
        omitted: How many more there are.
    """

    def __init__(self, problems: Sequence[Problem], *, omitted: int = 0) -> None:
        lines = [str(problem) for problem in problems]
        if omitted:
            lines.append(f"... and {omitted} more")
        super().__init__("\n".join(lines))
        self.problems = tuple(problems)
        self.omitted = omitted


class Problems:
    """Mistakes found so far."""

    def __init__(self) -> None:
        self._kept: list[Problem] = []
        self._omitted = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, place: Place, text: str, *, field: str = "") -> None:
        """Note a mistake."""
        if len(self._kept) < MAX_PROBLEMS:
            self._kept.append(Problem(place=place, field=field, text=text))
        else:
            self._omitted += 1

    def raise_if_any(self) -> None:
        """Raise what was found.

        Raises:
            RowsError: If there is any mistake.
        """
        if self._kept:
            raise RowsError(self._kept, omitted=self._omitted)
