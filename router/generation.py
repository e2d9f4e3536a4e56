"""Translate between the domain's values and those of a text tier."""

from __future__ import annotations

from router.domain import (
    AnsweredBy,
    DecideOutcome,
    Decision,
    PathStep,
    Request,
    StepOutcome,
    Tier,
    Timings,
    ToolCall,
)
from router.tiers import Attempt
from slow_tier.completion import ChatMessage, Completion, CompletionRequest, ToolDefinition
from slow_tier.json_schema import JsonSchema

_ANSWERED_BY = {Tier.FAST: AnsweredBy.FAST_TIER, Tier.SLOW: AnsweredBy.SLOW_TIER}
_FAILED = {Tier.FAST: StepOutcome.FAST_TIER_FAILED, Tier.SLOW: StepOutcome.SLOW_TIER_FAILED}

NOT_CONFIGURED = PathStep(
    tier=Tier.FAST, upstream="", outcome=StepOutcome.FAST_TIER_NOT_CONFIGURED, elapsed_ns=0
)


def completion_request(
    request: Request, decision: Decision, *, output_tokens: int, with_tools: bool
) -> CompletionRequest:
    """Return what a tier is asked to generate for a conversation.

    The length that the encoder expects is a hint for the caller; what cuts an answer is the
    caller's own limit, else ``output_tokens``.
    """
    schema = request.response_schema
    assert schema is None or isinstance(schema, JsonSchema)  # the domain knows no tier
    return CompletionRequest(
        messages=tuple(ChatMessage(role=m.role.value, content=m.content) for m in request.messages),
        temperature=decision.sampling_temperature,
        max_output_tokens=request.max_output_tokens or output_tokens,
        tools=_tools(request) if with_tools else (),
        response_schema=schema,
    )


def _tools(request: Request) -> tuple[ToolDefinition, ...]:
    return tuple(
        ToolDefinition(name=tool.name, description=tool.description, parameters=tool.parameters)
        for tool in request.tools or ()
    )


def outcome_of(
    completion: Completion, decision: Decision, *, kind: Tier, model_revision: str
) -> DecideOutcome:
    """Return the outcome of a tier that answered; path and other stages' times are not in it."""
    usage = completion.usage
    return DecideOutcome(
        decision=decision,
        answered_by=_ANSWERED_BY[kind],
        text=completion.text,
        tool_calls=tuple(
            ToolCall(id=call.id, name=call.name, arguments_json=call.arguments_json)
            for call in completion.tool_calls
        ),
        # A finish reason that the domain has no word for becomes empty.
        finish_reason="" if completion.finish_reason == "other" else completion.finish_reason,
        input_tokens=0 if usage is None else usage.prompt_tokens,
        output_tokens=0 if usage is None else usage.completion_tokens,
        timings=Timings(
            upstream_connect_ns=completion.connect_ns,
            first_token_ns=max(0, completion.first_token_ns - completion.connect_ns),
            decode_ns=max(0, completion.total_ns - completion.first_token_ns),
        ),
        model_revision=model_revision,
    )


def answered_step(completion: Completion, *, kind: Tier) -> PathStep:
    """Return the step of a tier that answered."""
    return PathStep(
        tier=kind,
        upstream=completion.upstream,
        outcome=StepOutcome.ANSWERED,
        elapsed_ns=completion.total_ns,
    )


def failed_step(attempt: Attempt, *, kind: Tier) -> PathStep | None:
    """Return the step of an attempt that gave no answer, ``None`` for any other attempt."""
    if attempt.outcome in {"ok", "cancelled"}:
        return None
    invalid = attempt.outcome == "invalid_answer"
    return PathStep(
        tier=kind,
        upstream=attempt.upstream,
        outcome=StepOutcome.INVALID_ANSWER if invalid else _FAILED[kind],
        elapsed_ns=attempt.elapsed_ns,
        detail=attempt.detail if invalid else attempt.outcome,
    )
