"""JSON Schemas are checked within bounds and refer to nothing outside themselves."""

import json

import pytest

from router.errors import InvalidRequest, RequestUnsatisfiable
from router.json_schema import (
    MAX_DEPTH,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_VALUES,
    parse_document,
    parse_schema,
)


def nested(depth: int) -> str:
    """A schema of ``depth`` objects in each other around an empty one."""
    return '{"not":' * depth + '{"type": "null"}' + "}" * depth


def test_counts_every_value_of_a_schema() -> None:
    """The object, its two members and the two entries of the list."""
    assert parse_schema('{"type": "object", "required": ["a", "b"]}', field="s").values == 5


def doubling_references(levels: int) -> str:
    """A schema of about 30 bytes a level that is evaluated 2 ** levels times."""
    schemas = {
        f"s{level}": {"allOf": [{"$ref": f"#/$defs/s{level + 1}"}] * 2} for level in range(levels)
    }
    return json.dumps({"$ref": "#/$defs/s0", "$defs": {**schemas, f"s{levels}": {}}})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1", "a JSON object"),
        ("[]", "a JSON object"),
        ('{"type": "strnig"}', "keyword 'type'"),
        ('{"pattern": "("}', "keyword 'pattern'"),
        ('{"pattern": "a{99999999999999}"}', "nor be too large"),
        ('{"pattern": "(?=a)"}', "no look-around"),
        (r'{"patternProperties": {"(a)\\1": {}}}', "no back reference"),
        (doubling_references(30), "costs too much: more than 10000 steps"),
        ('{"$ref": "https://example.com/schema"}', "another document"),
        ('{"items": {"$ref": "other.json#/a"}}', "another document"),
        ('{"$ref": "#/$defs/missing"}', "does not resolve"),
        ('{"$id": "http://[", "$ref": "#a"}', "does not resolve"),
        ('{"minimum": Infinity}', "infinity"),
        ('{"minimum": 1e999}', "too large"),
        ('{"minimum": ' + "1" * 5000 + "}", "too many digits"),
        (r'{"const": "\udc00"}', "lone surrogate"),
        ('{"const": "' + "x" * MAX_SCHEMA_BYTES + '"}', f"at most {MAX_SCHEMA_BYTES}"),
        (json.dumps({"enum": list(range(MAX_SCHEMA_VALUES))}), f"at most {MAX_SCHEMA_VALUES}"),
        (nested(MAX_DEPTH), f"deeper than {MAX_DEPTH}"),
        ("[" * 20_000, f"deeper than {MAX_DEPTH}"),
    ],
)
def test_refuses_what_is_no_schema_of_reasonable_size(text: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        parse_schema(text, field="tool")
    assert caught.value.field == "tool"


@pytest.mark.parametrize("text", ["false", '{"not": {}}', '{"not": true}', '{"enum": []}'])
def test_recognises_the_plain_ways_to_ask_for_nothing(text: str) -> None:
    with pytest.raises(RequestUnsatisfiable, match="s: is a schema that no value satisfies"):
        parse_schema(text, field="s")


def test_accepts_references_into_itself() -> None:
    by_pointer = '{"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}}'
    by_anchor = '{"$ref": "#here", "$defs": {"x": {"$anchor": "here"}}}'
    recursive = '{"properties": {"next": {"$ref": "#"}}}'
    for text in (by_pointer, by_anchor, recursive):
        assert parse_schema(text, field="s").compiled.document == json.loads(text)


def test_a_property_may_be_called_like_a_keyword() -> None:
    text = '{"properties": {"$ref": {"type": "string"}, "enum": {"type": "string"}}}'
    assert parse_schema(text, field="s").compiled.document == json.loads(text)


def test_the_same_schema_twice_is_checked_once_and_each_field_is_named() -> None:
    assert parse_schema("{}", field="a").compiled is parse_schema("{}", field="b").compiled
    for field in ("a", "b"):
        with pytest.raises(InvalidRequest) as caught:
            parse_schema("[]", field=field)
        assert caught.value.field == field


def test_a_document_of_the_greatest_depth_is_accepted() -> None:
    assert parse_document("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), field="s")
    with pytest.raises(InvalidRequest, match="deeper"):
        parse_document("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), field="s")


def test_a_pair_of_escapes_that_forms_one_character_is_no_lone_surrogate() -> None:
    assert parse_document(r'["\ud83d\ude00"]', field="s") == ["\N{GRINNING FACE}"]
