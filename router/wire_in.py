"""Conversion of request messages into validated domain requests.

Pure functions; every rule of ``router.proto`` is held here. A broken rule raises
``InvalidRequest``, or ``RequestUnsatisfiable`` where the request is well formed and nobody
could satisfy it; the message names field, limit and size.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from router.config import LimitsConfig
from router.domain import (
    Budget,
    CacheControl,
    CacheMode,
    Message,
    Request,
    ResponseSchema,
    Role,
    State,
    Tool,
)
from router.errors import InvalidRequest, RequestError
from router.field_checks import (
    at_most,
    element,
    input_size,
    number_between,
    short_text,
    text_bytes,
    written_text,
)
from router.json_schema import parse_document, parse_schema
from router.v1 import router_pb2 as pb
from router.wire_enums import CACHE_MODES, ROLES
from router.wire_questions import questions_from
from router.wire_tools import tools_from

MAX_TURNS = 4_096
MAX_LABELS = 16
MAX_LABEL_BYTES = 64
MAX_KEY_BYTES = 256
# A lifetime that vanishes in the rounding of a Unix time would end before it began.
MIN_TTL_S = 0.001
MAX_TTL_S = 86_400.0 * 365

_DECISION_ID = re.compile(r"[0-9a-f]{32}")
_VERDICTS = {
    pb.VERDICT_UNSPECIFIED: None,
    pb.VERDICT_ACCEPTED: True,
    pb.VERDICT_REJECTED: False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """What a caller says a decision was worth.

    Attributes:
        decision_id: 32 hexadecimal digits.
        accepted: ``None`` = no verdict.
        score: Quality in [0, 1].
        cost_usd: Real cost, US dollars, >= 0.
    """

    decision_id: str
    accepted: bool | None
    score: float | None
    cost_usd: float | None


def request_from_route(
    message: pb.RouteRequest, *, tenant: str, deadline_s: float, limits: LimitsConfig
) -> Request:
    """Validate a ``RouteRequest``.

    Args:
        message: As parsed by protobuf.
        tenant: Whose request it is.
        deadline_s: Absolute, on the process's monotonic clock.
        limits: Configured limits.

    Raises:
        InvalidRequest: Naming the field, the limit and the size.
    """
    tools = tools_from(message.tools, limits) if message.HasField("tools") else None
    return _request(message, tenant, deadline_s, limits, tools)


def request_from_decide(
    message: pb.DecideRequest, *, tenant: str, deadline_s: float, limits: LimitsConfig
) -> Request:
    """Validate a ``DecideRequest``; arguments as for ``request_from_route``.

    Raises:
        InvalidRequest: Naming the field, the limit and the size.
        RequestUnsatisfiable: If no answer can satisfy ``response_schema``.
    """
    request = _request(message, tenant, deadline_s, limits, tools_from(message.tools, limits))
    if request.state is not None and not request.questions:
        msg = "is required with state"
        raise InvalidRequest(msg, field="questions")
    return dataclasses.replace(
        request,
        response_schema=_response_schema(message),
        max_output_tokens=_max_output_tokens(message, limits),
        temperature=(
            number_between(message.temperature, 0.0, 2.0, field="temperature")
            if message.HasField("temperature")
            else None
        ),
        cache_control=_cache_control(message.cache_control),
    )


def request_from_stream(
    message: pb.DecideStreamRequest, *, tenant: str, deadline_s: float, limits: LimitsConfig
) -> Request:
    """Validate a ``DecideStreamRequest``; as ``request_from_decide``, paths under ``request``."""
    if not message.HasField("request"):
        msg = "is required"
        raise InvalidRequest(msg, field="request")
    try:
        return request_from_decide(
            message.request, tenant=tenant, deadline_s=deadline_s, limits=limits
        )
    except RequestError as error:
        raise type(error)(error.description, field=f"request.{error.field}") from None


def report_from_record_outcome(message: pb.RecordOutcomeRequest) -> OutcomeReport:
    """Validate a ``RecordOutcomeRequest``.

    Raises:
        InvalidRequest: Naming the field.
    """
    if _DECISION_ID.fullmatch(message.decision_id) is None:
        msg = "must be the 32 hexadecimal digits of a decision's decision_id"
        raise InvalidRequest(msg, field="decision_id")
    if message.verdict not in _VERDICTS:
        msg = f"is the unknown number {message.verdict}"
        raise InvalidRequest(msg, field="verdict")
    report = OutcomeReport(
        decision_id=message.decision_id,
        accepted=_VERDICTS[message.verdict],
        score=(
            number_between(message.score, 0.0, 1.0, field="score")
            if message.HasField("score")
            else None
        ),
        cost_usd=(
            number_between(message.cost_usd, 0.0, math.inf, field="cost_usd", unit="US dollars")
            if message.HasField("cost_usd")
            else None
        ),
    )
    if report.accepted is None and report.score is None and report.cost_usd is None:
        msg = "give at least one of verdict, score and cost_usd"
        raise InvalidRequest(msg, field="verdict")
    return report


def _request(
    message: pb.RouteRequest | pb.DecideRequest,
    tenant: str,
    deadline_s: float,
    limits: LimitsConfig,
    tools: tuple[Tool, ...] | None,
) -> Request:
    given = [name for name in ("prompt", "state") if message.HasField(name)]
    if message.messages:
        given.append("messages")
    if len(given) != 1:
        got = " and ".join(given) or "none"
        msg = f"give exactly one of prompt, messages and state; got {got}"
        raise InvalidRequest(msg, field=given[-1] if given else "prompt")
    if message.questions and not message.HasField("state"):
        msg = "may only be given with state"
        raise InvalidRequest(msg, field="questions")
    return Request(
        tenant=tenant,
        deadline_s=deadline_s,
        messages=_messages(message, limits) if "state" not in given else (),
        state=_state(message.state, limits) if "state" in given else None,
        questions=questions_from(message.questions, limits),
        tools=tools,
        unit_key=short_text(message.unit_key, field="unit_key", limit_bytes=MAX_KEY_BYTES),
        labels=_labels(message.labels),
        decision_key=short_text(
            message.decision_key, field="decision_key", limit_bytes=MAX_KEY_BYTES
        ),
        budget=_budget(message.budget),
    )


def _messages(
    message: pb.RouteRequest | pb.DecideRequest, limits: LimitsConfig
) -> tuple[Message, ...]:
    if message.HasField("prompt"):
        input_size(written_text(message.prompt, field="prompt"), limits, field="prompt")
        return (Message(role=Role.USER, content=message.prompt),)
    at_most(len(message.messages), MAX_TURNS, field="messages", unit="turns")
    turns = []
    size_bytes = 0
    for index, turn in enumerate(message.messages):
        path = element("messages", index)
        role = ROLES.get(turn.role)
        if role is None:
            msg = f"must be a known role, got number {turn.role}"
            raise InvalidRequest(msg, field=f"{path}.role")
        # An earlier answer may be empty: it may have consisted of tool calls.
        check = written_text if role is Role.USER else text_bytes
        size_bytes += check(turn.content, field=f"{path}.content")
        turns.append(Message(role=role, content=turn.content))
    if not any(turn.role is Role.USER for turn in turns):
        msg = f"needs at least one user turn, got {len(turns)} turns without one"
        raise InvalidRequest(msg, field="messages")
    input_size(size_bytes, limits, field="messages")
    return tuple(turns)


def _state(message: pb.State, limits: LimitsConfig) -> State:
    kind = message.WhichOneof("kind")
    if kind is None:
        msg = "give exactly one of text and json"
        raise InvalidRequest(msg, field="state")
    text = message.json if kind == "json" else message.text
    field = f"state.{kind}"
    input_size(written_text(text, field=field), limits, field=field)
    if kind == "json":
        parse_document(text, field=field)
    return State(text=text, is_json=kind == "json")


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    at_most(len(labels), MAX_LABELS, field="labels", unit="labels")
    checked = {}
    for key in sorted(labels):
        written_text(key, field="labels")
        short_text(key, field="labels", limit_bytes=MAX_LABEL_BYTES)
        checked[key] = short_text(
            labels[key], field=element("labels", key), limit_bytes=MAX_LABEL_BYTES
        )
    return checked


def _budget(message: pb.Budget) -> Budget:
    return Budget(
        max_cost_usd=(
            number_between(
                message.max_cost_usd, 0.0, math.inf, field="budget.max_cost_usd", unit="US dollars"
            )
            if message.HasField("max_cost_usd")
            else None
        ),
        min_quality=(
            number_between(message.min_quality, 0.0, 1.0, field="budget.min_quality")
            if message.HasField("min_quality")
            else None
        ),
    )


def _response_schema(message: pb.DecideRequest) -> ResponseSchema | None:
    if not message.response_schema:
        return None
    if message.questions:
        msg = "may not be given with questions, whose answers have a schema of their own"
        raise InvalidRequest(msg, field="response_schema")
    return parse_schema(message.response_schema, field="response_schema").compiled


def _max_output_tokens(message: pb.DecideRequest, limits: LimitsConfig) -> int | None:
    if not message.HasField("max_output_tokens"):
        return None
    if not 1 <= message.max_output_tokens <= limits.output_tokens:
        msg = (
            f"is {message.max_output_tokens}, must be 1 to {limits.output_tokens} tokens"
            " (limits.output_tokens)"
        )
        raise InvalidRequest(msg, field="max_output_tokens")
    return message.max_output_tokens


def _cache_control(message: pb.CacheControl) -> CacheControl:
    mode = CACHE_MODES.get(message.mode)
    if message.mode == pb.CACHE_MODE_UNSPECIFIED:
        mode = CacheMode.DEFAULT
    if mode is None:
        msg = f"is the unknown number {message.mode}"
        raise InvalidRequest(msg, field="cache_control.mode")
    ttl_s = None
    if message.HasField("ttl_s"):
        ttl_s = number_between(
            message.ttl_s, MIN_TTL_S, MAX_TTL_S, field="cache_control.ttl_s", unit="seconds"
        )
    return CacheControl(mode=mode, ttl_s=ttl_s, cacheable=message.cacheable)
