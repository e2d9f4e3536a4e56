"""Write rows as JSONL, a whole file or none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from router.cli.console import ExitCode, fail


def jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return one JSON object a line."""
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSONL file; end the command where that fails, the old file untouched."""
    # Renamed into place, so that an interruption leaves no half of it.
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        partial.write_text(jsonl(rows), encoding="utf-8", newline="")
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        fail(f"--out {file}: cannot be written: {error.strerror}", ExitCode.USAGE)
