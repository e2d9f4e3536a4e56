"""The values a request passes through between the wire and the tiers.

All are frozen. Enum values are the bare words used in logs and metric labels; the wire
prefixes them. Design: a request only moves forward, each step returns a new value.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Tier(enum.StrEnum):
    """A kind of answering model."""

    FAST = "FAST"
    SLOW = "SLOW"
    TOOL = "TOOL"


class Reason(enum.StrEnum):
    """Why a decision fell as it did; the first that applies, in this order."""

    OVERRIDE = "OVERRIDE"
    EXACT_HIT = "EXACT_HIT"
    SEMANTIC_HIT = "SEMANTIC_HIT"
    DEADLINE = "DEADLINE"
    BUDGET = "BUDGET"
    INPUT_TRUNCATED = "INPUT_TRUNCATED"
    ABSTAINED_LANGUAGE = "ABSTAINED_LANGUAGE"
    ABSTAINED_OUT_OF_DISTRIBUTION = "ABSTAINED_OUT_OF_DISTRIBUTION"
    TYPED_QUESTION = "TYPED_QUESTION"
    TOOL_FITS = "TOOL_FITS"
    CONFIDENT = "CONFIDENT"
    BELOW_THRESHOLD = "BELOW_THRESHOLD"


class AnsweredBy(enum.StrEnum):
    """Who answered."""

    EXACT_CACHE = "EXACT_CACHE"
    SEMANTIC_CACHE = "SEMANTIC_CACHE"
    FAST_TIER = "FAST_TIER"
    SLOW_TIER = "SLOW_TIER"
    MANUAL_REVIEW = "MANUAL_REVIEW"


class StepOutcome(enum.StrEnum):
    """What happened at one tier or upstream."""

    ANSWERED = "ANSWERED"
    FAST_TIER_NOT_CONFIGURED = "FAST_TIER_NOT_CONFIGURED"
    FAST_TIER_ABSTAINED = "FAST_TIER_ABSTAINED"
    FAST_TIER_FAILED = "FAST_TIER_FAILED"
    SLOW_TIER_FAILED = "SLOW_TIER_FAILED"
    INVALID_ANSWER = "INVALID_ANSWER"


class Role(enum.StrEnum):
    """Who said a message; the values are the words of chat-completion servers."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class CacheMode(enum.StrEnum):
    """What the answer cache may do with one request."""

    DEFAULT = "DEFAULT"
    NO_STORE = "NO_STORE"
    BYPASS = "BYPASS"


class QuestionType(enum.StrEnum):
    """How a typed question is answered."""

    CHOICE = "choice"
    SCORE = "score"
    NOUL = "noul"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool on offer; ``parameters`` is its JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A typed question.

    Attributes:
        type: How it is answered.
        instructions: What to judge.
        options: ``(label, description)`` pairs of a choice; ``(str(i), criterion)`` pairs of
            a score, lowest level first; empty for noul.
    """

    type: QuestionType
    instructions: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state to be judged; ``is_json`` says that ``text`` is a JSON document."""

    text: str
    is_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the caller is ready to pay (US dollars), and the least P(fast) it accepts."""

    max_cost_usd: float | None = None
    min_quality: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheControl:
    """The caller's wishes about the answer cache; ``ttl_s`` ``None`` means as configured."""

    mode: CacheMode = CacheMode.DEFAULT
    ttl_s: float | None = None
    cacheable: bool = False


class ResponseSchema(Protocol):
    """A compiled JSON Schema that an answer has to satisfy, handed on to the tiers."""

    @property
    def document(self) -> Mapping[str, object]:
        """The schema as the caller wrote it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A validated request.

    Exactly one of ``messages`` and ``state`` is set (a prompt is one user message).

    Attributes:
        tenant: Whose request it is; from the caller's identity.
        messages: The conversation, oldest first, with at least one user turn.
        state: What ``questions`` are about.
        questions: Typed questions by id, sorted by id.
        tools: ``None`` = unknown, empty = none.
        deadline_s: Absolute, on the process's monotonic clock.
    """

    tenant: str
    deadline_s: float
    messages: tuple[Message, ...] = ()
    state: State | None = None
    questions: Mapping[str, Question] = field(default_factory=dict)
    tools: tuple[Tool, ...] | None = None
    unit_key: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    decision_key: str = ""
    budget: Budget = Budget()
    response_schema: ResponseSchema | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    cache_control: CacheControl = CacheControl()


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderInput:
    """What the encoder reads of one request.

    Attributes:
        text: The request's own text.
        context: Earlier turns, oldest first; read from its end as far as room is left.
        tools: The offered tools as text; ``None`` = unknown, empty = none.
    """

    text: str
    context: str = ""
    tools: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What one forward pass of the encoder says about one text, before calibration.

    Attributes:
        route_logits: Shape ``(routes,)``, float32.
        strong_gain: Expected strong minus weak score, in [-1, 1].
        temperature: Sampling temperature, in [0.1, 1.5].
        output_tokens_p50: Expected answer length, median, tokens, >= 1.
        output_tokens_p95: Its 95 % quantile, tokens, >= the median.
        embedding: Shape ``(dim,)``, float32, unit norm.
        features: Explicit features by name.
        input_tokens: Length before truncation, tokens.
        truncated: The encoder read head and tail only.
        in_distribution: The text resembles what the encoder was trained on.
        language_known: The text is in one of the encoder's languages.
        queue_ns: Time waited for a batch.
        encode_ns: Time of tokenising plus the forward pass the text was in.
    """

    route_logits: NDArray[np.float32]
    strong_gain: float
    temperature: float
    output_tokens_p50: int
    output_tokens_p95: int
    embedding: NDArray[np.float32]
    features: Mapping[str, float]
    input_tokens: int
    truncated: bool
    in_distribution: bool
    language_known: bool
    queue_ns: int
    encode_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Where a request goes, why, and what the encoder said; the wire's decision block.

    Attributes:
        decided_at_s: Unix time, seconds.
        propensity: Probability of the drawn variant, 0 without an experiment.
    """

    decision_id: str
    tier: Tier
    reason: Reason
    route: str
    probabilities: Mapping[str, float]
    threshold: float
    strong_gain: float
    sampling_temperature: float
    expected_output_tokens: int
    expected_output_tokens_p95: int
    features: Mapping[str, float]
    input_tokens: int
    encoder_revision: str
    config_revision: str
    decided_at_s: float
    experiment: str = ""
    variant: str = ""
    propensity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Time spent a stage, nanoseconds; 0 where a stage did not run."""

    queue_ns: int = 0
    encode_ns: int = 0
    cache_ns: int = 0
    fast_ns: int = 0
    upstream_connect_ns: int = 0
    first_token_ns: int = 0
    decode_ns: int = 0
    total_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One tier or upstream that was tried; ``detail`` never holds user text."""

    tier: Tier
    upstream: str
    outcome: StepOutcome
    elapsed_ns: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one typed question.

    Attributes:
        type: Which field of the wire's ``value`` is meant.
        value: The label of a choice, the level of a score, or P(true) of a noul.
        probabilities: By label; empty where the tier gives none.
        confidence: 1 - H / ln k with the entropy H over the k probabilities, in [0, 1];
            ``None`` where the tier gives none.
        answer_confidence: Highest probability; ``None`` where the tier gives none.
    """

    type: QuestionType
    value: str | float
    probabilities: Mapping[str, float] = field(default_factory=dict)
    confidence: float | None = None
    answer_confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call the answering model asks for; ``arguments_json`` is JSON text."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMatch:
    """How a cached answer was found; ``age_s`` in seconds, ``similarity`` a cosine."""

    similarity: float
    age_s: float
    key: str
    origin_decision_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOutcome:
    """A decision without an answer."""

    decision: Decision
    timings: Timings


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideOutcome:
    """An answer with everything that led to it.

    Attributes:
        finish_reason: ``stop``, ``length``, ``tool_calls`` or ``content_filter``; empty for
            manual review.
        manual_review_cause: Empty unless ``answered_by`` is manual review.
        model_revision: Model and revision that wrote the answer.
    """

    decision: Decision
    answered_by: AnsweredBy
    text: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    path: tuple[PathStep, ...] = ()
    degraded: bool = False
    manual_review_cause: str = ""
    timings: Timings = Timings()
    cache_match: CacheMatch | None = None
    model_revision: str = ""
