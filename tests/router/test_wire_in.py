"""Requests from the wire are converted whole or refused with field, limit and size."""

import math
from typing import Any

import pytest

from router.config import LimitsConfig
from router.domain import (
    Budget,
    CacheControl,
    CacheMode,
    Message,
    QuestionType,
    Request,
    Role,
    State,
)
from router.errors import InvalidRequest, RequestUnsatisfiable
from router.v1 import router_pb2 as pb
from router.wire_in import (
    report_from_record_outcome,
    request_from_decide,
    request_from_route,
    request_from_stream,
)

LIMITS = LimitsConfig(prompt_bytes=100, output_tokens=50)
NOUL = pb.Question(instructions="Is it spam?", noul=pb.Noul())


def route(**fields: Any) -> Request:
    return request_from_route(
        pb.RouteRequest(**fields), tenant="acme", deadline_s=12.5, limits=LIMITS
    )


def decide(**fields: Any) -> Request:
    return request_from_decide(
        pb.DecideRequest(**fields), tenant="acme", deadline_s=12.5, limits=LIMITS
    )


def refused(convert: Any, field: str, *words: str, **fields: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        convert(**fields)
    assert caught.value.field == field
    for word in words:
        assert word in str(caught.value)


def question(**fields: Any) -> dict[str, Any]:
    return {
        "state": pb.State(text="Dear friend"),
        "questions": {"q": pb.Question(**({"instructions": "Judge."} | fields))},
    }


def options(*labels: str) -> pb.Choice:
    return pb.Choice(options=[pb.Option(label=label) for label in labels])


def test_a_prompt_becomes_one_user_message() -> None:
    request = route(prompt="What is 6 times 7?")
    assert request == Request(
        tenant="acme",
        deadline_s=12.5,
        messages=(Message(role=Role.USER, content="What is 6 times 7?"),),
    )


def test_every_field_of_a_decide_request_arrives() -> None:
    request = decide(
        messages=[
            pb.Message(role=pb.ROLE_SYSTEM, content="Be brief."),
            pb.Message(role=pb.ROLE_USER, content="Weather?"),
            pb.Message(role=pb.ROLE_ASSISTANT, content=""),
            pb.Message(role=pb.ROLE_TOOL, content="rain"),
        ],
        tools=pb.ToolSet(
            tools=[
                pb.Tool(
                    name="get.weather-1",
                    description="Weather",
                    parameters_json_schema='{"type": "object"}',
                )
            ]
        ),
        unit_key="user-7",
        labels={"b": "2", "a": "1"},
        decision_key="order-9",
        budget=pb.Budget(max_cost_usd=0.0, min_quality=1.0),
        response_schema='{"type": "string"}',
        max_output_tokens=50,
        temperature=2.0,
        cache_control=pb.CacheControl(mode=pb.CACHE_MODE_BYPASS, ttl_s=1.5, cacheable=True),
    )
    assert [message.role for message in request.messages] == [
        Role.SYSTEM,
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
    ]
    assert request.tools is not None
    assert request.tools[0].parameters == {"type": "object"}
    assert request.unit_key == "user-7"
    assert list(request.labels.items()) == [("a", "1"), ("b", "2")]
    assert request.decision_key == "order-9"
    assert request.budget == Budget(max_cost_usd=0.0, min_quality=1.0)
    assert request.response_schema.document == {"type": "string"}
    assert request.max_output_tokens == 50
    assert request.temperature == 2.0
    assert request.cache_control == CacheControl(mode=CacheMode.BYPASS, ttl_s=1.5, cacheable=True)


def test_absent_numbers_stay_absent_instead_of_becoming_zero() -> None:
    request = decide(prompt="Hello", budget=pb.Budget())
    assert request.budget == Budget(max_cost_usd=None, min_quality=None)
    assert (request.max_output_tokens, request.temperature) == (None, None)
    assert request.cache_control == CacheControl()


def test_unknown_tools_differ_from_no_tools_in_route_alone() -> None:
    assert route(prompt="Hello").tools is None
    assert route(prompt="Hello", tools=pb.ToolSet()).tools == ()
    assert decide(prompt="Hello").tools == ()


def test_a_tool_without_schema_takes_no_parameters() -> None:
    request = route(prompt="Hello", tools=pb.ToolSet(tools=[pb.Tool(name="now")]))
    assert request.tools is not None
    assert request.tools[0].parameters == {"type": "object", "properties": {}}


def test_questions_are_sorted_by_id_and_keep_the_order_of_options() -> None:
    request = route(
        state=pb.State(text="Dear friend"),
        questions={
            "z": NOUL,
            "a": pb.Question(instructions="Tone?", choice=options("warm", "cold")),
            "m": pb.Question(instructions="How rude?", score=pb.Score(criteria=["no", "very"])),
        },
    )
    assert list(request.questions) == ["a", "m", "z"]
    assert request.questions["a"].options == (("warm", ""), ("cold", ""))
    assert request.questions["m"].options == (("0", "no"), ("1", "very"))
    assert request.questions["z"].type is QuestionType.NOUL


def test_a_json_state_is_kept_as_it_was_written() -> None:
    text = '{"b": 12345678901234567890, "a": 1.50}'
    assert route(state=pb.State(json=text)).state == State(text=text, is_json=True)


def test_a_prompt_of_exactly_the_limit_is_served() -> None:
    assert route(prompt="ü" * 50).messages[0].content == "ü" * 50


@pytest.mark.parametrize(
    ("field", "words", "fields"),
    [
        ("prompt", ["exactly one", "none"], {}),
        ("state", ["prompt and state"], {"prompt": "Hi", "state": pb.State(text="x")}),
        (
            "messages",
            ["prompt and messages"],
            {"prompt": "Hi", "messages": [pb.Message(role=pb.ROLE_USER, content="Hi")]},
        ),
        ("prompt", ["empty"], {"prompt": ""}),
        ("prompt", ["white space"], {"prompt": " \n\t\u2003"}),
        ("prompt", ["NUL", "position 2"], {"prompt": "Hi\0there"}),
        ("prompt", ["102 bytes", "100", "limits.prompt_bytes"], {"prompt": "ü" * 51}),
        (
            "messages",
            ["102 bytes", "limits.prompt_bytes"],
            {"messages": [pb.Message(role=pb.ROLE_USER, content="x" * 51)] * 2},
        ),
        (
            "messages",
            ["user turn"],
            {"messages": [pb.Message(role=pb.ROLE_ASSISTANT, content="Hi")]},
        ),
        (
            "messages",
            ["4097 turns", "4096"],
            {"messages": [pb.Message(role=pb.ROLE_TOOL)] * 4097},
        ),
        ("messages[0].role", ["number 0"], {"messages": [pb.Message(content="Hi")]}),
        ("messages[0].role", ["number 99"], {"messages": [pb.Message(role=99, content="Hi")]}),  # type: ignore[arg-type]
        ("messages[0].content", ["white space"], {"messages": [pb.Message(role=2, content=" ")]}),  # type: ignore[arg-type]
        ("state", ["text and json"], {"state": pb.State()}),
        ("state.text", ["empty"], {"state": pb.State(text="")}),
        ("state.json", ["not JSON", "line 2 column 1"], {"state": pb.State(json='{"a":\n}')}),
        ("state.json", ["NaN"], {"state": pb.State(json='{"a": NaN}')}),
        ("state.json", ["too large"], {"state": pb.State(json="[1e999]")}),
        ("state.json", ["object or array"], {"state": pb.State(json='"text"')}),
        ("state.json", ["lone surrogate"], {"state": pb.State(json=r'["\ud800"]')}),
        ("questions", ["with state"], {"prompt": "Hi", "questions": {"q": NOUL}}),
        ('questions["q"].instructions', ["empty"], question(instructions="", noul=pb.Noul())),
        ('questions["q"]', ["choice, score or noul"], question()),
        ('questions["q"].choice.options', ["1 options", "2 to 255"], question(choice=options("a"))),
        (
            'questions["q"].score.criteria',
            ["256 levels"],
            question(score=pb.Score(criteria=["x"] * 256)),
        ),
        ('questions["q"].choice.options[1].label', ["unique"], question(choice=options("a", "a"))),
        ('questions["q"].choice.options[0].label', ["empty"], question(choice=options("", "a"))),
        ("questions", ["at most 100"], question(instructions="x" * 101, noul=pb.Noul())),
        (
            "questions",
            ["65 questions", "64"],
            {"state": pb.State(text="x"), "questions": {str(i): NOUL for i in range(65)}},
        ),
        (
            "questions",
            ["65 characters"],
            {"state": pb.State(text="x"), "questions": {"i" * 65: NOUL}},
        ),
        ("tools.tools", ["129 tools"], {"tools": pb.ToolSet(tools=[pb.Tool(name="a")] * 129)}),
        (
            "tools.tools[0].name",
            ["1 to 64"],
            {"tools": pb.ToolSet(tools=[pb.Tool(name="get weather")])},
        ),
        (
            "tools.tools[1].name",
            ["unique"],
            {"tools": pb.ToolSet(tools=[pb.Tool(name="a"), pb.Tool(name="a")])},
        ),
        (
            "tools.tools[0].parameters_json_schema",
            ["keyword 'type'"],
            {
                "tools": pb.ToolSet(
                    tools=[pb.Tool(name="a", parameters_json_schema='{"type": "strnig"}')]
                )
            },
        ),
        ("unit_key", ["257 bytes", "256"], {"unit_key": "u" * 257}),
        ("decision_key", ["258 bytes", "256"], {"decision_key": "ü" * 129}),
        ("decision_key", ["NUL"], {"decision_key": "a\0"}),
        ("labels", ["17 labels"], {"labels": {str(i): "" for i in range(17)}}),
        ("labels", ["65 bytes"], {"labels": {"k" * 65: ""}}),
        ('labels["k"]', ["65 bytes"], {"labels": {"k": "v" * 65}}),
        ("budget.max_cost_usd", ["at least 0"], {"budget": pb.Budget(max_cost_usd=-0.01)}),
        ("budget.max_cost_usd", ["finite"], {"budget": pb.Budget(max_cost_usd=math.nan)}),
        ("budget.min_quality", ["at most 1"], {"budget": pb.Budget(min_quality=1.01)}),
        ("budget.min_quality", ["finite"], {"budget": pb.Budget(min_quality=math.nan)}),
    ],
)
def test_what_both_requests_refuse(field: str, words: list[str], fields: dict[str, Any]) -> None:
    inputs = ("prompt", "messages", "state")
    complete = (
        fields if not fields or any(n in fields for n in inputs) else {"prompt": "Hi"} | fields
    )
    refused(route, field, *words, **complete)
    refused(decide, field, *words, **complete)


@pytest.mark.parametrize(
    ("field", "words", "fields"),
    [
        ("questions", ["required with state"], {"state": pb.State(text="x"), "prompt": None}),
        ("temperature", ["at least 0 and at most 2"], {"temperature": 2.01}),
        ("temperature", ["at least 0"], {"temperature": -0.1}),
        ("temperature", ["finite"], {"temperature": math.nan}),
        (
            "max_output_tokens",
            ["is 0", "1 to 50", "limits.output_tokens"],
            {"max_output_tokens": 0},
        ),
        ("max_output_tokens", ["is 51"], {"max_output_tokens": 51}),
        ("response_schema", ["not JSON"], {"response_schema": "{"}),
        ("response_schema", ["keyword 'required'"], {"response_schema": '{"required": "a"}'}),
        (
            "response_schema",
            ["questions"],
            {"response_schema": "{}", "prompt": None, **question(noul=pb.Noul())},
        ),
        ("cache_control.mode", ["number 9"], {"cache_control": pb.CacheControl(mode=9)}),  # type: ignore[arg-type]
        ("cache_control.ttl_s", ["at least"], {"cache_control": pb.CacheControl(ttl_s=0.0)}),
        ("cache_control.ttl_s", ["finite"], {"cache_control": pb.CacheControl(ttl_s=math.inf)}),
    ],
)
def test_what_decide_alone_refuses(field: str, words: list[str], fields: dict[str, Any]) -> None:
    refused(decide, field, *words, **({"prompt": "Hi"} | fields))


def test_a_schema_nobody_can_satisfy_is_not_called_malformed() -> None:
    with pytest.raises(RequestUnsatisfiable, match=r"response_schema: .* no value satisfies"):
        decide(prompt="Hi", response_schema="false")


def test_the_permissive_schema_true_asks_for_nothing() -> None:
    assert decide(prompt="Hi", response_schema="true").response_schema.document == {}


def test_no_message_repeats_what_the_user_typed() -> None:
    for fields in (
        {"prompt": "secret\0"},
        {"state": pb.State(json="{secret")},
        {"prompt": "Hi", "response_schema": '{"type": "secret", "properties": {"secret": 1}}'},
        {"prompt": "Hi", "unit_key": "secret" * 99},
    ):
        with pytest.raises(InvalidRequest) as caught:
            decide(**fields)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_stream_request_names_fields_below_request() -> None:
    convert = {"tenant": "acme", "deadline_s": 1.0, "limits": LIMITS}
    with pytest.raises(InvalidRequest, match=r"^request: is required$"):
        request_from_stream(pb.DecideStreamRequest(), **convert)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"^request\.prompt: is empty$"):
        request_from_stream(
            pb.DecideStreamRequest(request=pb.DecideRequest(prompt="")),
            **convert,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("decision_id", {"verdict": pb.VERDICT_ACCEPTED}),
        ("decision_id", {"decision_id": "A" * 32, "score": 1.0}),
        ("verdict", {"decision_id": "a" * 32}),
        ("verdict", {"decision_id": "a" * 32, "verdict": 7}),
        ("score", {"decision_id": "a" * 32, "score": math.nan}),
        ("score", {"decision_id": "a" * 32, "score": 1.5}),
        ("cost_usd", {"decision_id": "a" * 32, "cost_usd": -1.0}),
    ],
)
def test_a_meaningless_report_is_refused(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        report_from_record_outcome(pb.RecordOutcomeRequest(**fields))
    assert caught.value.field == field


def test_a_report_may_carry_a_score_of_zero_alone() -> None:
    report = report_from_record_outcome(pb.RecordOutcomeRequest(decision_id="a" * 32, score=0.0))
    assert (report.accepted, report.score, report.cost_usd) == (None, 0.0, None)
