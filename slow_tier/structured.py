"""Check that generated text is JSON of the shape that was asked for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, NoReturn

import json_repair
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from slow_tier.errors import InvalidAnswer

# json-repair 0.64 can take more than quadratic time on text that is far from JSON, during
# which the event loop stands still. CPU time of the worst of 3000 random repeated patterns on
# one x86-64 core: 0.08 s at 512 characters with 16 brackets, 0.3 s at 1024 with 16, 0.7 s at
# 1024 with 32, 1.7 s at 2048 with 16. A search, not a proof: the bounds below are the first.
MAX_REPAIR_CHARACTERS = 512
MAX_REPAIR_BRACKETS = 16


def load_json(text: str | bytes, *, upstream: str, what: str = "answer") -> Any:
    """Parse strict JSON; ``NaN`` and infinities, which Python would accept, are refused.

    Raises:
        InvalidAnswer: If ``text`` is anything else; ``what`` names it in the message.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        # Not chained: a decoding error carries the text itself.
        raise InvalidAnswer(upstream=upstream, reason=f"{what} is not JSON") from None


def repair_json(text: str, *, upstream: str) -> str:
    """Return ``text`` when it is JSON, else the JSON object or array it was meant to be.

    Words and code fences around JSON are taken off at any length. In a short text further
    slips of models are mended: trailing commas, single quotes, a missing bracket.

    Raises:
        InvalidAnswer: If no object or array with anything in it can be made out.
    """
    try:
        load_json(text, upstream=upstream)
    except InvalidAnswer:
        pass
    else:
        return text
    inner = _outermost(text)
    with contextlib.suppress(InvalidAnswer):
        if load_json(inner, upstream=upstream):
            return inner
    brackets = text.count("{") + text.count("[")
    if len(text) <= MAX_REPAIR_CHARACTERS and brackets <= MAX_REPAIR_BRACKETS:
        with contextlib.suppress(ValueError, RecursionError):
            value = json_repair.loads(text, skip_json_loads=True)
            # Plain prose "repairs" to an empty string, which some schemas would accept.
            if isinstance(value, dict | list) and value:
                return json.dumps(value, ensure_ascii=False, allow_nan=False)
    raise InvalidAnswer(upstream=upstream, reason="answer is not JSON")


def check_json(text: str, schema: Mapping[str, Any], *, upstream: str) -> Any:
    """Parse strict JSON, then hold it against a JSON schema (draft 2020-12).

    Returns:
        The parsed value.

    Raises:
        InvalidAnswer: If it is no JSON or breaks the schema; names the keyword that failed
            together with the top-level property, never a value.
        ValueError: If the schema refers to something that it does not contain.
    """
    value = load_json(text, upstream=upstream)
    # The explicit empty registry matters: without one, jsonschema fetches remote `$ref`s.
    validator = Draft202012Validator(dict(schema), registry=Registry())
    try:
        error = best_match(validator.iter_errors(value))
    except Unresolvable:
        msg = "response_schema: a $ref does not resolve within the schema"
        raise ValueError(msg) from None
    except RecursionError:
        msg = "response_schema: refers to itself without end"
        raise ValueError(msg) from None
    if error is None:
        return value
    raise InvalidAnswer(
        upstream=upstream,
        reason=f"answer violates {error.validator!r} of its schema",
        field=_top_level_property(error, value, schema),
    )


def _outermost(text: str) -> str:
    """Cut from the first opening bracket to the last closing one, in linear time."""
    starts = [index for index in map(text.find, "[{") if index >= 0]
    end = max(map(text.rfind, "]}"))
    return text[min(starts) : end + 1] if starts else ""


def _top_level_property(
    error: ValidationError, value: object, schema: Mapping[str, Any]
) -> str | None:
    """Name a property by the schema's words; the answer's own keys are the model's text."""
    known = schema.get("properties")
    if not isinstance(known, Mapping):
        return None
    if error.absolute_path:
        name = error.absolute_path[0]
        return name if isinstance(name, str) and name in known else None
    if error.validator == "required" and isinstance(value, dict):
        return next((name for name in schema.get("required", ()) if name not in value), None)
    return None


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError
