"""Estimate what routing between two models saves at equal quality.

Given both models' scores and costs a prompt, a rule sends some prompts to the fast model and
the rest to the slow one. Its saving is the share of the all-slow cost that it avoids; its
quality change is its mean score minus the all-slow mean score. "At equal quality" is the
largest saving whose quality change is at least minus a margin.

The oracle knows every score beforehand, so its saving is a perfect router's: an upper bound.
The blind mix sends a random share to the fast model, which costs quality as soon as the fast
model is worse on average: a lower bound for a router worth having. Intervals are percentile
bootstrap over prompts (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, chapter
13); every rule sees the same resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
MARGINS = (0.0, 0.01)
_CELLS = 4_000_000  # of a block of resamples, 32 MB a matrix
_ROUNDING = 1e-9

Floats = NDArray[np.float64]
# Resampled counts (resamples, prompts) -> per resample: share sent fast, saving, quality change.
Rule = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Scores and costs of both models, each of shape ``(prompts,)``, float64.

    Attributes:
        weak: Fast model's score, in [0, 1].
        strong: Slow model's score, in [0, 1].
        fast_cost: Of the fast model's answer, >= 0, in any unit.
        slow_cost: Of the slow model's answer, >= 0 with a sum > 0, in the same unit.
    """

    weak: Floats
    strong: Floats
    fast_cost: Floats
    slow_cost: Floats

    def __post_init__(self) -> None:
        shapes = {a.shape for a in (self.weak, self.strong, self.fast_cost, self.slow_cost)}
        if len(shapes) != 1 or self.weak.ndim != 1 or not self.weak.size:
            msg = f"scores and costs must share one shape (prompts,), have {sorted(shapes)}"
            raise ValueError(msg)
        if not (np.isfinite(self.slow_cost).all() and self.slow_cost.sum() > 0.0):
            msg = "slow_cost: must be finite with a sum > 0"
            raise ValueError(msg)

    @property
    def loss(self) -> Floats:
        """Quality that each prompt loses when it goes fast."""
        return self.strong - self.weak

    @property
    def spared(self) -> Floats:
        """Cost that each prompt saves when it goes fast."""
        return self.slow_cost - self.fast_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its 95 % interval; without one where there are fewer than two prompts."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a rule comes to.

    Attributes:
        fast_share: Share of prompts sent to the fast model, in [0, 1].
        saving: Share of the all-slow cost that is saved; negative when it costs more.
        quality_change: Mean score minus the all-slow mean score, in [-1, 1].
    """

    fast_share: Estimate
    saving: Estimate
    quality_change: Estimate


def savings(scored: Scored, rules: Sequence[Rule], *, seed: int) -> list[Saving]:
    """Return what each rule comes to, with intervals."""
    prompts = scored.weak.size
    once = np.ones((1, prompts))
    values = [rule(once)[:, 0] for rule in rules]
    if prompts < 2:
        return [_saving(value, None) for value in values]
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS // prompts)
    drawn: list[list[Floats]] = [[] for _ in rules]
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        counts = rng.multinomial(prompts, np.full(prompts, 1.0 / prompts), size).astype(float)
        for index, rule in enumerate(rules):
            drawn[index].append(rule(counts))
    return [
        _saving(value, np.percentile(np.hstack(parts), [2.5, 97.5], axis=1))
        for value, parts in zip(values, drawn, strict=True)
    ]


def fixed(scored: Scored, fast: NDArray[np.bool_]) -> Rule:
    """Return the rule that sends the marked prompts fast; ``fast`` of shape ``(prompts,)``."""

    def rule(counts: Floats) -> Floats:
        sent = counts * fast
        return _figures(scored, counts, sent.sum(1), sent @ scored.spared, sent @ scored.loss)

    return rule


def never_worse(scored: Scored) -> Rule:
    """Return the oracle that sends fast wherever that model is at least as good, and cheaper."""
    return fixed(scored, (scored.loss <= 0.0) & (scored.spared > 0.0))


def oracle(scored: Scored, *, margin: float) -> Rule:
    """Return the oracle that may lose on one prompt what it gains on another.

    Prompts go fast in the order of quality lost a unit of cost saved, the best first: optimal
    where every prompt has the same costs, close to it elsewhere (the greedy rule of the
    fractional knapsack).

    Args:
        scored: The prompts.
        margin: Quality it may lose in all, >= 0.
    """
    a_unit = scored.loss / np.maximum(scored.spared, _ROUNDING)
    return _by_order(scored, np.argsort(a_unit, kind="stable"), None, margin=margin)


def by_router(scored: Scored, p_fast: Floats, *, margin: float) -> Rule:
    """Return the rule that sends fast in the order of a router's P(fast), the highest first.

    How far down it goes is chosen on the same prompts, so the figure is what the order is
    worth, not what a threshold set beforehand would give. Prompts of equal P(fast) go together.

    Args:
        scored: The prompts.
        p_fast: Shape ``(prompts,)``; negative = never fast.
        margin: Quality it may lose in all, >= 0.
    """
    order = np.argsort(-p_fast, kind="stable")
    ranked = p_fast[order]
    ends = np.append(ranked[1:] != ranked[:-1], [True]) & (ranked >= 0.0)
    return _by_order(scored, order, ends, margin=margin)


def blind(scored: Scored, *, margin: float) -> Rule:
    """Return the rule that sends a random share fast, as large as the margin allows."""

    def rule(counts: Floats) -> Floats:
        prompts = counts.sum(1)
        lost = counts @ scored.loss
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(lost <= _ROUNDING, 1.0, np.minimum(1.0, margin * prompts / lost))
        # A share that costs more than it saves is not worth its quality either.
        spared = counts @ scored.spared
        share = np.where(spared > 0.0, share, 0.0)
        return _figures(scored, counts, share * prompts, share * spared, share * lost)

    return rule


def _by_order(
    scored: Scored, order: NDArray[np.intp], ends: NDArray[np.bool_] | None, *, margin: float
) -> Rule:
    """Return the rule that cuts ``order`` where it saves most within the margin.

    ``ends`` marks the positions after which a cut is possible, None = everywhere.
    """

    def rule(counts: Floats) -> Floats:
        ranked = counts[:, order]
        lost = np.cumsum(ranked * scored.loss[order], axis=1)
        spared = np.cumsum(ranked * scored.spared[order], axis=1)
        allowed = lost <= margin * counts.sum(1, keepdims=True) + _ROUNDING
        if ends is not None:
            allowed &= ends
        best = np.where(allowed, spared, -np.inf).argmax(axis=1)
        rows = np.arange(len(counts))
        # Nothing allowed, or nothing saved: all go slow.
        some = allowed[rows, best] & (spared[rows, best] > 0.0)
        sent = np.cumsum(ranked, axis=1)[rows, best]
        return _figures(
            scored, counts, sent * some, spared[rows, best] * some, lost[rows, best] * some
        )

    return rule


def _figures(scored: Scored, counts: Floats, sent: Floats, spared: Floats, lost: Floats) -> Floats:
    prompts = counts.sum(1)
    cost = counts @ scored.slow_cost
    # A resample may hold only prompts that cost nothing.
    saving = np.divide(spared, cost, out=np.zeros_like(cost), where=cost > 0.0)
    # 0.0 - x has no negative zero to print.
    return np.stack([sent / prompts, saving, 0.0 - lost / prompts])


def _saving(value: Floats, interval: Floats | None) -> Saving:
    def estimate(index: int) -> Estimate:
        low, high = (None, None) if interval is None else interval[:, index]
        return Estimate(
            value=float(value[index]),
            low=None if low is None else float(low),
            high=None if high is None else float(high),
        )

    return Saving(fast_share=estimate(0), saving=estimate(1), quality_change=estimate(2))
