"""Serve and store the answers of the pipeline in the cache.

Lookups run on the event loop: an exact one is a dictionary access, a semantic one a flat
search of one namespace (about a millisecond for 10 000 vectors of 256), less than handing it
to a thread would cost most requests.

What may be stored is decided by `cache.admission`. Its question whether the answering tier was
confident is answered here: the slow tier is, unless the encoder expects the answer to come
from outside the model or a typed answer is less probable than the threshold; the fast tier is
where the encoder was confident that it would answer well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cache.admission import StoreRefusal, refusal_to_store
from cache.entry import CacheHit, Namespace
from cache.semantic_cache import SemanticCache
from router.domain import (
    AnsweredBy,
    CacheMatch,
    CacheMode,
    DecideOutcome,
    Reason,
    Request,
    Role,
    Tier,
)
from router.namespacing import ModelRevisions, answer_key, asked_text, is_lone_prompt, namespace_of
from router.stored_answer import StoredAnswer, dump_answer, load_answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the answer to one request lies.

    Attributes:
        namespace: Requests that may share answers.
        key: Identifies exactly this request.
        text: What is asked.
        searchable: The answer may serve similar requests, or come from one.
    """

    namespace: Namespace
    key: str
    text: str
    searchable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAnswer:
    """A stored answer that may be served."""

    stored: StoredAnswer
    match: CacheMatch


class AnswerCache:
    """The answer cache in the words of the pipeline.

    Args:
        cache: Holds the entries; ``None`` switches the cache off.
        revisions: Models behind the answers.
        semantic: Whether similar requests may share an answer.
        observe: Told of every operation (``exact``, ``semantic``, ``store``) with its result:
            ``hit``, ``stored``, or the reason of a miss or refusal.
    """

    def __init__(
        self,
        cache: SemanticCache | None,
        *,
        revisions: ModelRevisions,
        semantic: bool,
        observe: Callable[[str, str], None] = lambda _operation, _result: None,
    ) -> None:
        self._cache = cache
        self._revisions = revisions
        self._semantic = semantic
        self._observe = observe

    def place(self, request: Request) -> Place:
        """Return where the answer to ``request`` lies, or would."""
        namespace = namespace_of(request, self._revisions)
        return Place(
            namespace=namespace,
            key=answer_key(namespace, request),
            text=asked_text(request),
            searchable=self._semantic and is_lone_prompt(request),
        )

    def find_exact(self, place: Place, request: Request) -> FoundAnswer | None:
        """Return the answer to exactly this request."""
        if self._cache is None or request.cache_control.mode is CacheMode.BYPASS:
            return None
        hit = self._cache.lookup_exact(place.namespace, place.key)
        self._observe("exact", "miss" if hit is None else "hit")
        return None if hit is None else _found(hit)

    def find_similar(
        self, place: Place, request: Request, embedding: NDArray[np.float32] | None
    ) -> FoundAnswer | None:
        """Return the answer to a request that asks the same.

        Args:
            place: Of the request.
            request: For its wishes about the cache.
            embedding: Shape ``(dim,)``, unit norm; ``None`` where it is not to be trusted.
        """
        if self._cache is None or request.cache_control.mode is CacheMode.BYPASS:
            return None
        if embedding is None or not place.searchable:
            return None
        found = self._cache.lookup_semantic(place.namespace, place.text, embedding)
        if isinstance(found, CacheHit):
            self._observe("semantic", "hit")
            return _found(found)
        self._observe("semantic", found.reason.value)
        return None

    def store(
        self,
        place: Place,
        request: Request,
        outcome: DecideOutcome,
        embedding: NDArray[np.float32] | None,
    ) -> bool:
        """Store an answer where that is allowed; return whether it was."""
        if self._cache is None:
            return False
        refused = _refusal(request, outcome) or self._cache.insert(
            place.namespace,
            key=place.key,
            text=place.text,
            payload=dump_answer(outcome),
            embedding=embedding if place.searchable else None,
            decision_id=outcome.decision.decision_id,
            model_revision=outcome.model_revision,
            ttl_s=request.cache_control.ttl_s,
        )
        self._observe("store", "stored" if refused is None else refused.value)
        return refused is None

    def evict(self, tenant: str, key: str) -> bool:
        """Remove the tenant's answer of that key; return whether there was one."""
        return self._cache is not None and self._cache.evict(tenant, key)


def _found(hit: CacheHit) -> FoundAnswer:
    return FoundAnswer(
        stored=load_answer(hit.entry.payload),
        match=CacheMatch(
            similarity=hit.similarity,
            age_s=hit.age_s,
            key=hit.entry.key,
            origin_decision_id=hit.entry.decision_id,
        ),
    )


def _refusal(request: Request, outcome: DecideOutcome) -> StoreRefusal | None:
    return refusal_to_store(
        text=_person_text(request),
        finish_reason=outcome.finish_reason,
        has_tool_calls=bool(outcome.tool_calls),
        confident=_is_confident(outcome),
        caller_forbids=request.cache_control.mode is not CacheMode.DEFAULT,
        caller_allows_volatile=request.cache_control.cacheable,
    )


def _person_text(request: Request) -> str:
    """Return what may hold "now" or "my": user turns, or questions but not the state.

    A state is the data the questions are about, part of the key to the last letter.
    """
    if request.state is not None:
        return "\n".join(question.instructions for question in request.questions.values())
    return "\n".join(m.content for m in request.messages if m.role is Role.USER)


def _is_confident(outcome: DecideOutcome) -> bool:
    decision = outcome.decision
    if outcome.answered_by is AnsweredBy.FAST_TIER:
        return decision.reason is Reason.CONFIDENT
    if outcome.answered_by is not AnsweredBy.SLOW_TIER or decision.tier is Tier.TOOL:
        return False
    return all(
        answer.answer_confidence is None or answer.answer_confidence >= decision.threshold
        for answer in outcome.answers.values()
    )
