"""Explain a failed validation to an operator, one line a mistake."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

Location = tuple[int | str, ...]

# Raised for a string where a structure belongs: in a variable, JSON that cannot be parsed.
_STRUCTURES = frozenset({"tuple_type", "dict_type", "model_type", "model_attributes_type"})

_LONGEST = 10**18


def explain(
    error: ValidationError,
    model: type[BaseModel],
    *,
    variable_of: Callable[[Location], str | None],
) -> Iterator[str]:
    """Yield one line for each mistake: where it is, what is wrong, what was meant.

    Args:
        error: What pydantic found.
        model: The root of the configuration, to look up known keys.
        variable_of: Returns the environment variable that set a value, or ``None``.
    """
    for mistake in error.errors(include_url=False, include_context=False):
        location = tuple(mistake["loc"])
        variable = variable_of(location)
        if mistake["type"] == "extra_forbidden":
            message = f"unknown key{_nearest(location, model)}"
        elif variable and mistake["type"] in _STRUCTURES and isinstance(mistake["input"], str):
            message = "not JSON of the right kind"
        else:
            message = mistake["msg"].removeprefix("Value error, ") + _shown(mistake["input"])
        origin = f" (environment variable {variable})" if variable else ""
        yield f"{_dotted(location)}: {message}{origin}"


def _dotted(location: Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(top)"


def _shown(value: Any) -> str:
    """Return the offending value where it is a plain number or flag, never a string."""
    # Python refuses to write integers of thousands of digits.
    is_short = isinstance(value, float) or (isinstance(value, int) and abs(value) < _LONGEST)
    return f", got {value}" if is_short else ""


def _nearest(location: Location, model: type[BaseModel]) -> str:
    section: type[BaseModel] | None = model
    for part in location[:-1]:
        if section is not None and isinstance(part, str):
            section = section_of(section, part)
    if section is None:
        return ""
    known = sorted(section.model_fields)
    close = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known here: {', '.join(known)}"


def section_of(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """Return the model that a field holds, looking through unions and tuples, if it does."""
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
