"""Read a request with the encoder once, or recall what was decided on it a moment ago."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cache.decision_memory import DecisionMemory
from router.clock import Clock
from router.deciding import Decider
from router.domain import Decision, EncoderInput, Encoding, Reason, Request, Timings
from router.encoder_text import encoder_input
from router.errors import DeadlinePassed
from router.namespacing import ModelRevisions, decision_request_key, namespace_of
from router.stored_answer import dump_decision, load_decision


class TextEncoder(Protocol):
    """One forward pass a text."""

    @property
    def revision(self) -> str:
        """Identifies the weights."""
        ...

    @property
    def dim(self) -> int:
        """Length of the embedding."""
        ...

    async def encode(self, item: EncoderInput, *, deadline_s: float) -> Encoding:
        """Return what the encoder says about one input.

        Raises:
            DeadlinePassed: If the deadline passes before the input is run.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A request after the encoder.

    Attributes:
        decision: Where it goes.
        embedding: Shape ``(dim,)``, unit norm; ``None`` where similarity means little: the
            text was not read whole, or is unlike what the encoder knows.
        timings: What the encoder took; zero for a decision that was recalled.
    """

    decision: Decision
    embedding: NDArray[np.float32] | None
    timings: Timings


class Reader:
    """Encoder, decider and the memory of decisions.

    Args:
        encoder: Reads the requests.
        decider: Turns what it says into decisions.
        memory: Decisions by the callers' own keys.
        revisions: Models that a decision depends on.
        clock: For the deadline.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        decider: Decider,
        memory: DecisionMemory,
        *,
        revisions: ModelRevisions,
        clock: Clock,
    ) -> None:
        self._encoder = encoder
        self._decider = decider
        self._memory = memory
        self._revisions = revisions
        self._clock = clock

    def check(self, request: Request) -> None:
        """Refuse what no decision could be made on in time.

        Raises:
            RequestUnsatisfiable: If there is nothing to hold its cost limit against.
            DeadlinePassed: If its deadline is over.
        """
        self._decider.check_budget(request)
        check_deadline(request, self._clock)

    async def read(self, request: Request, *, rpc: str, mask_tools: bool) -> Reading:
        """Return the decision on ``request``.

        Args:
            request: What is asked.
            rpc: The call; decisions of different calls are not mixed.
            mask_tools: Leave tool routes out.

        Raises:
            DeadlinePassed: If the deadline passes before the decision.
        """
        key = ""
        if request.decision_key:
            key = decision_request_key(namespace_of(request, self._revisions), request, rpc=rpc)
            payload = self._memory.recall(request.tenant, request.decision_key, key)
            if payload is not None:
                decision, embedding = load_decision(payload)
                return Reading(decision=decision, embedding=embedding, timings=Timings())
        encoding = await self._encoder.encode(encoder_input(request), deadline_s=request.deadline_s)
        check_deadline(request, self._clock)
        decision = self._decider.decide(request, encoding, mask_tools=mask_tools)
        trusted = not encoding.truncated and encoding.in_distribution and encoding.language_known
        embedding = encoding.embedding if trusted else None
        # How much time was left is no part of the key, so what it decided is not kept.
        if request.decision_key and decision.reason is not Reason.DEADLINE:
            payload = dump_decision(decision, embedding)
            self._memory.remember(request.tenant, request.decision_key, key, payload)
        return Reading(
            decision=decision,
            embedding=embedding,
            timings=Timings(queue_ns=encoding.queue_ns, encode_ns=encoding.encode_ns),
        )


def check_deadline(request: Request, clock: Clock) -> None:
    """Refuse to start work whose result nobody waits for.

    Raises:
        DeadlinePassed: If the request's deadline is over.
    """
    if clock.monotonic_s() >= request.deadline_s:
        msg = "the deadline passed before the request was done"
        raise DeadlinePassed(msg)
