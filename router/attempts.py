"""Ask one tier until it answers what was asked, within its number of tries."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

import structlog

from router.clock import Clock
from router.domain import DecideOutcome, PathStep, Request, StepOutcome, Tier
from router.errors import TierUnavailable
from router.generation import answered_step, failed_step
from router.reading import check_deadline
from router.tiers import Attempt, InvalidTierAnswer, TextTier, TierFailed
from slow_tier.completion import Completion, CompletionRequest
from slow_tier.errors import InvalidAnswer

SETTINGS = {Tier.FAST: "fast_tier.text", Tier.SLOW: "slow_tier.upstreams"}
_TRIES = 2
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What to ask one tier, with what makes its answer one.

    Attributes:
        tier: Whom to ask.
        kind: Which tier it is.
        accept: Turns a completion into an outcome; raises `InvalidAnswer` for one that is not
            what was asked for.
        ask_again: What to ask after a failure, ``None`` to give up.
        record: Takes every step.
    """

    tier: TextTier
    kind: Tier
    accept: Callable[[Completion], DecideOutcome]
    ask_again: Callable[[TierFailed], CompletionRequest | None]
    record: Callable[[PathStep], None]

    async def answer(
        self,
        prompt: CompletionRequest,
        request: Request,
        *,
        start_by_s: float,
        stream: bool,
        clock: Clock,
    ) -> AsyncGenerator[str | DecideOutcome, None]:
        """Yield the text as it is generated when ``stream``, then the outcome.

        Args:
            prompt: What to ask first.
            request: Whose deadline holds.
            start_by_s: As for `TextTier.generate`.
            stream: Yield text before the whole of it was accepted.
            clock: For the deadline.

        Raises:
            TierFailed: The tier gave no answer, and no text was yielded.
            TierUnavailable: It failed after text was yielded, so nobody else may take over.
            DeadlinePassed: The deadline passed; nothing is generated after it.
        """
        for tries_left in reversed(range(_TRIES)):
            check_deadline(request, clock)
            sent = False
            deltas = self.tier.generate(
                prompt,
                deadline_s=request.deadline_s,
                start_by_s=start_by_s,
                stream=stream,
                on_attempt=self._failed,
            )
            try:
                async with aclosing(deltas):
                    async for delta in deltas:
                        if delta.text:
                            sent = True
                            yield delta.text
                        if delta.completion is not None:
                            yield self._accepted(delta.completion)
            except TierFailed as error:
                if sent:
                    msg = f"the answer broke off after its start ({error})"
                    raise TierUnavailable(msg, setting=SETTINGS[self.kind]) from error
                again = self.ask_again(error) if tries_left else None
                if again is None:
                    raise
                prompt = again
            else:
                return

    def _accepted(self, completion: Completion) -> DecideOutcome:
        step = answered_step(completion, kind=self.kind)
        try:
            outcome = self.accept(completion)
        except InvalidAnswer as error:
            self._record_failure(
                replace(step, outcome=StepOutcome.INVALID_ANSWER, detail=error.reason), error.reason
            )
            raise InvalidTierAnswer(upstream=error.upstream, detail=error.reason) from error
        self.record(step)
        return outcome

    def _failed(self, attempt: Attempt) -> None:
        step = failed_step(attempt, kind=self.kind)
        if step is not None:
            self._record_failure(step, attempt.detail or attempt.outcome)

    def _record_failure(self, step: PathStep, reason: str) -> None:
        """Record a step, its reason logged: an answer from elsewhere would hide an outage."""
        self.record(step)
        _log.warning(
            "attempt_failed",
            tier=step.tier.value,
            upstream=step.upstream,
            outcome=step.outcome.value,
            attempt_reason=reason,
        )
