"""Bound what the evaluation of a JSON Schema (draft 2020-12) can cost.

The unit is a step: one JSON value of the schema looked at for one value of an answer, about 20 ns.
For an answer of depth d, ``cost(root, d)`` bounds the steps for all the values along any one path
from its top to a leaf, so ``cost(root, d)`` times the number of values bounds the whole::

    cost(s, d) = own values of s + k * (sum over s' applied to the same value of cost(s', d)
                                        + sum over s' applied to its children of cost(s', d - 1))

with the greatest instead of the sum over ``properties`` (likewise ``prefixItems``), since a path
takes one of them; k is 1, or 4 beside ``unevaluated*``, whose evaluation repeats that of its
neighbours (jsonschema-rs 0.61: up to 4 times the time a level).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

MAX_STEPS = 5_000_000  # 0.1 s, during which the event loop stands still
MAX_EXPANDED = 10_000
MAX_CHAIN = 64
MAX_ANSWER_DEPTH = 64

_SAME = ("not", "if", "then", "else")
_SAME_EACH = ("allOf", "anyOf", "oneOf")
_SAME_MAP = ("dependentSchemas", "dependencies")
_CHILD = (
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_DEFINITIONS = ("$defs", "definitions")
_CONTAINERS = {
    *_SAME_EACH,
    *_SAME_MAP,
    *_DEFINITIONS,
    "properties",
    "patternProperties",
    "prefixItems",
}
_REFERENCES = ("$ref", "$dynamicRef")
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")


@dataclass(slots=True, kw_only=True)
class _Node:
    """A subschema; the lists hold ids of the subschemas it applies."""

    own: int
    factor: int
    same: list[int] = field(default_factory=list)
    child: list[int] = field(default_factory=list)
    one_of_properties: list[int] = field(default_factory=list)
    one_of_items: list[int] = field(default_factory=list)


def costs_by_depth(schema: dict[str, Any]) -> tuple[int, ...]:
    """Return the cost of the schema by depth of the answer, steps.

    Args:
        schema: Valid by the meta-schema, without ``$id`` or ``$schema`` at its top.

    Returns:
        Costs for the depths 0, 1, and so on; the last one is that of every greater depth.

    Raises:
        ValueError: If a reference leads nowhere or nowhere else, or if what applies to one
            value alone is over ``MAX_EXPANDED`` steps or ``MAX_CHAIN`` subschemas deep.
    """
    nodes = _graph(schema)
    order = _inner_first(nodes)
    costs = dict.fromkeys(nodes, 0)
    by_depth: list[int] = []
    for depth in range(MAX_ANSWER_DEPTH + 1):
        outer = _one_level(nodes, order, costs if depth else {})
        if not depth and max(outer.values()) > MAX_EXPANDED:
            msg = f"costs too much: more than {MAX_EXPANDED} steps a value, references expanded"
            raise ValueError(msg)
        by_depth.append(outer[id(schema)])
        if outer == costs or by_depth[-1] > MAX_STEPS:
            break
        costs = outer
    return tuple(by_depth)


def _one_level(nodes: dict[int, _Node], order: list[int], inner: dict[int, int]) -> dict[int, int]:
    outer: dict[int, int] = {}
    for key in order:
        node = nodes[key]
        applied = sum(outer[other] for other in node.same)
        if inner:
            applied += sum(inner[other] for other in node.child)
            applied += max((inner[other] for other in node.one_of_properties), default=0)
            applied += max((inner[other] for other in node.one_of_items), default=0)
        outer[key] = min(node.own + node.factor * applied, MAX_STEPS + 1)
    return outer


def _graph(root: dict[str, Any]) -> dict[int, _Node]:
    schemas: dict[int, dict[str, Any]] = {id(root): root}
    anchors: dict[str, Any] = {}
    pending = [root]
    while pending:
        schema = pending.pop()
        if schema is not root and ("$id" in schema or "$schema" in schema):
            msg = "holds '$id' or '$schema' below its top"
            raise ValueError(msg)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if keyword in schema and anchors.setdefault(schema[keyword], schema) is not schema:
                msg = f"gives one {keyword!r} to two subschemas"
                raise ValueError(msg)
        for keyword in (*_SAME, *_CHILD, *_CONTAINERS):
            for inner in _subschemas(schema, keyword):
                if id(inner) not in schemas:
                    schemas[id(inner)] = inner
                    pending.append(inner)
    return {key: _node(schema, root, schemas, anchors) for key, schema in schemas.items()}


def _node(
    schema: dict[str, Any],
    root: dict[str, Any],
    schemas: dict[int, dict[str, Any]],
    anchors: dict[str, Any],
) -> _Node:
    unevaluated = any(keyword in schema for keyword in _UNEVALUATED)
    node = _Node(own=_own_values(schema), factor=4 if unevaluated else 1)
    for keyword in (*_SAME, *_SAME_EACH, *_SAME_MAP):
        node.same += map(id, _subschemas(schema, keyword))
    for keyword in (*_CHILD, "patternProperties"):
        node.child += map(id, _subschemas(schema, keyword))
    node.one_of_properties += map(id, _subschemas(schema, "properties"))
    node.one_of_items += map(id, _subschemas(schema, "prefixItems"))
    for keyword in _REFERENCES:
        if keyword in schema:
            target = _target(schema[keyword], root, anchors)
            if isinstance(target, dict) and id(target) in schemas:
                node.same.append(id(target))
            elif not isinstance(target, bool):
                msg = "holds a reference that does not resolve to a schema in it"
                raise ValueError(msg)
    return node


def _own_values(schema: dict[str, Any]) -> int:
    """Count the values of a subschema that are no subschemas."""
    count = 1
    pending: list[Any] = []
    for keyword, value in schema.items():
        if keyword in _CONTAINERS:
            count += len(value)
        elif keyword not in _SAME and keyword not in _CHILD:
            pending.append(value)
    while pending:
        value = pending.pop()
        count += 1
        if isinstance(value, dict | list):
            pending.extend(value.values() if isinstance(value, dict) else value)
    return count


def _subschemas(schema: dict[str, Any], keyword: str) -> Iterator[dict[str, Any]]:
    value = schema.get(keyword)
    if keyword not in _CONTAINERS:
        candidates = [value]
    else:
        candidates = list(value.values()) if isinstance(value, dict) else value or []
    return (candidate for candidate in candidates if isinstance(candidate, dict))


def _target(reference: str, root: dict[str, Any], anchors: dict[str, Any]) -> Any:
    if not reference.startswith("#"):
        msg = "refers to another document; only references within itself ('#...') are allowed"
        raise ValueError(msg)
    fragment = unquote(reference[1:])
    if fragment and not fragment.startswith("/"):
        return anchors.get(fragment)
    target: Any = root
    for part in fragment.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isascii() and name.isdigit():
            target = target[int(name)] if int(name) < len(target) else None
        else:
            target = target.get(name) if isinstance(target, dict) else None
    return target


def _inner_first(nodes: dict[int, _Node]) -> list[int]:
    """Order the subschemas so that what is applied to the same value comes first."""
    heights: dict[int, int] = {}
    entered: set[int] = set()

    def visit(key: int) -> int:
        if key not in heights:
            if key in entered:
                msg = "refers to itself without end"
                raise ValueError(msg)
            entered.add(key)
            inner = (visit(other) for other in nodes[key].same)
            height = 1 + max(inner, default=0) if len(entered) - len(heights) <= MAX_CHAIN else None
            if height is None or height > MAX_CHAIN:
                msg = f"applies more than {MAX_CHAIN} subschemas in a chain to one value"
                raise ValueError(msg)
            heights[key] = height
        return heights[key]

    for key in nodes:
        visit(key)
    return list(heights)
