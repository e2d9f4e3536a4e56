"""Show how far a long step is, on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Item = TypeVar("Item")

_FEW = 100


def progress(items: Sequence[Item], name: str) -> Iterable[Item]:
    """Yield ``items`` behind a progress bar; few items, or no terminal, get none."""
    console = Console(stderr=True)
    if len(items) < _FEW:
        yield from items
        return
    if not console.is_terminal:
        say(f"{name}: {len(items)}")
        yield from items
        return
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as shown:
        yield from shown.track(items, description=name)


def say(message: str) -> None:
    """Print one line about what happens now."""
    Console(stderr=True, highlight=False, markup=False).print(message, soft_wrap=True)
