"""Decide a tier from calibrated probabilities: a pure function behind a Protocol.

The default compares the winning route's probability with one threshold and sends everything
doubtful to the slow tier (selective classification with a reject option: Geifman & El-Yaniv,
NeurIPS 2017, arXiv:1705.08500). A custom policy is any object with the same method, named
``package:object`` in ``policy.implementation``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from router.domain import Reason, Tier


class PolicyScore(enum.StrEnum):
    """Which number is compared with the threshold for a fast route."""

    P_FAST = "p_fast"
    STRONG_GAIN = "strong_gain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Everything a policy may look at.

    Attributes:
        probabilities: Calibrated, by route name, masked routes absent; they sum to 1.
        tiers: Tier by route name, for at least the routes in ``probabilities``.
        threshold: Probability in [0, 1] a route has to reach.
        score: Which number decides for fast routes.
        strong_gain: Expected strong minus weak score, in [-1, 1].
        typed: The request asks typed questions.
        typed_to_fast: Typed questions go to a loaded decision model whatever the
            probabilities say.
        truncated: The encoder did not read all of the input.
        language_known: The input is in one of the encoder's languages.
        in_distribution: The input resembles what the encoder was trained on.
        remaining_s: Time left before the deadline, seconds.
        slow_floor_s: Less time than this is not worth a slow call, seconds; 0 = never.
        max_cost_usd: The caller's limit, ``None`` = none.
        slow_cost_usd: Expected cost of a slow answer, ``None`` = no limit was asked for.
        min_quality: Replaces ``threshold`` for this request, ``None`` = keep.
    """

    probabilities: Mapping[str, float]
    tiers: Mapping[str, Tier]
    threshold: float
    score: PolicyScore = PolicyScore.P_FAST
    strong_gain: float = 0.0
    typed: bool = False
    typed_to_fast: bool = False
    truncated: bool = False
    language_known: bool = True
    in_distribution: bool = True
    remaining_s: float = math.inf
    slow_floor_s: float = 0.0
    max_cost_usd: float | None = None
    slow_cost_usd: float | None = None
    min_quality: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a policy decided.

    Attributes:
        tier: Where the request goes.
        reason: Why.
        route: The route with the highest probability.
        threshold: The threshold that was applied, in [0, 1].
    """

    tier: Tier
    reason: Reason
    route: str
    threshold: float

    def __post_init__(self) -> None:
        for name, value, kind in (("tier", self.tier, Tier), ("reason", self.reason, Reason)):
            if not isinstance(value, kind):
                msg = f"{name}: must be a {kind.__name__}, is a {type(value).__name__}"
                raise TypeError(msg)
        if isinstance(self.threshold, bool) or not 0.0 <= self.threshold <= 1.0:
            msg = "threshold: must be a number in [0, 1]"
            raise ValueError(msg)


@runtime_checkable
class Policy(Protocol):
    """Anything that turns signals into a verdict; must be pure and fast."""

    def decide(self, signals: Signals) -> Verdict:
        """Return where the request goes and why."""
        ...


class ThresholdPolicy:
    """One threshold; everything under it goes to the slow tier."""

    def decide(self, signals: Signals) -> Verdict:
        """Return the verdict; the reason is the first of the closed enum that applies."""
        threshold = signals.threshold if signals.min_quality is None else signals.min_quality
        route = max(signals.probabilities, key=lambda name: signals.probabilities[name])
        tier, reason = _forced(signals) or _by_probabilities(signals, route)
        return Verdict(tier=tier, reason=reason, route=route, threshold=threshold)


def _forced(signals: Signals) -> tuple[Tier, Reason] | None:
    """Return what decides whatever the probabilities say; ``None`` leaves it to them."""
    over_budget = (
        signals.max_cost_usd is not None
        and signals.slow_cost_usd is not None
        and signals.slow_cost_usd > signals.max_cost_usd
    )
    rules = (
        (signals.remaining_s < signals.slow_floor_s, Tier.FAST, Reason.DEADLINE),
        (over_budget, Tier.FAST, Reason.BUDGET),
        (signals.truncated, Tier.SLOW, Reason.INPUT_TRUNCATED),
        (not signals.language_known, Tier.SLOW, Reason.ABSTAINED_LANGUAGE),
        (not signals.in_distribution, Tier.SLOW, Reason.ABSTAINED_OUT_OF_DISTRIBUTION),
        (signals.typed and signals.typed_to_fast, Tier.FAST, Reason.TYPED_QUESTION),
    )
    return next(((tier, reason) for applies, tier, reason in rules if applies), None)


def _by_probabilities(signals: Signals, route: str) -> tuple[Tier, Reason]:
    """Return what the probabilities say; BUDGET where the caller's quality changed the tier."""
    usual = _by_threshold(signals, route, signals.threshold)
    if signals.min_quality is None:
        return usual
    tier, reason = _by_quality(signals, route, signals.min_quality)
    return tier, reason if tier is usual[0] else Reason.BUDGET


def _by_quality(signals: Signals, route: str, min_quality: float) -> tuple[Tier, Reason]:
    """Return tier and reason where the caller says how sure the fast tier has to be.

    Unlike the operator's threshold, which the winning route has to reach, this may be less
    than one half: the caller accepts an answer that is more likely bad than good.
    """
    if signals.tiers[route] is Tier.SLOW and signals.score is PolicyScore.P_FAST:
        fast = [name for name in signals.probabilities if signals.tiers[name] is Tier.FAST]
        route = max(fast, key=lambda name: signals.probabilities[name], default=route)
    return _by_threshold(signals, route, min_quality)


def _by_threshold(signals: Signals, route: str, threshold: float) -> tuple[Tier, Reason]:
    """Return tier and reason of comparing the winning route's number with ``threshold``."""
    tier = signals.tiers[route]
    number = signals.probabilities[route]
    if tier is not Tier.TOOL and signals.score is PolicyScore.STRONG_GAIN:
        # The strong model's expected advantage, turned round so that more is safer; it
        # decides between fast and slow in place of the route probabilities.
        tier, number = Tier.FAST, 1.0 - min(1.0, max(0.0, signals.strong_gain))
    if number < threshold:
        return Tier.SLOW, Reason.BELOW_THRESHOLD
    return tier, Reason.TOOL_FITS if tier is Tier.TOOL else Reason.CONFIDENT
