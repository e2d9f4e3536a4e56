"""What a client written in Node with grpc-js sees of the service."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any

import pytest

from slow_tier.testing import ScriptedReply

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

INVALID_ARGUMENT, DEADLINE_EXCEEDED, CANCELLED = 3, 4, 1
WAIT_S = 20.0


async def test_route_gives_node_a_whole_decision(call_from_node) -> None:
    prompt = "What is the capital of France?"
    [result] = await call_from_node({"rpc": "Route", "request": {"prompt": prompt}})
    decision = result.message["decision"]
    assert re.fullmatch(r"[0-9a-f]{32}", decision["decision_id"])
    assert decision["tier"] in {"TIER_FAST", "TIER_SLOW", "TIER_TOOL"}
    assert set(decision["probabilities"]) == {"fast", "slow", "tool"}
    assert math.fsum(decision["probabilities"].values()) == pytest.approx(1.0)
    assert decision["encoder_revision"].startswith("laya-base")
    assert 0.1 <= decision["sampling_temperature"] <= 1.5
    assert 0 < decision["expected_output_tokens"] <= decision["expected_output_tokens_p95"]
    # 64-bit integers arrive as strings: JavaScript's numbers would round them.
    assert int(result.message["timings"]["encode_ns"]) > 0


async def test_an_offered_but_empty_tool_set_differs_from_none_offered(call_from_node) -> None:
    prompt = "Book me a flight to Oslo."
    unknown, none = await call_from_node(
        {"rpc": "Route", "request": {"prompt": prompt}},
        {"rpc": "Route", "request": {"prompt": prompt, "tools": {"tools": []}}},
    )
    assert "tool" in unknown.message["decision"]["probabilities"]
    assert "tool" not in none.message["decision"]["probabilities"]


async def test_decide_answers_from_the_slow_tier_then_from_the_cache(stand, call_from_node) -> None:
    call = {
        "rpc": "Decide",
        "request": {"prompt": "What is the capital of France, « la tour Eiffel » 🗼?"},
    }
    before = len(stand.upstream.requests)
    first, second = await call_from_node(call, call)
    assert first.message["answered_by"] == "ANSWERED_BY_SLOW_TIER"
    assert first.message["text"] == "Paris"
    assert first.message["finish_reason"] == "FINISH_REASON_STOP"
    assert first.message["usage"] == {"input_tokens": 7, "output_tokens": len("Paris")}
    assert second.message["answered_by"] == "ANSWERED_BY_EXACT_CACHE"
    assert second.message["text"] == "Paris"
    origin = second.message["cache_match"]["origin_decision_id"]
    assert origin == first.message["decision"]["decision_id"]
    [asked] = stand.upstream.requests[before:]
    assert asked.body["messages"][-1]["content"] == call["request"]["prompt"]


async def test_decide_answers_typed_questions(stand, call_from_node) -> None:
    answers = {"angry": True, "grade": 1, "topic": "billing"}
    stand.upstream.reply_with(ScriptedReply(text=json.dumps(answers)))
    request: dict[str, Any] = {
        "state": {"json": '{"subject": "I was charged twice", "order": 9007199254740993}'},
        "questions": {
            "topic": {
                "instructions": "What is it about?",
                "choice": {"options": [{"label": "billing"}, {"label": "delivery"}]},
            },
            "grade": {"instructions": "How urgent?", "score": {"criteria": ["calm", "urgent"]}},
            "angry": {"instructions": "The customer is angry.", "noul": {}},
        },
    }
    [result] = await call_from_node({"rpc": "Decide", "request": request})
    assert result.message["answered_by"] == "ANSWERED_BY_SLOW_TIER"
    given = result.message["answers"]
    # `value` is grpc-js's name of the oneof field that is set.
    assert {name: answer[answer["value"]] for name, answer in given.items()} == {
        "angry": 1.0,
        "grade": 1.0,
        "topic": "billing",
    }


async def test_a_stream_is_the_decision_then_text_then_the_outcome(stand, call_from_node) -> None:
    stand.upstream.reply_with(ScriptedReply(text="Lyon"))
    request = {"request": {"prompt": "Name the second French city, streamed."}}
    [result] = await call_from_node({"rpc": "DecideStream", "request": request})
    assert result.error is None
    first, *pieces, last = result.messages
    assert first["part"] == "decision"
    assert {piece["part"] for piece in pieces} == {"text"}
    assert "".join(piece["text"] for piece in pieces) == "Lyon"
    assert last["part"] == "outcome"
    assert last["outcome"]["text"] == ""
    assert last["outcome"]["decision"] == first["decision"]


async def test_an_empty_prompt_is_an_invalid_argument_that_names_the_field(call_from_node) -> None:
    calls = [{"rpc": rpc, "request": {"prompt": ""}} for rpc in ("Route", "Decide")]
    calls.append({"rpc": "DecideStream", "request": {"request": {"prompt": ""}}})
    for result in await call_from_node(*calls):
        assert result.messages == []
        assert result.error["code"] == INVALID_ARGUMENT
        assert "prompt" in result.error["message"]


async def test_a_deadline_ends_the_call_and_the_upstream_request(stand, call_from_node) -> None:
    never = asyncio.Event()
    before = stand.upstream.disconnects
    stand.upstream.reply_with(ScriptedReply(text="too late", before=never))
    request = {"prompt": "Explain slowly how a deadline is handed down."}
    call = {"rpc": "Decide", "request": request, "deadline_ms": 1_500}
    [result] = await call_from_node(call)
    assert result.error["code"] == DEADLINE_EXCEEDED
    async with asyncio.timeout(WAIT_S):
        await stand.upstream.wait_for_disconnects(before + 1)


async def test_cancelling_a_stream_cancels_the_upstream_request(stand, call_from_node) -> None:
    never = asyncio.Event()
    before = stand.upstream.disconnects
    stand.upstream.reply_with(ScriptedReply(text="half", between=never))
    request = {"request": {"prompt": "Start a long story, which is then cancelled."}}
    call = {"rpc": "DecideStream", "request": request, "cancel_after": 1}
    [result] = await call_from_node(call)
    assert [message["part"] for message in result.messages] == ["decision"]
    assert result.error["code"] == CANCELLED
    async with asyncio.timeout(WAIT_S):
        await stand.upstream.wait_for_disconnects(before + 1)
