"""Get a text answer from the tier a decision chose, escalating when that tier cannot.

Escalation goes one way, from fast to slow. A request that was sent to the slow tier is never
answered by the fast one instead: the encoder expects the fast model to answer it badly, so a
downgrade would trade a retryable error for a wrong answer. A second upstream is how an
operator buys availability.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from router.attempts import SETTINGS, Asking
from router.clock import Clock
from router.domain import DecideOutcome, Decision, PathStep, Request, Tier
from router.errors import RequestUnsatisfiable, RouterError, TierUnavailable
from router.generation import NOT_CONFIGURED, completion_request, outcome_of
from router.tiers import InvalidTierAnswer, TextTier, TierFailed
from slow_tier.completion import Completion, CompletionRequest
from slow_tier.errors import InvalidAnswer

SLOW_SETTING = SETTINGS[Tier.SLOW]
FAST_SETTING = SETTINGS[Tier.FAST]
# Of the time left, the most that a fast tier may take before the slow one gets its turn.
_FAST_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """The models that can answer, with what bounds them.

    Attributes:
        fast: The fast tier for text; ``None`` = not configured.
        slow: The slow tier; ``None`` = not configured.
        fast_timeout_s: Longest wait for an answer of the fast tier to begin, seconds, where the
            slow tier can take over.
        output_tokens: Most tokens a request may generate.
        over_budget: Whether a slow answer would cost more than the caller allows.
        observe: Told of every step at once, so that those of a request that fails count too.
    """

    fast: TextTier | None
    slow: TextTier | None
    fast_timeout_s: float
    output_tokens: int
    over_budget: Callable[[Request, Decision], bool]
    observe: Callable[[PathStep], None] = lambda _: None

    def recording(self, path: list[PathStep]) -> Callable[[PathStep], None]:
        """Return what appends a step to ``path``, once it is observed."""

        def record(step: PathStep) -> None:
            self.observe(step)
            path.append(step)

        return record


class TextAnswering:
    """Answers requests that hold a conversation.

    Args:
        tiers: Who can answer.
        clock: For the deadline and for durations.
    """

    def __init__(self, tiers: Tiers, *, clock: Clock) -> None:
        self._tiers = tiers
        self._clock = clock

    async def answer(
        self, request: Request, decision: Decision, *, stream: bool
    ) -> AsyncGenerator[str | DecideOutcome, None]:
        """Yield the text as it is generated when ``stream``, then the outcome.

        Text that has to satisfy a schema is not streamed: once a part was sent nobody else
        can take over, so it is checked first. The outcome's timings hold what the tiers took.

        Raises:
            TierUnavailable: No tier answered, or one broke off after text was sent.
            RequestUnsatisfiable: The schema or the cost limit leaves nobody to answer.
            DeadlinePassed: The deadline passed; nothing is generated after it.
        """
        path: list[PathStep] = []
        record = self._tiers.recording(path)
        failure: TierFailed | None = None
        fast_ns = 0
        for kind in (Tier.FAST, Tier.SLOW) if decision.tier is Tier.FAST else (Tier.SLOW,):
            tier = self._tier(kind, request, decision, failure)
            if tier is None:
                record(NOT_CONFIGURED)
                continue
            started_ns = self._clock.perf_ns()
            try:
                parts = self._generate(tier, kind, request, decision, stream=stream, record=record)
                async with aclosing(parts):
                    async for part in parts:
                        if isinstance(part, str):
                            yield part
                            continue
                        if kind is Tier.FAST:
                            fast_ns = self._clock.perf_ns() - started_ns
                        yield replace(
                            part,
                            path=tuple(path),
                            degraded=failure is not None,
                            timings=replace(part.timings, fast_ns=fast_ns),
                        )
            except TierFailed as error:
                failure = error
                if kind is Tier.FAST:
                    fast_ns = self._clock.perf_ns() - started_ns
            else:
                return
        raise _nobody_answered(request, failure) from failure

    def _tier(
        self, kind: Tier, request: Request, decision: Decision, fast_failure: TierFailed | None
    ) -> TextTier | None:
        """Return the tier to ask next; ``None`` when it is the fast one, which may be missing.

        Raises:
            TierUnavailable: There is no slow tier.
            RequestUnsatisfiable: The caller allows less than the slow tier costs.
        """
        if kind is Tier.FAST:
            return self._tiers.fast
        if self._tiers.over_budget(request, decision):
            if fast_failure is not None:
                msg = "the fast tier failed, the slow tier costs more than budget.max_cost_usd"
                raise TierUnavailable(msg, setting=FAST_SETTING) from fast_failure
            msg = f"the slow tier is expected to cost more; cheaper is a {FAST_SETTING}"
            raise RequestUnsatisfiable(msg, field="budget.max_cost_usd")
        if self._tiers.slow is None:
            failed = "" if fast_failure is None else "the fast tier failed and "
            msg = f"{failed}the slow tier, which has to answer this, is not configured"
            raise TierUnavailable(msg, setting=SLOW_SETTING) from fast_failure
        return self._tiers.slow

    async def _generate(
        self,
        tier: TextTier,
        kind: Tier,
        request: Request,
        decision: Decision,
        *,
        stream: bool,
        record: Callable[[PathStep], None],
    ) -> AsyncGenerator[str | DecideOutcome, None]:
        """Yield what one tier generates, as `Asking.answer` does."""
        prompt = completion_request(
            request,
            decision,
            output_tokens=self._tiers.output_tokens,
            with_tools=kind is Tier.SLOW,
        )

        def accept(completion: Completion) -> DecideOutcome:
            cut = prompt.response_schema is not None and completion.finish_reason != "stop"
            if cut and kind is Tier.FAST:
                raise InvalidAnswer(upstream=completion.upstream, reason="cut short")
            revision = tier.model_revision(completion)
            return outcome_of(completion, decision, kind=kind, model_revision=revision)

        def ask_again(failure: TierFailed) -> CompletionRequest | None:
            # The slow tier answers an invalid answer of the fast one.
            once_more = kind is Tier.SLOW and isinstance(failure, InvalidTierAnswer)
            return prompt if once_more else None

        asking = Asking(tier=tier, kind=kind, accept=accept, ask_again=ask_again, record=record)
        parts = asking.answer(
            prompt,
            request,
            start_by_s=self._start_by_s(kind, request, decision),
            stream=stream and prompt.response_schema is None,
            clock=self._clock,
        )
        async with aclosing(parts):
            async for part in parts:
                yield part

    def _start_by_s(self, kind: Tier, request: Request, decision: Decision) -> float:
        """Return when to stop waiting for a tier to begin: early where another can take over."""
        tiers = self._tiers
        if kind is Tier.SLOW or tiers.slow is None or tiers.over_budget(request, decision):
            return request.deadline_s
        now_s = self._clock.monotonic_s()
        share_s = _FAST_SHARE * (request.deadline_s - now_s)
        return now_s + min(tiers.fast_timeout_s, share_s)


def _nobody_answered(request: Request, failure: TierFailed | None) -> RouterError:
    if isinstance(failure, InvalidTierAnswer) and request.response_schema is not None:
        msg = f"no tier gave an answer that satisfies it ({failure.detail})"
        return RequestUnsatisfiable(msg, field="response_schema")
    msg = f"no answer from {failure}"
    return TierUnavailable(msg, setting=SLOW_SETTING)
