"""A JSON Schema (draft 2020-12) that is safe to evaluate on the event loop.

Evaluation is native code that can neither be interrupted nor survive endless recursion, so what
it may cost is worked out before it starts: from the schema alone when it is compiled, from the
schema with the size of the answer when it is used. Patterns match in linear time (Rust's
``regex``), ``format`` is an annotation only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from slow_tier.schema_cost import MAX_ANSWER_DEPTH, MAX_STEPS, costs_by_depth

_PATTERN_KEYWORDS = ("pattern", "patternProperties")
# A compiled pattern's bytes bound its states, which each character of a text may visit: the
# slowest found takes 8 us a character, as long as this many steps. Unicode classes still fit.
_PATTERN_BYTES = 65_536
_STEPS_A_CHARACTER = 50
_STEPS_A_VALUE = 20  # to count it, convert it, hash it for ``uniqueItems``
# Words that an error may repeat; every other part of a path was chosen by a caller.
_KEYWORDS = frozenset(
    # A list would take a line a word.
    "$anchor $defs $dynamicAnchor $dynamicRef $id $ref $schema additionalProperties"  # noqa: SIM905
    " allOf anyOf"
    " contains dependentRequired dependentSchemas else enum exclusiveMaximum exclusiveMinimum if"
    " items maxContains maxItems maxLength maxProperties maximum minContains minItems minLength"
    " minProperties minimum multipleOf not oneOf pattern patternProperties prefixItems properties"
    " propertyNames required then type unevaluatedItems unevaluatedProperties uniqueItems".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Where a value breaks a schema.

    Attributes:
        keyword: The schema's keyword that failed.
        path: Keys and indices from the top of the value.
    """

    keyword: str
    path: tuple[str | int, ...]


class JsonSchema:
    """A compiled schema.

    Args:
        document: The schema; kept, so never to be changed.

    Raises:
        ValueError: If it is not valid, refers outside itself, to itself without end, costs too
            much to evaluate or holds a pattern that no linear-time engine takes; the message
            repeats keywords only.
    """

    __slots__ = ("_costs", "_has_pattern", "_validator", "document")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        # Both would change how the rest is read: its rules, what "#" means.
        schema = {key: document[key] for key in document if key not in {"$schema", "$id"}}
        _check_form(schema)
        self._costs = costs_by_depth(schema)
        self._validator = _compiled(schema)
        self._has_pattern = any(
            keyword in item
            for item in _walk(schema)
            if isinstance(item, dict)
            for keyword in _PATTERN_KEYWORDS
        )

    def violation(self, value: Any) -> Violation | None:
        """Return where a JSON value breaks the schema, None when it satisfies it.

        Raises:
            ValueError: If the value is too large or too deep to be held against the schema.
        """
        if not self._affordable(value):
            msg = "too large or too deep to be held against its schema"
            raise ValueError(msg)
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return Violation(keyword=error.kind.name, path=tuple(error.instance_path))
        return None

    def _affordable(self, value: Any) -> bool:
        values = characters = 0
        level = [value]
        for depth in range(MAX_ANSWER_DEPTH + 1):
            values += len(level)
            if self._has_pattern:
                characters += sum(_characters(item) for item in level)
            # The last cost is that of every greater depth.
            cost = self._costs[min(depth, len(self._costs) - 1)]
            steps = values * (cost + _STEPS_A_VALUE) + characters * cost * _STEPS_A_CHARACTER
            if steps > MAX_STEPS:
                return False
            level = [child for item in level for child in _children(item)]
            if not level:
                return True
        return False


def _check_form(schema: dict[str, Any]) -> None:
    try:
        jsonschema_rs.meta.validate(schema)
    except ValueError as error:
        raise _invalid(error) from None


def _compiled(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(
            schema,
            offline=True,
            validate_formats=False,
            mask="(value)",
            pattern_options=jsonschema_rs.RegexOptions(
                size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES
            ),
        )
    except ValueError as error:
        raise _invalid(error) from None


def _invalid(error: ValueError) -> ValueError:
    """Say it without the library's words, which quote the schema that a caller wrote."""
    path = error.instance_path if isinstance(error, jsonschema_rs.ValidationError) else ()
    known = [part for part in path if part in _KEYWORDS]
    where = f" at keyword {known[-1]!r}" if known else ""
    if known and known[-1] in _PATTERN_KEYWORDS:
        where += ": a pattern may hold no look-around and no back reference, nor be too large"
    return ValueError(f"is not a valid JSON Schema (draft 2020-12){where}")


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _characters(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(len, value))
    return len(value) if isinstance(value, str) else 0


def _walk(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        item = pending.pop()
        yield item
        pending.extend(_children(item))
