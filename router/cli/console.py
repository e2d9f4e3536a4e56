"""Tell the operator what came out: results on standard output, mistakes on standard error."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from router.errors import ConfigError, InvalidRequest, RouterError

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration in YAML; else the file FASTSLOW_CONFIG names, else the defaults.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


class ExitCode(enum.IntEnum):
    """How a command ends."""

    DONE = 0
    FAILED = 1
    USAGE = 2


def fail(message: str, code: ExitCode) -> NoReturn:
    """Print ``message`` on standard error, then end the command."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


@contextmanager
def mistakes_reported() -> Iterator[None]:
    """End the command with a message, never a traceback, where someone else is to blame.

    What the operator typed or configured is wrong usage; anything else raised on purpose is a
    failure. An exception nobody planned for passes through, for it is a bug.
    """
    try:
        yield
    except (ConfigError, InvalidRequest) as error:
        fail(str(error), ExitCode.USAGE)
    except RouterError as error:
        fail(str(error), ExitCode.FAILED)


def print_json(value: Any) -> None:
    """Print a JSON value, readable by people too."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def printable(text: str) -> str:
    """Return ``text`` without what would steer a terminal: a model may write escape codes."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
