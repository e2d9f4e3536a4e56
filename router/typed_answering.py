"""Get answers to typed questions, or the cause why a person should look.

No decision model is loaded in this version, so the slow tier answers every typed question as
one completion constrained by a JSON schema. Whatever goes wrong there ends in manual review
with its cause, never in a refusal or a default; only a missing slow tier is an error, since no
request of this kind could ever be answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from router.answering import SLOW_SETTING, Tiers
from router.clock import Clock
from router.domain import (
    Answer,
    AnsweredBy,
    DecideOutcome,
    Decision,
    PathStep,
    Question,
    QuestionType,
    Request,
    Tier,
)
from router.errors import TierUnavailable
from router.generation import NOT_CONFIGURED, answered_step, failed_step, outcome_of
from router.reading import check_deadline
from router.tiers import Attempt, InvalidTierAnswer, TextTier, TierFailed
from slow_tier import questions as typed
from slow_tier.completion import Completion, CompletionRequest
from slow_tier.errors import InvalidAnswer

_TRIES = 2
_REJECTED = "rejected"


class TypedAnswering:
    """Answers requests that hold a state with questions.

    Args:
        tiers: Who can answer.
        clock: For the deadline.
    """

    def __init__(self, tiers: Tiers, *, clock: Clock) -> None:
        self._tiers = tiers
        self._clock = clock

    async def answer(self, request: Request, decision: Decision) -> DecideOutcome:
        """Return valid answers to all questions, or manual review with the cause.

        Raises:
            TierUnavailable: No slow tier is configured.
            DeadlinePassed: The deadline passed; nothing is generated after it.
        """
        slow = self._tiers.slow
        if slow is None:
            msg = "typed questions need the slow tier, which is not configured"
            raise TierUnavailable(msg, setting=SLOW_SETTING)
        path: list[PathStep] = []
        record = self._tiers.recording(path)
        record(NOT_CONFIGURED)
        if self._tiers.over_budget(request, decision):
            cause = "the slow tier is expected to cost more than budget.max_cost_usd"
            return _manual_review(decision, path, cause)
        questions = {name: _asked(question) for name, question in request.questions.items()}
        failure: TierFailed | None = None
        for _ in range(_TRIES):
            try:
                # Some servers refuse the whole request for asking for log-probabilities.
                want_logprobs = failure is None or failure.detail != _REJECTED
                outcome = await self._ask(
                    slow, request, decision, questions, record, want_logprobs=want_logprobs
                )
            except TierFailed as error:
                failure = error
                if not isinstance(error, InvalidTierAnswer) and error.detail != _REJECTED:
                    break
            else:
                return replace(outcome, path=tuple(path))
        return _manual_review(decision, path, f"slow tier: {failure}")

    async def _ask(
        self,
        tier: TextTier,
        request: Request,
        decision: Decision,
        questions: dict[str, typed.Question],
        record: Callable[[PathStep], None],
        *,
        want_logprobs: bool,
    ) -> DecideOutcome:
        """Return valid answers; every try is recorded."""
        assert request.state is not None

        def failed(attempt: Attempt) -> None:
            step = failed_step(attempt, kind=Tier.SLOW)
            if step is not None:
                record(step)

        check_deadline(request, self._clock)
        prompt = CompletionRequest(
            messages=typed.question_messages(request.state.text, questions),
            temperature=decision.sampling_temperature,
            max_output_tokens=request.max_output_tokens or self._tiers.output_tokens,
            response_schema=typed.question_schema(questions),
            want_logprobs=want_logprobs,
        )
        completion: Completion | None = None
        async for delta in tier.generate(
            prompt, deadline_s=request.deadline_s, stream=False, on_attempt=failed
        ):
            completion = delta.completion or completion
        assert completion is not None
        try:
            answers = typed.parse_answers(
                completion.text,
                questions,
                token_logprobs=completion.token_logprobs,
                upstream=completion.upstream,
            )
        except InvalidAnswer as error:  # an answer that the token limit cut
            invalid = Attempt(
                upstream=completion.upstream,
                outcome=error.outcome,
                elapsed_ns=completion.total_ns,
                detail=error.reason,
            )
            failed(invalid)
            raise InvalidTierAnswer(upstream=error.upstream, detail=error.reason) from error
        record(answered_step(completion, kind=Tier.SLOW))
        outcome = outcome_of(
            completion, decision, kind=Tier.SLOW, model_revision=tier.model_revision(completion)
        )
        return replace(
            outcome,
            text="",
            answers={name: _answered(answer) for name, answer in answers.items()},
        )


def _asked(question: Question) -> typed.Question:
    """Return the question in the words of the slow tier."""
    is_choice = question.type is QuestionType.CHOICE
    is_score = question.type is QuestionType.SCORE
    return typed.Question(
        kind=question.type.value,
        instructions=question.instructions,
        options=tuple(
            typed.Option(label=label, description=description)
            for label, description in (question.options if is_choice else ())
        ),
        levels=tuple(criterion for _, criterion in (question.options if is_score else ())),
    )


def _answered(answer: typed.Answer) -> Answer:
    """Return the answer in the domain's words."""
    value = next(v for v in (answer.choice, answer.score, answer.noul) if v is not None)
    return Answer(
        type=QuestionType(answer.kind),
        value=value,
        probabilities=answer.probabilities,
        confidence=answer.confidence,
        answer_confidence=max(answer.probabilities.values(), default=None),
    )


def _manual_review(decision: Decision, path: list[PathStep], cause: str) -> DecideOutcome:
    return DecideOutcome(
        decision=decision,
        answered_by=AnsweredBy.MANUAL_REVIEW,
        finish_reason="",
        path=tuple(path),
        manual_review_cause=cause,
    )
