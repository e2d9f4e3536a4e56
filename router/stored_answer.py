"""Serialise answers for the cache, decisions for the decision memory.

The form is JSON of the domain's own values rather than a wire message, so that the pipeline
stays free of the wire. What is stored is the answer with its decision; how long the request
took or which upstreams were tried is history, which a hit does not repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter

from router.domain import Answer, AnsweredBy, DecideOutcome, Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """What a cache entry holds.

    Attributes:
        decision: Of the request that was answered.
        answered_by: The tier that wrote the answer.
        cacheable: The caller vouched that a volatile-looking answer holds for longer.
    """

    decision: Decision
    answered_by: AnsweredBy
    cacheable: bool = False
    text: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    finish_reason: str = "stop"
    model_revision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredDecision:
    decision: Decision
    embedding: bytes


_BASE64 = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_ANSWERS: TypeAdapter[StoredAnswer] = TypeAdapter(StoredAnswer)


class _DecisionForm(_StoredDecision):
    __pydantic_config__ = _BASE64


_DECISIONS: TypeAdapter[_DecisionForm] = TypeAdapter(_DecisionForm)


def dump_answer(outcome: DecideOutcome, *, cacheable: bool) -> bytes:
    """Return the bytes to store for ``outcome``; ``cacheable`` as in `StoredAnswer`."""
    return _ANSWERS.dump_json(
        StoredAnswer(
            decision=outcome.decision,
            answered_by=outcome.answered_by,
            cacheable=cacheable,
            text=outcome.text,
            answers=outcome.answers,
            finish_reason=outcome.finish_reason,
            model_revision=outcome.model_revision,
        )
    )


def load_answer(payload: bytes) -> StoredAnswer:
    """Return what `dump_answer` stored; numbers come back exactly."""
    return _ANSWERS.validate_json(payload)


def dump_decision(decision: Decision, embedding: NDArray[np.float32] | None) -> bytes:
    """Return the bytes to remember for a decision with the embedding it was made from."""
    return _DECISIONS.dump_json(
        _DecisionForm(
            decision=decision, embedding=b"" if embedding is None else embedding.tobytes()
        )
    )


def load_decision(payload: bytes) -> tuple[Decision, NDArray[np.float32] | None]:
    """Return what `dump_decision` stored, bit for bit."""
    stored = _DECISIONS.validate_json(payload)
    if not stored.embedding:
        return stored.decision, None
    return stored.decision, np.frombuffer(stored.embedding, dtype=np.float32)
