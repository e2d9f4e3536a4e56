"""Read a JSON array or JSONL file of objects whose every mistake is named by its row.

Rows are checked one by one, so that a mistake in one hides none in the next.
"""

from __future__ import annotations

import codecs
import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from router.training.row_problems import Place, Placed, Problems

RowT = TypeVar("RowT")

MAX_FILE_BYTES = 1 << 30
_SHOWN_KEY_CHARACTERS = 40
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TYPE_WORDS = {
    "string_type": "must be text",
    # Of a key: in a text, the field's own check comes first.
    "string_unicode": "has a key with a lone surrogate, which is no character",
    "float_type": "must be a number",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "dataclass_type": "must be an object",
}


def read_placed(path: Path, kind: type[RowT], problems: Problems) -> list[Placed[RowT]]:
    """Return the valid rows of a file, in order, and note what is wrong with the others.

    Args:
        path: A JSON array of objects, or one JSON object a line (blank lines are skipped);
            UTF-8 without byte order mark, at most 1 GiB.
        kind: Pydantic dataclass of a row, which forbids further fields.
        problems: Gets the mistakes.
    """
    adapter = TypeAdapter(kind)
    known = list(getattr(kind, "__dataclass_fields__", ()))
    placed: list[Placed[RowT]] = []
    found = False
    for place, value in _objects(path, problems):
        found = True
        if not isinstance(value, dict):
            if value is not _UNREADABLE:
                problems.add(place, "must be a JSON object")
            continue
        try:
            placed.append(Placed(place=place, row=adapter.validate_python(value)))
        except ValidationError as error:
            for field, text in _mistakes(error, known):
                problems.add(place, text, field=field)
    if not found:
        problems.add(Place(file=path), "holds no rows")
    return placed


_UNREADABLE = object()
_SPACE = re.compile(r"[ \t\r\n]*")


def _objects(path: Path, problems: Problems) -> Iterator[tuple[Place, Any]]:
    """Yield every row; `_UNREADABLE` where a mistake was noted already."""
    whole = Place(file=path)
    try:
        size_bytes = path.stat().st_size
        content = path.read_bytes() if size_bytes <= MAX_FILE_BYTES else b""
    except OSError as error:
        problems.add(whole, f"cannot be read: {error.strerror}")
        yield whole, _UNREADABLE
        return
    if size_bytes > MAX_FILE_BYTES:
        problems.add(whole, f"is larger than {MAX_FILE_BYTES} bytes")
        yield whole, _UNREADABLE
    elif content.startswith(_BYTE_ORDER_MARKS):
        problems.add(whole, "starts with a byte order mark; save it as UTF-8 without one")
        yield whole, _UNREADABLE
    elif content.lstrip()[:1] == b"[":
        yield from _array(content, whole, problems)
    else:
        # Only this byte ends a line of JSONL; U+2028 may stand inside a JSON string.
        for number, line in enumerate(content.split(b"\n"), start=1):
            if line.strip():
                place = Place(file=path, row=f"line {number}")
                yield place, _value_of_line(line, place, problems)


def _value_of_line(line: bytes, place: Place, problems: Problems) -> Any:
    text = _text(line, place, problems)
    if text is None:
        return _UNREADABLE
    start = _space_end(text, 0)
    value, end = _value(text, start, place, problems)
    if value is not _UNREADABLE and _space_end(text, end) < len(text):
        problems.add(place, f"is not JSON: more text after the object, at column {end + 1}")
        return _UNREADABLE
    return value


def _array(content: bytes, whole: Place, problems: Problems) -> Iterator[tuple[Place, Any]]:
    text = _text(content, whole, problems)
    if text is None:
        yield whole, _UNREADABLE
        return
    position = _space_end(text, text.index("[") + 1)
    index = 0
    closed = text.startswith("]", position)
    while not closed:
        place = Place(file=whole.file, row=f"index {index}")
        value, end = _value(text, position, place, problems)
        yield place, value
        if end < 0:
            return  # no telling where the next row starts
        position = _space_end(text, end)
        closed = text.startswith("]", position)
        if not closed and not text.startswith(",", position):
            problems.add(place, f"is not JSON: no comma or ] after it, at {_line(text, position)}")
            return
        if not closed:
            position = _space_end(text, position + 1)
        index += 1
    position = _space_end(text, position + 1)
    if position < len(text):
        problems.add(whole, f"is not JSON: more text after the array, at {_line(text, position)}")


def _text(content: bytes, place: Place, problems: Problems) -> str | None:
    """Decode, or note why not."""
    if b"\0" in content:
        fault, offset = "holds a NUL byte", content.index(b"\0")
    else:
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            fault, offset = "is not valid UTF-8", error.start
    line = content.count(b"\n", 0, offset) + 1
    problems.add(place, fault if place.row else f"{fault} at line {line}")
    return None


def _value(text: str, start: int, place: Place, problems: Problems) -> tuple[Any, int]:
    """Parse the value at ``start``; return it with its end, -1 where the end is unknown."""
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # Python would silently keep the last of two.
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.extend(key for key in found if keys.count(key) > 1)
        return found

    try:
        value, end = json.JSONDecoder(object_pairs_hook=unique).raw_decode(text, start)
    except json.JSONDecodeError as error:
        problems.add(place, f"is not JSON: {error.msg} at {_line(text, error.pos)}")
    except RecursionError:
        problems.add(place, "is nested too deeply")
    except ValueError:
        problems.add(place, "is not JSON: holds an integer with too many digits")
    else:
        for key in twice:
            problems.add(place, "stands twice in one object", field=_shown(key))
        return _UNREADABLE if twice else value, end
    return _UNREADABLE, -1


def _space_end(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _line(text: str, position: int) -> str:
    """Return a position in words; the text of a JSONL row has one line only."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line} column {column}" if "\n" in text else f"column {column}"


def _mistakes(error: ValidationError, known: list[str]) -> Iterator[tuple[str, str]]:
    """Yield field and text of every mistake in a row."""
    for detail in error.errors(include_url=False, include_input=False):
        field = ".".join(_shown(part) for part in detail["loc"])
        yield field, _words(detail, known)


def _words(detail: ErrorDetails, known: list[str]) -> str:
    kind = detail["type"]
    if kind == "missing":
        return "is missing"
    if kind == "unexpected_keyword_argument":
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
        return f"is no known field; {hint}" if len(detail["loc"]) == 1 else "is no known field"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    return _TYPE_WORDS.get(kind, detail["msg"])


def _shown(part: object) -> str:
    """Return a key of the file as a short, printable word."""
    text = str(part)
    if len(text) > _SHOWN_KEY_CHARACTERS:
        text = text[:_SHOWN_KEY_CHARACTERS] + "..."
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]
