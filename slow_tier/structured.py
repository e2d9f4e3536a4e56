"""Check that generated text is JSON of the shape that was asked for."""

from __future__ import annotations

import contextlib
import json
from typing import Any, NoReturn

import json_repair

from slow_tier.errors import InvalidAnswer
from slow_tier.json_schema import JsonSchema, Violation

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


def check_json(text: str, schema: JsonSchema, *, upstream: str) -> Any:
    """Parse strict JSON, then hold it against a schema.

    Returns:
        The parsed value.

    Raises:
        InvalidAnswer: If it is no JSON, breaks the schema or is too large to be held against
            it; names the keyword that failed together with the top-level property, never a
            value.
    """
    value = load_json(text, upstream=upstream)
    try:
        violation = schema.violation(value)
    except ValueError as error:
        raise InvalidAnswer(upstream=upstream, reason=f"answer is {error}") from None
    if violation is None:
        return value
    raise InvalidAnswer(
        upstream=upstream,
        reason=f"answer violates {violation.keyword!r} of its schema",
        field=_top_level_property(violation, value, schema),
    )


def _outermost(text: str) -> str:
    """Cut from the first opening bracket to the last closing one, in linear time."""
    starts = [index for index in map(text.find, "[{") if index >= 0]
    end = max(map(text.rfind, "]}"))
    return text[min(starts) : end + 1] if starts else ""


def _top_level_property(violation: Violation, value: object, schema: JsonSchema) -> str | None:
    """Name a property by the schema's words; the answer's own keys are the model's text."""
    known = schema.document.get("properties", {})
    if violation.path:
        name = violation.path[0]
        return name if isinstance(name, str) and name in known else None
    if violation.keyword == "required" and isinstance(value, dict):
        required = schema.document.get("required", ())
        return next((name for name in required if name in known and name not in value), None)
    return None


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError
