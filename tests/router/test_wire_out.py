"""Outcomes arrive on the wire complete; the enums of both sides agree."""

import enum

import pytest

from cache.entry import MissReason, Namespace
from cache.statistics import CacheStats, NamespaceStats
from router.domain import (
    Answer,
    AnsweredBy,
    CacheMatch,
    CacheMode,
    DecideOutcome,
    PathStep,
    QuestionType,
    Reason,
    Role,
    RouteOutcome,
    StepOutcome,
    Tier,
    Timings,
    ToolCall,
)
from router.testing import sample_decision
from router.v1 import router_pb2 as pb
from router.wire_enums import (
    ANSWERED_BY,
    CACHE_MODES,
    FINISH_REASONS,
    REASONS,
    ROLES,
    STEP_OUTCOMES,
    TIERS,
    enum_table,
)
from router.wire_out import (
    decide_response,
    decision_message,
    route_response,
    stats_response,
    stream_part,
)


def outcome(**fields: object) -> DecideOutcome:
    return DecideOutcome(
        **({"decision": sample_decision(), "answered_by": AnsweredBy.SLOW_TIER} | fields)  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("table", "members", "wire"),
    [
        (TIERS, Tier, pb.Tier),
        (REASONS, Reason, pb.Reason),
        (ANSWERED_BY, AnsweredBy, pb.AnsweredBy),
        (STEP_OUTCOMES, StepOutcome, pb.StepOutcome),
        ({role: value for value, role in ROLES.items()}, Role, pb.Role),
        ({mode: value for value, mode in CACHE_MODES.items()}, CacheMode, pb.CacheMode),
    ],
)
def test_each_member_has_one_wire_value_and_none_is_unspecified(table, members, wire) -> None:
    assert set(table) == set(members)
    assert sorted(table.values()) == sorted(set(wire.values()) - {0})


def test_wire_values_are_the_prefixed_words() -> None:
    assert TIERS[Tier.TOOL] == pb.TIER_TOOL
    assert REASONS[Reason.BELOW_THRESHOLD] == pb.REASON_BELOW_THRESHOLD
    assert ROLES[pb.ROLE_USER] is Role.USER
    assert FINISH_REASONS["tool_calls"] == pb.FINISH_REASON_TOOL_CALLS


def test_enums_that_differ_are_refused_by_name() -> None:
    class Lacking(enum.Enum):
        FAST = "FAST"
        SLOW = "SLOW"
        WARP = "WARP"

    with pytest.raises(TypeError, match=r"Lacking and TIER_. differ in TOOL, WARP"):
        enum_table(Lacking, pb.Tier, "TIER")


def test_every_field_of_a_decision_is_set() -> None:
    message = decision_message(sample_decision())
    assert {field.name for field, _ in message.ListFields()} == set(
        pb.Decision.DESCRIPTOR.fields_by_name
    )
    assert message.tier == pb.TIER_FAST
    assert message.probabilities == {"fast": 0.75, "slow": 0.25}
    assert (message.decided_at.seconds, message.decided_at.nanos) == (1_700_000_000, 250_000_000)


def test_a_route_response_carries_the_timings() -> None:
    timings = Timings(
        queue_ns=1,
        encode_ns=2,
        cache_ns=3,
        fast_ns=4,
        upstream_connect_ns=5,
        first_token_ns=6,
        decode_ns=7,
        total_ns=8,
    )
    message = route_response(RouteOutcome(decision=sample_decision(), timings=timings))
    assert [value for _, value in message.timings.ListFields()] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_every_field_of_an_answer_is_set() -> None:
    message = decide_response(
        outcome(
            text="42",
            answers={
                "c": Answer(type=QuestionType.CHOICE, value="warm", probabilities={"warm": 1.0}),
                "s": Answer(type=QuestionType.SCORE, value=1.5),
                "n": Answer(type=QuestionType.NOUL, value=0.0, confidence=0.0),
            },
            tool_calls=(ToolCall(id="1", name="f", arguments_json="{}"),),
            finish_reason="length",
            input_tokens=3,
            output_tokens=4,
            path=(
                PathStep(
                    tier=Tier.SLOW,
                    upstream="vllm",
                    outcome=StepOutcome.SLOW_TIER_FAILED,
                    elapsed_ns=5,
                    detail="timeout",
                ),
            ),
            degraded=True,
            manual_review_cause="cause",
            timings=Timings(total_ns=9),
            cache_match=CacheMatch(similarity=1.0, age_s=2.0, key="k", origin_decision_id="d"),
            model_revision="m@1",
        )
    )
    assert {field.name for field, _ in message.ListFields()} == set(
        pb.DecideResponse.DESCRIPTOR.fields_by_name
    )
    assert message.answers["c"].choice == "warm"
    assert not message.answers["c"].HasField("confidence")
    assert message.answers["s"].score == 1.5
    # P(true) = 0 with confidence 0 must stay distinguishable from an absent value.
    assert message.answers["n"].WhichOneof("value") == "noul"
    assert message.answers["n"].HasField("confidence")
    assert message.finish_reason == pb.FINISH_REASON_LENGTH
    assert message.path[0].outcome == pb.STEP_OUTCOME_SLOW_TIER_FAILED


def test_without_a_cached_answer_there_is_no_match() -> None:
    assert not decide_response(outcome()).HasField("cache_match")


@pytest.mark.parametrize("word", ["", "other", "unspecified"])
def test_a_finish_reason_without_a_word_is_unspecified(word: str) -> None:
    assert decide_response(outcome(finish_reason=word)).finish_reason == 0


def test_the_last_part_of_a_stream_repeats_the_decision_but_not_the_text() -> None:
    assert stream_part(sample_decision()).WhichOneof("part") == "decision"
    assert stream_part("").WhichOneof("part") == "text"
    last = stream_part(outcome(text="42", output_tokens=1)).outcome
    assert last.text == ""
    assert last.decision.decision_id == sample_decision().decision_id
    assert last.usage.output_tokens == 1


def test_cache_counts_name_reasons_and_namespace_digests() -> None:
    namespace = Namespace(
        tenant="t",
        encoder_revision="e",
        system_prompt="",
        question_schema="",
        answer_settings="",
        tool_set="",
        model_revisions="",
        variant="",
    )
    message = stats_response(
        CacheStats(
            entries=1,
            size_bytes=2,
            exact_hits=3,
            semantic_hits=4,
            misses={MissReason.GUARD_NUMBERS: 5},
            evictions=6,
            expirations=7,
            namespaces=(NamespaceStats(namespace=namespace, entries=8, size_bytes=9, vectors=10),),
        )
    )
    assert message == pb.GetStatsResponse(
        entries=1,
        bytes=2,
        exact_hits=3,
        semantic_hits=4,
        misses={"guard_numbers": 5},
        evictions=6,
        expirations=7,
        namespaces=[pb.NamespaceStats(namespace=namespace.digest, entries=8)],
    )
