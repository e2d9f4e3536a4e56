"""Checks of JSON documents that arrive as text: states and JSON Schemas.

Schemas seen lately are remembered with what was compiled of them: clients send the same tools
with every request.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from router.errors import InvalidRequest, RequestUnsatisfiable
from router.field_checks import at_most, text_bytes
from slow_tier.json_schema import JsonSchema

MAX_SCHEMA_BYTES = 32_768
MAX_SCHEMA_VALUES = 2_000
MAX_DEPTH = 64

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSchema:
    """A JSON Schema (draft 2020-12) that a caller sent.

    Attributes:
        compiled: Shared between requests, so never to be changed.
        values: JSON values in it, objects and arrays included.
    """

    compiled: JsonSchema
    values: int


def parse_document(text: str, *, field: str) -> dict[str, Any] | list[Any]:
    """Parse strict JSON whose top is an object or an array.

    Raises:
        InvalidRequest: If it is anything else, holds NaN, an infinity, a number no float can
            hold or a lone surrogate, or is nested deeper than ``MAX_DEPTH``.
    """
    value = _parse(text, field=field)
    if not isinstance(value, dict | list):
        msg = "must be a JSON object or array at the top"
        raise InvalidRequest(msg, field=field)
    return value


def parse_schema(text: str, *, field: str) -> CheckedSchema:
    """Parse a JSON Schema (draft 2020-12); the schema ``true`` becomes ``{}``.

    Raises:
        InvalidRequest: If it is no JSON, too large or no schema that `JsonSchema` takes.
        RequestUnsatisfiable: If no value at all can satisfy it.
    """
    at_most(text_bytes(text, field=field), MAX_SCHEMA_BYTES, field=field, unit="bytes")
    try:
        return _checked(text)
    except InvalidRequest as error:
        raise InvalidRequest(error.description, field=field) from None
    except RequestUnsatisfiable as error:
        raise RequestUnsatisfiable(error.description, field=field) from None


@functools.lru_cache(maxsize=512)
def _checked(text: str) -> CheckedSchema:
    value = _parse(text, field="")
    values = sum(1 for _ in _walk(value))
    at_most(values, MAX_SCHEMA_VALUES, field="", unit="JSON values")
    if not isinstance(value, dict | bool):
        msg = "must be a JSON Schema: a JSON object"
        raise InvalidRequest(msg)
    document = value if isinstance(value, dict) else {}
    try:
        compiled = JsonSchema(document)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    if value is False or _unsatisfiable(document):
        msg = "is a schema that no value satisfies"
        raise RequestUnsatisfiable(msg)
    return CheckedSchema(compiled=compiled, values=values)


def _parse(text: str, *, field: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except _NotFiniteError:
        msg = "is not JSON: holds NaN, an infinity or a number too large for a double"
        raise InvalidRequest(msg, field=field) from None
    except json.JSONDecodeError as error:
        msg = f"is not JSON: line {error.lineno} column {error.colno}"
        raise InvalidRequest(msg, field=field) from None
    except ValueError:
        msg = "is not JSON: holds an integer with too many digits"
        raise InvalidRequest(msg, field=field) from None
    except RecursionError:
        raise _too_deep(field) from None
    _check_depth(value, field=field)
    if _SURROGATE_ESCAPE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            msg = "holds a lone surrogate as an escape"
            raise InvalidRequest(msg, field=field) from None
    return value


class _NotFiniteError(ValueError):
    pass


def _refuse_constant(_: str) -> NoReturn:
    raise _NotFiniteError


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _NotFiniteError
    return value


def _too_deep(field: str) -> InvalidRequest:
    return InvalidRequest(f"is nested deeper than {MAX_DEPTH} levels", field=field)


def _check_depth(value: Any, *, field: str) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise _too_deep(field)


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _walk(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        item = pending.pop()
        yield item
        pending.extend(_children(item))


def _unsatisfiable(schema: dict[str, Any]) -> bool:
    """Recognise the plain ways to write "nothing"; deciding it in general is intractable."""
    return schema.get("not") in (True, {}) or schema.get("enum") == []
