"""Equal requests share a key; different ones never do."""

import json
import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.entry import MAX_NESTING, CacheEntry, Namespace, canonical_text, request_key
from cache.errors import EntryError, NamespaceError, RequestError

FIELDS = (
    "tenant",
    "encoder_revision",
    "system_prompt",
    "question_schema",
    "answer_settings",
    "tool_set",
    "model_revisions",
    "variant",
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def namespace(**fields: str) -> Namespace:
    return Namespace(**(dict.fromkeys(FIELDS, "") | {"tenant": "acme"} | fields))


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(list(value))}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_of_a_namespace_separates_it_from_others(field: str) -> None:
    assert namespace(**{field: "x"}).digest != namespace().digest
    assert namespace(**{field: "x"}).digest == namespace(**{field: "x"}).digest


def test_a_namespace_does_not_collide_when_text_moves_from_one_field_to_the_next() -> None:
    assert (
        namespace(system_prompt="ab", question_schema="c").digest
        != namespace(system_prompt="a", question_schema="bc").digest
    )
    assert (
        namespace(system_prompt='a","b').digest
        != namespace(system_prompt="a", question_schema="b").digest
    )


def test_a_namespace_needs_a_tenant() -> None:
    with pytest.raises(NamespaceError, match="tenant must not be empty"):
        namespace(tenant="")


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_the_key_ignores_the_order_of_keys_and_a_json_round_trip(request_) -> None:
    try:
        key = request_key(namespace(), request_)
    except RequestError:  # two keys that only NFC makes equal
        return
    assert key == request_key(namespace(), reversed_keys(request_))
    assert key == request_key(namespace(), json.loads(json.dumps(request_)))


@given(JSON, JSON)
def test_different_requests_have_different_keys(a, b) -> None:
    try:
        keys = [request_key(namespace(), {"state": value}) for value in (a, b)]
    except RequestError:
        return
    forms = [
        unicodedata.normalize("NFC", json.dumps(v, sort_keys=True, ensure_ascii=False))
        for v in (a, b)
    ]
    assert (keys[0] == keys[1]) == (forms[0] == forms[1])


def test_the_key_is_the_same_for_composed_and_decomposed_letters() -> None:
    assert request_key(namespace(), {"prompt": "caf\u00e9"}) == request_key(
        namespace(), {"prompt": "cafe\u0301"}
    )


def test_the_key_differs_between_namespaces_and_between_true_and_one() -> None:
    request = {"prompt": "hello"}
    assert request_key(namespace(), request) != request_key(namespace(tenant="other"), request)
    assert request_key(namespace(), {"n": True}) != request_key(namespace(), {"n": 1})
    assert request_key(namespace(), {"n": None}) != request_key(namespace(), {})


def test_the_key_of_a_lone_surrogate_exists_and_differs_from_its_escape() -> None:
    assert request_key(namespace(), {"p": "\ud800"}) != request_key(namespace(), {"p": "\\ud800"})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "'state' holds a number that is not finite"),
        ([1, math.inf], "'state' holds a number that is not finite"),
        ({1: "secret"}, "'state' has a key of type int, not str"),
        ({"\u00e9": 1, "e\u0301": 2}, "'state' has two keys that are equal in Unicode NFC"),
        (b"secret", "'state' holds a bytes, which is not JSON"),
        ({"secret": {1, 2}}, "'state' holds a set, which is not JSON"),
    ],
)
def test_a_value_without_canonical_json_is_refused_by_field_and_never_quoted(
    value, message
) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        request_key(namespace(), {"state": value})
    assert "secret" not in str(caught.value)


def test_nesting_is_bounded_before_the_interpreter_stack_is() -> None:
    value: list = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(RequestError, match=f"deeper than {MAX_NESTING} levels"):
        request_key(namespace(), {"state": value})


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  What   is\tthe\u00a0capital of France? \n", "What is the capital of France?"),
        ("What's  new", "What's new"),
        ("cafe\u0301", "caf\u00e9"),
        # Two spaces inside a string literal, or anything like code, are part of the question.
        ("len('a  b')", "len('a  b')"),
        ('split "a  b"', 'split "a  b"'),
        ("x  = 1", "x  = 1"),
        # The first line's indentation says how the lines nest.
        ("\r\n \r\n    x\r\n    y  \r\n", "    x\n    y"),
        ("a\n\n\n  b", "a\n\n\n  b"),
        (" \n\t ", ""),
    ],
)
def test_white_space_collapses_in_prose_only(text: str, canonical: str) -> None:
    assert canonical_text(text) == canonical


@given(st.text(alphabet=st.sampled_from("aé\u0301 \t\n\r\u00a0'\"={1.?\u2028\x0b\x1c")))
def test_canonical_text_is_idempotent_and_touches_white_space_only(text: str) -> None:
    once = canonical_text(text)
    assert canonical_text(once) == once
    assert "".join(once.split()) == "".join(unicodedata.normalize("NFC", text).split())


@pytest.mark.parametrize("expires_at_s", [10.0, 9.0, math.inf, math.nan])
def test_an_entry_that_never_or_already_expired_is_refused(expires_at_s: float) -> None:
    with pytest.raises(EntryError, match="expires_at_s must be finite and after"):
        CacheEntry(
            key="k",
            namespace=namespace(),
            text="",
            payload=b"",
            decision_id="",
            model_revision="",
            created_at_s=10.0,
            expires_at_s=expires_at_s,
        )
