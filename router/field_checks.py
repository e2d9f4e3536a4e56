"""Checks of single values from the wire.

Every function raises ``InvalidRequest`` with the field's path, the limit and the offending
size; the value itself is never repeated, because a user typed it.
"""

from __future__ import annotations

import json
import math

from router.config import LimitsConfig
from router.errors import InvalidRequest


def element(path: str, key: str | int) -> str:
    """Return the path of one element: ``messages[2]``, ``questions["is_spam"]``."""
    return f"{path}[{json.dumps(key)}]"


def text_bytes(value: str, *, field: str) -> int:
    """Return the size of ``value`` as UTF-8, bytes.

    Raises:
        InvalidRequest: If it holds NUL or a lone surrogate.
    """
    if "\0" in value:
        msg = f"holds a NUL character at position {value.index(chr(0))}"
        raise InvalidRequest(msg, field=field)
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        msg = f"holds a lone surrogate at position {error.start}"
        # Not chained: the encoding error carries the text.
        raise InvalidRequest(msg, field=field) from None


def written_text(value: str, *, field: str) -> int:
    """Return the size of a text that must say something, bytes of UTF-8.

    Raises:
        InvalidRequest: If it is empty, only white space or not clean text.
    """
    size_bytes = text_bytes(value, field=field)
    if not value or value.isspace():
        msg = "is only white space" if value else "is empty"
        raise InvalidRequest(msg, field=field)
    return size_bytes


def short_text(value: str, *, field: str, limit_bytes: int) -> str:
    """Return ``value`` when it is clean text of at most ``limit_bytes`` bytes of UTF-8."""
    at_most(text_bytes(value, field=field), limit_bytes, field=field, unit="bytes")
    return value


def at_most(size: int, limit: int, *, field: str, unit: str, setting: str = "") -> None:
    """Refuse a size over its limit.

    Args:
        size: What was counted.
        limit: The most that is allowed.
        field: Path on the wire.
        unit: What was counted, plural.
        setting: Configuration key of the limit, empty for a limit of the contract.
    """
    if size > limit:
        origin = f" ({setting})" if setting else ""
        msg = f"has {size} {unit}, at most {limit}{origin} are allowed"
        raise InvalidRequest(msg, field=field)


def input_size(size_bytes: int, limits: LimitsConfig, *, field: str) -> None:
    """Refuse input text over ``limits.prompt_bytes``, bytes of UTF-8."""
    at_most(
        size_bytes, limits.prompt_bytes, field=field, unit="bytes", setting="limits.prompt_bytes"
    )


def number_between(value: float, low: float, high: float, *, field: str, unit: str = "") -> float:
    """Return ``value`` when it is finite, at least ``low`` and at most ``high``.

    Args:
        value: Number from the wire; NaN and infinities are refused whatever the range.
        low: Least value.
        high: Greatest value; ``math.inf`` = any finite number.
        field: Path on the wire.
        unit: Put behind the range in the message.
    """
    if math.isfinite(value) and low <= value <= high:
        return value
    most = "" if math.isinf(high) else f" and at most {high:g}"
    got = "not a finite number" if not math.isfinite(value) else "out of range"
    msg = f"is {got}; must be at least {low:g}{most}{f' {unit}' if unit else ''}"
    raise InvalidRequest(msg, field=field)
