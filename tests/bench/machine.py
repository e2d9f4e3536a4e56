"""Describe the machine and the software that a figure was measured with."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("fastslow", "grpcio", "k6", "numpy", "onnxruntime", "protobuf", "uvloop")


def machine_facts() -> dict[str, Any]:
    """Return CPU, cores, versions, commit and load as JSON values."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu_model": model.group(1) if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain")),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": load_average(),
    }


def load_average() -> list[float]:
    """Return the mean number of running tasks over 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def _git(*arguments: str) -> str | None:
    """Return what git prints, ``None`` where there is no repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
