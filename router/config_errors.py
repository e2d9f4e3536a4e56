"""Explain a failed validation to an operator, one line a mistake."""

from __future__ import annotations

import difflib
import types
import typing
from typing import Any

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, model: type[BaseModel], *, origin: str) -> str:
    """Return one line for each mistake: where it is, what is wrong, what was meant.

    Args:
        error: What pydantic found.
        model: The root of the configuration, to look up known keys.
        origin: The file's name, or another word for where the values came from.
    """
    lines = [f"{origin}: the configuration has {error.error_count()} mistake(s)"]
    for mistake in error.errors(include_url=False, include_context=False):
        location = tuple(mistake["loc"])
        key = _dotted(location)
        if mistake["type"] == "extra_forbidden":
            lines.append(f"  {key}: unknown key{_nearest(location, model)}")
        else:
            message = mistake["msg"].removeprefix("Value error, ")
            lines.append(f"  {key}: {message}{_shown(mistake.get('input'))}")
    return "\n".join(lines)


def _dotted(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(top)"


def _shown(value: Any) -> str:
    """Return the offending value where it is a plain number or flag, never a string."""
    return f", got {value}" if isinstance(value, (int, float)) else ""


def _nearest(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    section: type[BaseModel] | None = model
    for part in location[:-1]:
        if section is not None and isinstance(part, str):
            section = _section(section, part)
    if section is None:
        return ""
    known = sorted(section.model_fields)
    close = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known here: {', '.join(known)}"


def _section(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """Return the model a field holds, looking through unions and tuples."""
    info = model.model_fields.get(key)
    if info is None:
        return None
    pending: list[Any] = [info.annotation]
    while pending:
        annotation = pending.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        if typing.get_origin(annotation) in {typing.Union, types.UnionType, tuple, list}:
            pending.extend(typing.get_args(annotation))
    return None
