"""A compiled schema is valid, self-contained and bounded in what it costs to evaluate."""

import pytest

from slow_tier.json_schema import JsonSchema, Violation
from slow_tier.schema_cost import MAX_ANSWER_DEPTH, MAX_CHAIN, MAX_STEPS, costs_by_depth


def chain(length):
    """A schema in which ``length`` subschemas after the first apply to one value."""
    links = {f"s{i}": {"$ref": f"#/$defs/s{i + 1}"} for i in range(length)}
    return {"$ref": "#/$defs/s0", "$defs": {**links, f"s{length}": {}}}


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def unevaluated(levels):
    schema = {"type": "object"}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"$ref": "#"}, "refers to itself without end"),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "refers to itself without end"),
        (
            {"$ref": "#/properties/a/enum/0", "properties": {"a": {"enum": [{}]}}},
            "does not resolve",
        ),
        ({"properties": {"a": {"$ref": "#none"}}}, "does not resolve"),
        ({"items": {"$id": "x", "$ref": "#"}}, "below its top"),
        ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, "two subschemas"),
        (chain(MAX_CHAIN), "in a chain"),
        (unevaluated(20), "costs too much"),
    ],
)
def test_what_cannot_be_evaluated_safely_is_refused(document, words):
    with pytest.raises(ValueError, match=words):
        JsonSchema(document)


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "integer"}}},
        {"$ref": "#x", "$defs": {"a": {"$anchor": "x", "type": "integer"}}},
        {"$id": "https://example.com/s", "$schema": "urn:old", "type": "integer"},
        {"allOf": [True, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "integer"}}},
    ],
)
def test_references_and_names_of_a_schema_keep_their_meaning(document):
    schema = JsonSchema(document)
    assert schema.document is document
    assert schema.violation(1) is None
    assert schema.violation("x") == Violation(keyword="type", path=())


def test_the_costs_of_small_schemas_are_those_worked_out_by_hand() -> None:
    """``type`` and the subschema itself are a step each; a list of two adds two."""
    leaf = {"type": "string"}
    assert costs_by_depth(leaf) == (2, 2)
    assert costs_by_depth({"allOf": [leaf, dict(leaf)]}) == (7, 7)
    # A path takes one property only, but every pattern may match it.
    assert costs_by_depth({"properties": {"a": leaf, "b": dict(leaf)}}) == (3, 5, 5)
    assert costs_by_depth({"patternProperties": {"a": leaf, "b": dict(leaf)}}) == (3, 7, 7)
    # Of one more level: 1 + (3 + 2 * (2 + c)) for the two references, which cost 2 each.
    assert costs_by_depth({"items": {"allOf": [{"$ref": "#"}] * 2}})[:3] == (1, 10, 28)


def test_recursion_along_a_list_is_cheap_at_any_depth_allowed():
    schema = JsonSchema({"items": {"$ref": "#"}})
    assert schema.violation(nested(MAX_ANSWER_DEPTH)) is None
    with pytest.raises(ValueError, match="too deep"):
        schema.violation(nested(MAX_ANSWER_DEPTH + 1))


def test_recursion_that_doubles_a_level_is_refused_before_it_runs():
    schema = JsonSchema({"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}})
    assert schema.violation(nested(5)) is None
    with pytest.raises(ValueError, match="too large or too deep"):
        schema.violation(nested(60))


def test_many_values_against_many_alternatives_are_refused():
    schema = JsonSchema({"items": {"enum": [[i] for i in range(900)]}})
    assert schema.violation([[899]] * 10) is None
    with pytest.raises(ValueError, match="too large"):
        schema.violation([[899]] * (MAX_STEPS // 900))


def test_a_pattern_that_backtracks_for_ever_elsewhere_is_answered():
    schema = JsonSchema({"pattern": "^(a+)+$"})
    assert schema.violation("a" * 5_000) is None
    assert schema.violation("a" * 5_000 + "b") == Violation(keyword="pattern", path=())
    with pytest.raises(ValueError, match="too large"):
        schema.violation("a" * MAX_STEPS)


def test_a_format_is_a_note_to_the_model_only():
    assert JsonSchema({"format": "email"}).violation("not an address") is None
