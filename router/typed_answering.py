"""Get answers to typed questions, or the cause why a person should look.

No decision model is loaded in this version, so the slow tier answers every typed question as
one completion constrained by a JSON schema. Whatever goes wrong there ends in manual review
with its cause, never in a refusal or a default; only a missing slow tier is an error, since no
request of this kind could ever be answered.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from router.answering import SLOW_SETTING, Tiers
from router.attempts import Asking
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
from router.generation import NOT_CONFIGURED, outcome_of
from router.tiers import InvalidTierAnswer, TierFailed, TierRefused
from slow_tier import questions as typed
from slow_tier.completion import Completion, CompletionRequest
from slow_tier.json_schema import JsonSchema


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
        prompt = self._prompt(request, questions)

        def accept(completion: Completion) -> DecideOutcome:
            answers = typed.parse_answers(
                completion.text,
                questions,
                token_logprobs=completion.token_logprobs,
                upstream=completion.upstream,
            )
            revision = slow.model_revision(completion)
            return replace(
                outcome_of(completion, decision, kind=Tier.SLOW, model_revision=revision),
                text="",
                answers={name: _answered(answer) for name, answer in answers.items()},
            )

        def ask_again(failure: TierFailed) -> CompletionRequest | None:
            if isinstance(failure, TierRefused):
                # Some servers refuse the whole request for asking for log-probabilities.
                return replace(prompt, want_logprobs=False)
            if isinstance(failure, InvalidTierAnswer):
                # At temperature 0 it would give the same answer again.
                return replace(prompt, temperature=decision.sampling_temperature)
            return None

        asking = Asking(
            tier=slow, kind=Tier.SLOW, accept=accept, ask_again=ask_again, record=record
        )
        parts = asking.answer(
            prompt, request, start_by_s=request.deadline_s, stream=False, clock=self._clock
        )
        try:
            async with aclosing(parts):
                async for part in parts:
                    if isinstance(part, DecideOutcome):
                        return replace(part, path=tuple(path))
        except TierFailed as failure:
            return _manual_review(decision, path, f"slow tier: {failure}")
        msg = "a tier ended with neither answer nor failure"
        raise AssertionError(msg)

    def _prompt(self, request: Request, questions: dict[str, typed.Question]) -> CompletionRequest:
        """Return all questions as one completion.

        A question has one right answer, which the most probable tokens spell; a temperature is
        for texts that may be worded in many ways.
        """
        assert request.state is not None
        return CompletionRequest(
            messages=typed.question_messages(request.state.text, questions),
            temperature=0.0 if request.temperature is None else request.temperature,
            max_output_tokens=request.max_output_tokens or self._tiers.output_tokens,
            response_schema=JsonSchema(typed.question_schema(questions)),
            want_logprobs=True,
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
