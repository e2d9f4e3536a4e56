"""Conversion of outcomes into response messages."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from cache.statistics import CacheStats
from router.domain import (
    Answer,
    CacheMatch,
    DecideOutcome,
    Decision,
    PathStep,
    QuestionType,
    RouteOutcome,
    Timings,
)
from router.v1 import router_pb2 as pb
from router.wire_enums import ANSWERED_BY, FINISH_REASONS, REASONS, STEP_OUTCOMES, TIERS


def decision_message(decision: Decision) -> pb.Decision:
    """Convert a decision; its time keeps microseconds, all that a double of now holds."""
    decided_at = Timestamp()
    decided_at.FromMicroseconds(round(decision.decided_at_s * 1_000_000))
    return pb.Decision(
        decision_id=decision.decision_id,
        tier=TIERS[decision.tier],
        reason=REASONS[decision.reason],
        route=decision.route,
        probabilities=decision.probabilities,
        threshold=decision.threshold,
        strong_gain=decision.strong_gain,
        sampling_temperature=decision.sampling_temperature,
        expected_output_tokens=decision.expected_output_tokens,
        expected_output_tokens_p95=decision.expected_output_tokens_p95,
        features=decision.features,
        input_tokens=decision.input_tokens,
        encoder_revision=decision.encoder_revision,
        config_revision=decision.config_revision,
        experiment=decision.experiment,
        variant=decision.variant,
        propensity=decision.propensity,
        decided_at=decided_at,
    )


def route_response(outcome: RouteOutcome) -> pb.RouteResponse:
    """Convert a decision without an answer."""
    return pb.RouteResponse(
        decision=decision_message(outcome.decision), timings=_timings(outcome.timings)
    )


def batch_item(outcome: RouteOutcome) -> pb.RouteBatchItem:
    """Convert one decision of a batch."""
    return pb.RouteBatchItem(response=route_response(outcome))


def decide_response(outcome: DecideOutcome) -> pb.DecideResponse:
    """Convert an answer; a finish reason the contract has no word for stays unspecified."""
    return pb.DecideResponse(
        decision=decision_message(outcome.decision),
        answered_by=ANSWERED_BY[outcome.answered_by],
        text=outcome.text,
        answers={name: _answer(answer) for name, answer in outcome.answers.items()},
        tool_calls=[
            pb.ToolCall(id=call.id, name=call.name, arguments_json=call.arguments_json)
            for call in outcome.tool_calls
        ],
        finish_reason=FINISH_REASONS.get(outcome.finish_reason, pb.FINISH_REASON_UNSPECIFIED),
        usage=pb.Usage(input_tokens=outcome.input_tokens, output_tokens=outcome.output_tokens),
        path=[_path_step(step) for step in outcome.path],
        degraded=outcome.degraded,
        manual_review_cause=outcome.manual_review_cause,
        timings=_timings(outcome.timings),
        cache_match=None if outcome.cache_match is None else _cache_match(outcome.cache_match),
        model_revision=outcome.model_revision,
    )


def stream_part(part: Decision | str | DecideOutcome) -> pb.DecideStreamResponse:
    """Convert one part of a streamed answer; the last one does not repeat the text."""
    if isinstance(part, Decision):
        return pb.DecideStreamResponse(decision=decision_message(part))
    if isinstance(part, str):
        return pb.DecideStreamResponse(text=part)
    outcome = decide_response(part)
    outcome.ClearField("text")
    return pb.DecideStreamResponse(outcome=outcome)


def stats_response(stats: CacheStats) -> pb.GetStatsResponse:
    """Convert the counts of one tenant."""
    return pb.GetStatsResponse(
        entries=stats.entries,
        bytes=stats.size_bytes,
        exact_hits=stats.exact_hits,
        semantic_hits=stats.semantic_hits,
        misses={reason.value: count for reason, count in stats.misses.items()},
        evictions=stats.evictions,
        expirations=stats.expirations,
        namespaces=[
            pb.NamespaceStats(namespace=row.namespace.digest, entries=row.entries)
            for row in stats.namespaces
        ],
    )


def _timings(timings: Timings) -> pb.Timings:
    return pb.Timings(
        queue_ns=timings.queue_ns,
        encode_ns=timings.encode_ns,
        cache_ns=timings.cache_ns,
        fast_ns=timings.fast_ns,
        upstream_connect_ns=timings.upstream_connect_ns,
        first_token_ns=timings.first_token_ns,
        decode_ns=timings.decode_ns,
        total_ns=timings.total_ns,
    )


def _path_step(step: PathStep) -> pb.PathStep:
    return pb.PathStep(
        tier=TIERS[step.tier],
        upstream=step.upstream,
        outcome=STEP_OUTCOMES[step.outcome],
        elapsed_ns=step.elapsed_ns,
        detail=step.detail,
    )


def _answer(answer: Answer) -> pb.Answer:
    message = pb.Answer(
        probabilities=answer.probabilities,
        confidence=answer.confidence,
        answer_confidence=answer.answer_confidence,
    )
    if answer.type is QuestionType.CHOICE:
        message.choice = str(answer.value)
    elif answer.type is QuestionType.SCORE:
        message.score = float(answer.value)
    else:
        message.noul = float(answer.value)
    return message


def _cache_match(match: CacheMatch) -> pb.CacheMatch:
    return pb.CacheMatch(
        similarity=match.similarity,
        age_s=match.age_s,
        key=match.key,
        origin_decision_id=match.origin_decision_id,
    )
