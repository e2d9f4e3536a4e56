"""Run every section on one artifact and put the figures into one report."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from gzip import BadGzipFile
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from router.evaluation.abstention import measure_abstention
from router.evaluation.embedding import measure_embedding
from router.evaluation.first_look import measure_first_look
from router.evaluation.latency import measure_latency
from router.evaluation.lengths import measure_lengths
from router.evaluation.out_of_scope import measure_out_of_scope
from router.evaluation.policy_checks import measure_policy_checks
from router.evaluation.progress import say
from router.evaluation.routing import measure_routing
from router.evaluation.settings import Settings
from router.evaluation.skipped import SectionSkipped
from router.evaluation.subject import Subject
from router.evaluation.targets import target_table
from router.evaluation.temperature import measure_temperature
from router.evaluation.tools import measure_tools

FORMAT = 1
PLACES = 4
SECTIONS: dict[str, Callable[[Subject, Settings], dict[str, Any]]] = {
    "routing": measure_routing,
    "tools": measure_tools,
    "first_look": measure_first_look,
    "out_of_scope": measure_out_of_scope,
    "temperature": measure_temperature,
    "lengths": measure_lengths,
    "embedding": measure_embedding,
    "abstention": measure_abstention,
    "policy_checks": measure_policy_checks,
    "latency": measure_latency,
}
# What decompressing and decoding raise, without a name of the file.
_DAMAGE = (EOFError, BadGzipFile, zlib.error, UnicodeDecodeError)
_LIBRARIES = ("numpy", "onnxruntime", "scikit-learn", "litellm", "torch", "sentence-transformers")


def evaluate(subject: Subject, settings: Settings, *, only: Collection[str] = ()) -> dict[str, Any]:
    """Return the report: artifact, settings, every section, the target table.

    Args:
        subject: What is measured.
        settings: What the run depends on.
        only: Names in :data:`SECTIONS`; empty = all.

    Raises:
        ValueError: If ``only`` names an unknown section, or a data file is malformed.
        OSError: If the data folder cannot be read.
    """
    unknown = sorted(set(only) - set(SECTIONS))
    if unknown:
        msg = f"unknown section(s) {unknown}; there are {list(SECTIONS)}"
        raise ValueError(msg)
    if not settings.data.is_dir():
        msg = f"{settings.data}: no such data folder"
        raise NotADirectoryError(msg)
    sections: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for name, measure in SECTIONS.items():
        if only and name not in only:
            continue
        started_s = time.monotonic()
        try:
            sections[name] = measure(subject, settings)
        except SectionSkipped as reason:
            sections[name] = {"skipped": str(reason)}
        except FileNotFoundError as error:
            sections[name] = {"skipped": f"{error.filename} is missing"}
        except _DAMAGE as error:
            msg = f"{name}: a data file is damaged: {error}"
            raise ValueError(msg) from error
        seconds[name] = round(time.monotonic() - started_s, 1)
        say(f"{name}: {sections[name].get('skipped', 'done')} ({seconds[name]:.0f} s)")
    report: dict[str, Any] = rounded(
        {
            "format": FORMAT,
            "artifact": _artifact(subject),
            "settings": _settings(settings),
            "sections": sections,
            "targets": target_table(sections),
            "seconds": seconds,
        }
    )
    return report


def key_figures(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figure of every target by its key, small enough for an artifact's config."""
    return {row["key"]: row["measured"] for row in report["targets"]}


def rounded(value: Any) -> Any:
    """Return JSON values with numbers rounded to four places, NaN as ``None``."""
    if isinstance(value, dict):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, float):
        # Adding 0.0 turns a rounded -0.0 into 0.0.
        return round(value, PLACES) + 0.0 if math.isfinite(value) else None
    return value


def _artifact(subject: Subject) -> dict[str, Any]:
    config = subject.artifact.config
    search = config.threshold_search
    return {
        "name": config.name,
        "revision": subject.artifact.revision,
        "routes": list(config.routes),
        "languages": list(config.languages),
        "threshold": config.threshold,
        "threshold_search": None if search is None else search.model_dump(mode="json"),
        "semantic_threshold": config.semantic_threshold,
    }


def _settings(settings: Settings) -> dict[str, Any]:
    return {
        "seed": settings.resampling.seed,
        "resamples": settings.resampling.resamples,
        "quick": settings.quick,
        "complex_to_fast": settings.cost_matrix.complex_to_fast,
        "simple_to_slow": settings.cost_matrix.simple_to_slow,
        "libraries": {name: _version(name) for name in _LIBRARIES},
    }


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None
