"""Whatever a client sends converts or ends in a RequestError, never in anything else."""

import contextlib
import json
from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from router.config import LimitsConfig
from router.errors import RequestError
from router.v1 import router_pb2 as pb
from router.wire_in import request_from_decide, request_from_route

CALL: dict[str, Any] = {
    "tenant": "acme",
    "deadline_s": 1.0,
    "limits": LimitsConfig(prompt_bytes=100, output_tokens=50),
}

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON_TEXT = st.one_of(
    ANY_TEXT,
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | ANY_TEXT,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "$ref", "$id", "pattern", "items", "not"]) | ANY_TEXT,
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    ).map(json.dumps),
)
QUESTIONS = st.builds(
    pb.Question, instructions=ANY_TEXT, score=st.builds(pb.Score, criteria=st.lists(ANY_TEXT))
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "prompt": ANY_TEXT,
        "messages": st.lists(
            st.builds(pb.Message, role=st.integers(-1, 5), content=ANY_TEXT), max_size=3
        ),
        "state": st.builds(pb.State, text=ANY_TEXT) | st.builds(pb.State, json=JSON_TEXT),
        "questions": st.dictionaries(ANY_TEXT, QUESTIONS, max_size=2),
        "tools": st.builds(
            pb.ToolSet,
            tools=st.lists(
                st.builds(pb.Tool, name=st.just("t") | ANY_TEXT, parameters_json_schema=JSON_TEXT),
                max_size=2,
            ),
        ),
        "labels": st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2),
        "budget": st.builds(pb.Budget, max_cost_usd=st.floats(), min_quality=st.floats()),
        "response_schema": JSON_TEXT,
        "temperature": st.floats(),
        "max_output_tokens": st.integers(0, 2**32 - 1),
        "cache_control": st.builds(pb.CacheControl, mode=st.integers(-1, 5), ttl_s=st.floats()),
    },
)


@settings(max_examples=150, deadline=None)
@given(REQUESTS)
def test_any_field_values_convert_or_raise_a_request_error(fields: dict[str, Any]) -> None:
    shared = {
        name: fields[name] for name in fields if name in pb.RouteRequest.DESCRIPTOR.fields_by_name
    }
    for convert, message in (
        (request_from_route, pb.RouteRequest(**shared)),
        (request_from_decide, pb.DecideRequest(**fields)),
    ):
        with contextlib.suppress(RequestError):
            request = convert(message, **CALL)
            assert bool(request.messages) != (request.state is not None)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_that_parse_convert_or_raise_a_request_error(raw: bytes) -> None:
    with contextlib.suppress(RequestError, DecodeError):
        message = pb.DecideRequest.FromString(raw)
        request = request_from_decide(message, **CALL)
        assert bool(request.messages) != (request.state is not None)
