"""Put a price on each model's answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from router.errors import ConfigError
from router.labelling.journal import Answer
from router.labelling.labeller import Label
from router.labelling.saving import Floats, Scored

FAST_COST, SLOW_COST = 1.0, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPrice:
    """The same price for every answer, >= 0, in any unit."""

    cost: float

    def __str__(self) -> str:
        return f"{self.cost:g} an answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrice:
    """US dollars a million tokens, each >= 0."""

    input_usd: float
    output_usd: float

    def __str__(self) -> str:
        return f"{self.input_usd:g} in, {self.output_usd:g} out USD a million tokens"

    def of(self, answer: Answer) -> float:
        """Return an answer's cost in US dollars, NaN where its tokens were not counted."""
        read, written = answer.prompt_tokens, answer.completion_tokens
        if read is None or written is None:
            return math.nan
        return (read * self.input_usd + written * self.output_usd) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPrice:
    """Prices of both models, in one unit."""

    fast: AnswerPrice | TokenPrice
    slow: AnswerPrice | TokenPrice

    def __str__(self) -> str:
        return f"fast {self.fast}, slow {self.slow}"


def parse_prices(
    *,
    fast_cost: float | None,
    slow_cost: float | None,
    fast_tokens: str | None,
    slow_tokens: str | None,
) -> PairPrice:
    """Return the prices that options name, 1 and 10 an answer where they name none.

    Args:
        fast_cost: Of one answer.
        slow_cost: Of one answer.
        fast_tokens: ``INPUT:OUTPUT``, US dollars a million tokens.
        slow_tokens: The same.

    Raises:
        ConfigError: Naming the option.
    """
    if (fast_tokens is None) != (slow_tokens is None):
        msg = "--fast-token-usd and --slow-token-usd go together: costs need one unit"
        raise ConfigError(msg)
    if fast_tokens is None or slow_tokens is None:
        fast = FAST_COST if fast_cost is None else fast_cost
        slow = SLOW_COST if slow_cost is None else slow_cost
        for option, cost, least in (("--fast-cost", fast, True), ("--slow-cost", slow, False)):
            if not (math.isfinite(cost) and (cost >= 0.0 if least else cost > 0.0)):
                msg = f"{option}: must be finite and {'>= 0' if least else '> 0'}"
                raise ConfigError(msg)
        return PairPrice(fast=AnswerPrice(cost=fast), slow=AnswerPrice(cost=slow))
    if fast_cost is not None or slow_cost is not None:
        msg = "--fast-token-usd and --slow-token-usd exclude --fast-cost and --slow-cost"
        raise ConfigError(msg)
    slow_price = _token_price("--slow-token-usd", slow_tokens)
    if slow_price.input_usd + slow_price.output_usd == 0.0:
        msg = "--slow-token-usd: must not be free; nothing could be saved"
        raise ConfigError(msg)
    return PairPrice(fast=_token_price("--fast-token-usd", fast_tokens), slow=slow_price)


def score_and_price(labels: Sequence[Label], prices: PairPrice) -> tuple[Scored, int]:
    """Return scores with costs, and how many answers had to be given the mean cost.

    An answer whose tokens the server did not count costs the mean of its model's others.

    Raises:
        ConfigError: If a model is priced by tokens and its server never counts them.
    """
    fast, fast_uncounted = _costs("fast", [label.fast for label in labels], prices.fast)
    slow, slow_uncounted = _costs("slow", [label.slow for label in labels], prices.slow)
    scored = Scored(
        weak=np.array([label.comparison.weak_score for label in labels]),
        strong=np.array([label.comparison.strong_score for label in labels]),
        fast_cost=fast,
        slow_cost=slow,
    )
    return scored, fast_uncounted + slow_uncounted


def _costs(
    name: str, answers: Sequence[Answer], price: AnswerPrice | TokenPrice
) -> tuple[Floats, int]:
    if isinstance(price, AnswerPrice):
        return np.full(len(answers), price.cost), 0
    costs = np.array([price.of(answer) for answer in answers])
    unknown = np.isnan(costs)
    if unknown.all():
        msg = f"--{name}-token-usd: the server counts no tokens; give --fast-cost and --slow-cost"
        raise ConfigError(msg)
    costs[unknown] = costs[~unknown].mean()
    return costs, int(unknown.sum())


def _token_price(option: str, text: str) -> TokenPrice:
    parts = text.split(":")
    try:
        read, written = map(float, parts)
    except ValueError:
        read = written = math.nan
    if not (0.0 <= read < math.inf and 0.0 <= written < math.inf):
        msg = f"{option}: must be INPUT:OUTPUT, US dollars a million tokens, e.g. 0.15:0.60"
        raise ConfigError(msg)
    return TokenPrice(input_usd=read, output_usd=written)
