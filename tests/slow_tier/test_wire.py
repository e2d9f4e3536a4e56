"""Requests become the JSON that servers expect; replies in all dialects become one shape."""

import json

import pytest

from slow_tier.completion import ChatMessage, CompletionRequest, ToolCall, ToolDefinition, Usage
from slow_tier.errors import InvalidAnswer, UpstreamUnavailable
from slow_tier.json_schema import JsonSchema
from slow_tier.reply import ReplyAssembler
from slow_tier.wire import decode_completion, encode_request

USER = ChatMessage(role="user", content="hi")


def encode(stream=False, **overrides):
    values = {"messages": (USER,), "temperature": 0.25, "max_output_tokens": 8} | overrides
    return json.loads(
        encode_request(CompletionRequest(**values), model="m", system_prompt=None, stream=stream)
    )


def decode(message, finish_reason="stop", **choice):
    choices = [{"message": message, "finish_reason": finish_reason, **choice}]
    return decode_completion(json.dumps({"choices": choices}).encode(), upstream="up")


def assemble(*deltas):
    assembler = ReplyAssembler(upstream="up")
    texts = [
        assembler.add_event(json.dumps({"choices": [{"delta": delta}]}, ensure_ascii=True))
        for delta in deltas
    ]
    return texts, assembler.reply()


def test_a_plain_request_carries_nothing_that_was_not_asked_for():
    assert encode() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.25,
        "max_tokens": 8,
    }


def test_a_reasoning_model_is_sent_nothing_that_it_refuses():
    request = CompletionRequest(
        messages=(USER,), temperature=0.25, max_output_tokens=8, want_logprobs=True
    )
    body = encode_request(request, model="m", system_prompt=None, dialect="reasoning", stream=False)
    assert json.loads(body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_completion_tokens": 8,
    }


def test_options_appear_under_their_openai_names():
    tool = ToolDefinition(name="f", description="d", parameters={"type": "object"})
    body = encode(
        stream=True, seed=0, want_logprobs=True, tools=(tool,), response_schema=JsonSchema({})
    )
    assert body["seed"] == 0
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert body["tools"][0]["function"]["parameters"] == {"type": "object"}
    assert body["response_format"]["json_schema"]["schema"] == {}


def test_a_tool_name_with_dots_is_spelt_without_them():
    tools = [ToolDefinition(name=n, description="", parameters={}) for n in ("a.b", "a_b")]
    sent = encode(tools=tuple(tools))["tools"]
    assert [tool["function"]["name"] for tool in sent] == ["a_b_2", "a_b"]


def test_a_lone_surrogate_in_a_prompt_cannot_break_the_encoding():
    body = encode(messages=(ChatMessage(role="user", content="\ud800"),))
    assert body["messages"][0]["content"] == "\ud800"


@pytest.mark.parametrize(
    ("wire", "ours"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
        ("eos_token", "other"),
        (None, "other"),
    ],
)
def test_finish_reasons_map_onto_the_closed_set(wire, ours):
    assert decode({"content": "x"}, finish_reason=wire).finish_reason == ours


def test_a_server_that_says_stop_beside_tool_calls_means_tool_calls():
    reply = decode({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]})
    assert reply.finish_reason == "tool_calls"


def test_arguments_sent_as_an_object_become_json_text():
    reply = decode({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]})
    assert reply.tool_calls == (ToolCall(id="", name="f", arguments_json='{"a": 1}'),)


def test_fragments_of_two_interleaved_calls_are_joined_by_index():
    def part(index, arguments, **more):
        function = {"arguments": arguments, **more.pop("function", {})}
        return {"tool_calls": [{"index": index, "function": function, **more}]}

    _, reply = assemble(
        part(0, '{"a"', id="x", function={"name": "f"}),
        part(1, "{", id="y", function={"name": "g"}),
        part(0, ": 1}"),
        part(1, "}"),
    )
    assert reply.tool_calls == (
        ToolCall(id="x", name="f", arguments_json='{"a": 1}'),
        ToolCall(id="y", name="g", arguments_json="{}"),
    )


def test_fragments_without_an_index_are_told_apart_by_their_ids():
    _, reply = assemble(
        {"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{"}}]},
        {"tool_calls": [{"function": {"arguments": "}"}}]},
        {"tool_calls": [{"id": "y", "function": {"name": "g"}}]},
    )
    assert [(call.id, call.arguments_json) for call in reply.tool_calls] == [
        ("x", "{}"),
        ("y", "{}"),
    ]


def test_cut_arguments_are_invalid_unless_the_answer_says_that_it_was_cut():
    message = {"tool_calls": [{"function": {"name": "f", "arguments": '{"a": '}}]}
    assert decode(message, finish_reason="length").tool_calls[0].arguments_json == '{"a": '
    with pytest.raises(InvalidAnswer, match="'up': tool call's arguments is not JSON"):
        decode(message)


def test_a_surrogate_pair_cut_in_two_by_the_stream_is_one_character():
    texts, reply = assemble({"content": "a\ud83d"}, {"content": "\ude00b"})
    assert texts == ["a", "😀b"]
    assert reply.text == "a😀b"


def test_half_a_surrogate_pair_is_replaced_because_utf8_cannot_hold_it():
    _, reply = assemble({"content": "a\ude00"}, {"content": "b\ud83d"})
    assert reply.text == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


def test_usage_comes_from_the_last_chunk_which_has_no_choices():
    assembler = ReplyAssembler(upstream="up")
    assembler.add_event('{"choices": [{"delta": {"content": "x"}}], "usage": null}')
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    assembler.add_event(json.dumps({"choices": [], "usage": usage}))
    assert assembler.reply().usage == Usage(prompt_tokens=3, completion_tokens=1)


@pytest.mark.parametrize("count", [-1, True, 1.5, "3", None, 10**9 + 1, 2**32, 10**400])
def test_a_token_count_that_cannot_be_true_is_none(count):
    for usage in (
        {"prompt_tokens": count, "completion_tokens": 1},
        {"prompt_tokens": 1, "completion_tokens": count},
    ):
        assembler = ReplyAssembler(upstream="up")
        payload = {"choices": [{"delta": {"content": "x"}}], "usage": usage}
        assembler.add_payload(payload, part="delta")
        assert assembler.reply().usage is None


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("meta-llama/Llama-3.1:8b@q4", "meta-llama/Llama-3.1:8b@q4"),
        ("m" * 128, "m" * 128),
        ("m" * 129, None),
        ("what the user asked for", None),
        ("m\nlevel=error", None),
        ("m\u00e9", None),
        ("", None),
        (7, None),
    ],
)
def test_only_what_looks_like_a_models_name_is_taken_for_one(told, kept):
    assembler = ReplyAssembler(upstream="up")
    assembler.add_payload({"choices": [{"delta": {"content": "x"}}], "model": told}, part="delta")
    assert assembler.reply().model == kept


def test_at_most_128_tool_calls_are_put_together():
    def call(index):
        return {"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": "{}"}}

    assert len(assemble({"tool_calls": [call(i) for i in range(128)]})[1].tool_calls) == 128
    with pytest.raises(InvalidAnswer, match="more than 128 tool calls"):
        assemble(*({"tool_calls": [call(i)]} for i in range(129)))


def test_an_index_that_is_no_number_counts_as_none():
    _, reply = assemble(
        {"tool_calls": [{"index": {}, "id": "a", "function": {"name": "f", "arguments": "{"}}]},
        {"tool_calls": [{"index": [], "function": {"arguments": "}"}}]},
    )
    assert reply.tool_calls == (ToolCall(id="a", name="f", arguments_json="{}"),)


def test_an_error_object_in_a_stream_is_the_servers_failure_and_is_not_quoted():
    with pytest.raises(UpstreamUnavailable, match="error object") as raised:
        ReplyAssembler(upstream="up").add_event('{"error": {"message": "prompt was: hi"}}')
    assert "prompt" not in str(raised.value)


@pytest.mark.parametrize(
    "bad",
    [
        {"token": "x", "logprob": None},
        {"token": "x", "logprob": 0.5},
        {"token": "x", "logprob": False},
        {"token": "x", "logprob": "-1"},
        {"token": "x", "logprob": -(10**400)},
        {"token": 3, "logprob": -1},
        {"logprob": -1},
        None,
    ],
)
def test_one_malformed_logprob_voids_them_all_but_not_the_answer(bad):
    good = {"token": "x", "logprob": -1.0, "top_logprobs": []}
    assert decode({"content": "xx"}, logprobs={"content": [good, good]}).token_logprobs[1].token
    reply = decode({"content": "xx"}, logprobs={"content": [good, bad]})
    assert (reply.text, reply.token_logprobs) == ("xx", None)


@pytest.mark.parametrize(
    "payload",
    [
        {"choices": "no"},
        {"choices": [1]},
        {"choices": [{"message": [1]}]},
        {"choices": [{"message": {"content": [1]}}]},
        {"choices": [{"message": {"tool_calls": [None]}}]},
        {"choices": [{"message": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]},
        {"choices": []},
    ],
)
def test_any_other_shape_is_an_invalid_answer_that_names_the_upstream(payload):
    with pytest.raises(InvalidAnswer, match="upstream 'up'"):
        decode_completion(json.dumps(payload).encode(), upstream="up")


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"messages": ()}, "messages: must hold"),
        ({"temperature": float("nan")}, r"temperature: must be in \[0, 2\]"),
        ({"temperature": -0.1}, r"temperature: must be in \[0, 2\], got -0.1"),
        ({"max_output_tokens": 0}, "max_output_tokens: must be >= 1, got 0"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_by_field(overrides, problem):
    with pytest.raises(ValueError, match=problem):
        encode(**overrides)


def test_bad_tools_are_refused_by_name():
    with pytest.raises(ValueError, match="tool name: must be 1 to 64"):
        ToolDefinition(name="f g", description="", parameters={})
    tool = ToolDefinition(name="f", description="", parameters={})
    with pytest.raises(ValueError, match="two tools are named 'f'"):
        encode(tools=(tool, tool))
