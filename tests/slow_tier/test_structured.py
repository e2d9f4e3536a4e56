"""Generated JSON is strict, matches its schema, and is checked within bounds."""

import pytest

from slow_tier.errors import InvalidAnswer
from slow_tier.json_schema import JsonSchema
from slow_tier.structured import (
    MAX_REPAIR_BRACKETS,
    MAX_REPAIR_CHARACTERS,
    check_json,
    load_json,
    repair_json,
)


@pytest.mark.parametrize("text", ["NaN", '{"a": Infinity}', "", "{", "[" * 100_000, "1" * 5000])
def test_what_is_not_strict_json_is_invalid(text):
    with pytest.raises(InvalidAnswer, match="upstream 'u': answer is not JSON") as raised:
        load_json(text, upstream="u")
    assert raised.value.__suppress_context__


def test_json_is_returned_as_it_was_written():
    text = ' {"b":1, "a" : 2.50} '
    assert repair_json(text, upstream="u") == text


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        ('```json\n{"a": 1,}\n```', '{"a": 1}'),
        ('Here it is: {"a": "é"} Enjoy!', '{"a": "é"}'),
        ("{'a': True}", '{"a": true}'),
    ],
)
def test_common_slips_are_mended(broken, mended):
    assert repair_json(broken, upstream="u") == mended


def test_a_long_answer_loses_its_code_fence_though_it_is_too_long_to_mend():
    long = '{"a": "' + "x" * 100_000 + '"}'
    assert repair_json(f"```json\n{long}\n```", upstream="u") == long
    with pytest.raises(InvalidAnswer):
        repair_json(long[:-1], upstream="u")


def test_slips_are_mended_only_within_the_bounds_that_keep_the_event_loop_free():
    def cut(characters):
        return '{"a": "' + "x" * (characters - 8) + '"'

    def nested(brackets):
        return '{"a": ' + "[" * (brackets - 1) + "1"

    for within, beyond in (
        (cut(MAX_REPAIR_CHARACTERS), cut(MAX_REPAIR_CHARACTERS + 1)),
        (nested(MAX_REPAIR_BRACKETS), nested(MAX_REPAIR_BRACKETS + 1)),
    ):
        assert repair_json(within, upstream="u").endswith("}")
        with pytest.raises(InvalidAnswer, match="not JSON"):
            repair_json(beyond, upstream="u")


def test_a_short_answer_without_its_last_bracket_is_mended():
    assert repair_json('{"a": [1, 2', upstream="u") == '{"a": [1, 2]}'


@pytest.mark.parametrize("prose", ["I cannot do that.", "", "{}{"])
def test_prose_never_becomes_an_empty_answer(prose):
    with pytest.raises(InvalidAnswer):
        repair_json(prose, upstream="u")


def test_a_broken_schema_is_named_by_keyword_and_property():
    schema = JsonSchema({"properties": {"n": {"type": "integer"}}, "required": ["n"]})
    for text, keyword in (('{"n": "x"}', "type"), ("{}", "required")):
        with pytest.raises(InvalidAnswer, match=f"answer violates '{keyword}'") as raised:
            check_json(text, schema, upstream="u")
        assert raised.value.field == "n"


def test_an_answer_too_costly_to_check_is_invalid():
    schema = JsonSchema({"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}})
    with pytest.raises(InvalidAnswer, match="answer is too large or too deep"):
        check_json("[" * 40 + "]" * 40, schema, upstream="u")


def test_a_key_that_the_model_made_up_is_not_named():
    schema = JsonSchema({"additionalProperties": {"type": "integer"}})
    with pytest.raises(InvalidAnswer) as raised:
        check_json('{"secret": "x"}', schema, upstream="u")
    assert raised.value.field is None
    assert "secret" not in str(raised.value)
