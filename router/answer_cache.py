"""Serve and store the answers of the pipeline in the cache.

Lookups run on the event loop: an exact one is a dictionary access, a semantic one a flat
search of one namespace (about a millisecond for 10 000 vectors of 256), less than handing it
to a thread would cost most requests.

What may serve a request is said by `_suitability`, what may be stored by `_refusal_to_store`;
`_search_vector` says for both which requests meet others than themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cache.admission import StoreRefusal, is_volatile, refusal_to_store
from cache.entry import CacheEntry, CacheHit, Namespace
from cache.semantic_cache import SemanticCache
from router.domain import (
    AnsweredBy,
    CacheMatch,
    CacheMode,
    DecideOutcome,
    Decision,
    Reason,
    Request,
    Role,
    Tier,
)
from router.namespacing import ModelRevisions, answer_key, asked_text, is_lone_prompt, namespace_of
from router.reading import Reading
from router.stored_answer import StoredAnswer, dump_answer, load_answer

_SIMILAR_TEXT_CHARS = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the answer to one request lies.

    Attributes:
        namespace: Requests that may share answers.
        key: Identifies exactly this request.
        text: What is asked.
    """

    namespace: Namespace
    key: str
    text: str


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
        )

    def may_share(self, request: Request) -> bool:
        """Return whether the answer to ``request`` may serve the same request of others."""
        return (
            self._cache is not None
            and request.cache_control.mode is CacheMode.DEFAULT
            and _suitability(request, None) is not None
        )

    def find_exact(self, place: Place, request: Request) -> FoundAnswer | None:
        """Return the answer to exactly this request, on which the decision was the same."""
        if self._cache is None or _suitability(request, None) is None:
            return None
        hit = self._cache.lookup_exact(place.namespace, place.key)
        self._observe("exact", "miss" if hit is None else "hit")
        return None if hit is None else _found(hit)

    def find_similar(self, place: Place, request: Request, reading: Reading) -> FoundAnswer | None:
        """Return the answer to a request that asks the same."""
        embedding = self._search_vector(request, reading)
        is_suitable = _suitability(request, reading.decision)
        if self._cache is None or embedding is None or is_suitable is None:
            return None
        found = self._cache.lookup_semantic(
            place.namespace, place.text, embedding, is_suitable=is_suitable
        )
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
        reading: Reading,
    ) -> bool:
        """Store an answer where that is allowed; return whether it was."""
        if self._cache is None:
            return False
        refused = _refusal_to_store(request, outcome) or self._cache.insert(
            place.namespace,
            key=place.key,
            text=place.text,
            payload=dump_answer(outcome, cacheable=request.cache_control.cacheable),
            embedding=self._search_vector(request, reading),
            decision_id=outcome.decision.decision_id,
            model_revision=outcome.model_revision,
            ttl_s=request.cache_control.ttl_s,
        )
        self._observe("store", "stored" if refused is None else refused.value)
        return refused is None

    def evict(self, tenant: str, key: str) -> bool:
        """Remove the tenant's answer of that key; return whether there was one."""
        return self._cache is not None and self._cache.evict(tenant, key)

    def _search_vector(self, request: Request, reading: Reading) -> NDArray[np.float32] | None:
        """Return by what similar requests find each other; ``None`` where they shall not."""
        if not self._semantic or not is_lone_prompt(request):
            return None
        # The guard reads both texts on the event loop; and the longer a text, the less of it
        # the decisive word is.
        short = len(asked_text(request)) <= _SIMILAR_TEXT_CHARS
        return reading.embedding if short else None


def _suitability(
    request: Request, decision: Decision | None
) -> Callable[[CacheEntry], bool] | None:
    """Return what tells whether a stored answer may serve ``request``; ``None``: none may.

    An answer that depends on the moment or the person serves only where both callers marked
    theirs cacheable. An answer of the fast tier serves only a request that the fast tier would
    have been trusted with; one of the slow tier serves all.

    Args:
        request: What is asked.
        decision: On the request; ``None`` for the answer to exactly this request, which needed
            the same mark to be stored and got the same decision.
    """
    control = request.cache_control
    volatile = is_volatile(_person_text(request))
    if control.mode is CacheMode.BYPASS or (volatile and not control.cacheable):
        return None
    if decision is None:
        return lambda _: True
    fast_will_do = decision.tier is Tier.FAST and decision.reason is Reason.CONFIDENT

    def is_suitable(entry: CacheEntry) -> bool:
        stored = load_answer(entry.payload)
        lasting = not volatile and not is_volatile(entry.text)
        return (lasting or (control.cacheable and stored.cacheable)) and (
            fast_will_do or stored.answered_by is AnsweredBy.SLOW_TIER
        )

    return is_suitable


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


def _refusal_to_store(request: Request, outcome: DecideOutcome) -> StoreRefusal | None:
    """Return why an answer may not be stored; ``None`` when it may."""
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
    """Return whether the answer of a similar request to this one would be as good.

    The slow tier's is, unless the encoder expects the answer to come from outside the model or
    a typed answer is less probable than the threshold; the fast tier's is where the encoder was
    confident that it would answer well.
    """
    decision = outcome.decision
    if outcome.answered_by is AnsweredBy.FAST_TIER:
        return decision.reason is Reason.CONFIDENT
    if outcome.answered_by is not AnsweredBy.SLOW_TIER or decision.tier is Tier.TOOL:
        return False
    return all(
        answer.answer_confidence is None or answer.answer_confidence >= decision.threshold
        for answer in outcome.answers.values()
    )
