"""Hold the parts a report is made of, whatever it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A title; ``level`` 1 is the report's own."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a header; every row has as many cells as the header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        wrong = [i for i, row in enumerate(self.rows) if len(row) != len(self.header)]
        if wrong:
            msg = f"rows {wrong}: need {len(self.header)} cells, as the header has"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a plot.

    Attributes:
        name: For the legend.
        x: Ascending.
        y: As many values.
        emphasis: The artifact's own line.
        dashed: A reference, not a measurement.
        low: Lower ends of intervals, empty = none.
        high: Upper ends of intervals, empty = none.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    emphasis: bool = False
    dashed: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlot:
    """Lines over one pair of axes; ``marks`` are vertical lines with a label."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    marks: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BarPlot:
    """Horizontal bars that add up to 1, one a group.

    Attributes:
        title: What is shown.
        groups: Names, first at the top.
        parts: Name and shares, one share a group.
    """

    title: str
    groups: Sequence[str]
    parts: Sequence[tuple[str, Sequence[float]]]


Block: TypeAlias = Heading | Paragraph | Table | LinePlot | BarPlot
