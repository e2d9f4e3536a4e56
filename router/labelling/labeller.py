"""Turn prompts into labels by asking both models of a pair."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from router.labelling.asking import Respondent
from router.labelling.grading import exact_score, schema_score
from router.labelling.journal import Answer
from router.labelling.judging import (
    Comparison,
    Verdict,
    combine,
    has_verdict,
    judge_request,
    judged_without_asking,
    verdict_of,
)
from router.labelling.prompts import Grading, Prompt
from router.training.row_problems import Place
from router.training.user_rows import UserRow
from slow_tier.completion import ChatMessage, CompletionRequest
from slow_tier.errors import SlowTierError

# The reference model "answers acceptably" from here on, as in the router's own labels.
ACCEPTABLE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a prompt turned out to need.

    Attributes:
        prompt: The prompt.
        comparison: The scores of both models' answers.
        fast: The fast model's answer.
        slow: The slow model's answer.
    """

    prompt: Prompt
    comparison: Comparison
    fast: Answer
    slow: Answer

    @property
    def route(self) -> Literal["fast", "slow"]:
        """``fast`` when the fast model's answer is acceptable."""
        return "fast" if self.comparison.weak_score >= ACCEPTABLE else "slow"

    def row(self) -> UserRow:
        """Return the training row."""
        return UserRow(
            text=self.prompt.text,
            route=self.route,
            weight=self.comparison.weight,
            weak_score=self.comparison.weak_score,
            strong_score=self.comparison.strong_score,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A prompt without a label.

    Attributes:
        place: Where it stands.
        reason: Who failed, how; holds no text of user or model.
    """

    place: Place
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The two models.

    Attributes:
        fast: The local one.
        slow: The one that costs more; judges where a judge is needed.
        max_output_tokens: Most tokens of an answer, >= 1.
        seed: Sent with every request, for servers that sample reproducibly.
    """

    fast: Respondent
    slow: Respondent
    max_output_tokens: int
    seed: int


async def label_prompts(
    prompts: Iterable[Prompt],
    pair: Pair,
    *,
    concurrency: int,
    on_result: Callable[[Label | Failure], None],
    going_on: Callable[[], bool] = lambda: True,
) -> None:
    """Label every prompt, in no particular order.

    Args:
        prompts: What to ask.
        pair: Whom to ask.
        concurrency: Prompts at a time, so the most calls at a time to each model; >= 1.
        on_result: Called once a prompt, as soon as its label is known or it failed.
        going_on: Asked before each prompt; False leaves out what is not begun.

    Raises:
        ConfigError: If the journal cannot be written.
    """
    waiting = iter(prompts)
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(_work(waiting, pair, on_result, going_on))
    except ExceptionGroup as group:
        # Each worker ends with the first fault, and they share the disk: one speaks for all.
        raise group.exceptions[0] from None


async def _work(
    waiting: Iterator[Prompt],
    pair: Pair,
    on_result: Callable[[Label | Failure], None],
    going_on: Callable[[], bool],
) -> None:
    while going_on() and (prompt := next(waiting, None)) is not None:
        on_result(await _label(prompt, pair))


async def _label(prompt: Prompt, pair: Pair) -> Label | Failure:
    request = CompletionRequest(
        messages=(ChatMessage(role="user", content=prompt.text),),
        # The most probable answer: what is to be learnt is the prompt, not the dice.
        temperature=0.0,
        max_output_tokens=pair.max_output_tokens,
        response_schema=prompt.schema,
        seed=pair.seed,
    )
    # Both end, whatever the other does: an answer that was paid for is kept.
    answers = await asyncio.gather(
        pair.fast.ask(request), pair.slow.ask(request), return_exceptions=True
    )
    match answers:
        case [Answer() as fast, Answer() as slow]:
            pass
        case _:
            return Failure(place=prompt.place, reason=_reasons(answers))
    try:
        comparison = await _compare(prompt, fast, slow, pair)
    except SlowTierError as error:
        return Failure(place=prompt.place, reason=f"judge: {error.reason}")
    except ValueError as error:
        return Failure(place=prompt.place, reason=str(error))
    return Label(prompt=prompt, comparison=comparison, fast=fast, slow=slow)


def _reasons(answers: Iterable[Answer | BaseException]) -> str:
    """Say what failed; anything that is no failure of a server is a bug and passes through."""
    reasons = []
    for answer in answers:
        if isinstance(answer, SlowTierError):
            reasons.append(f"{answer.upstream}: {answer.reason}")
        elif isinstance(answer, BaseException):
            raise answer
    return "; ".join(reasons)


async def _compare(prompt: Prompt, fast: Answer, slow: Answer, pair: Pair) -> Comparison:
    if prompt.grading is Grading.EXACT:
        return Comparison(
            weak_score=exact_score(fast, prompt.answers),
            strong_score=exact_score(slow, prompt.answers),
        )
    if prompt.grading is Grading.SCHEMA:
        assert prompt.schema is not None, "read_prompts checks it"
        return Comparison(
            weak_score=schema_score(fast, prompt.schema),
            strong_score=schema_score(slow, prompt.schema),
        )
    return judged_without_asking(fast, slow) or combine(
        await _verdict(prompt, fast, slow, pair), await _verdict(prompt, slow, fast, pair)
    )


async def _verdict(prompt: Prompt, first: Answer, second: Answer, pair: Pair) -> Verdict:
    request = judge_request(
        prompt.text,
        first,
        second,
        right=prompt.answers,
        max_output_tokens=pair.max_output_tokens,
        seed=pair.seed,
    )
    # One without a verdict is asked for again by the next run: it is no label to keep.
    return verdict_of(await pair.slow.ask(request, worth_keeping=has_verdict))
