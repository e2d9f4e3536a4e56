"""Sum up a labelling run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from router.labelling.labeller import Failure, Label
from router.labelling.pricing import PairPrice, score_and_price
from router.labelling.prompts import Grading
from router.labelling.routed import RoutedPrompts
from router.labelling.saving import (
    MARGINS,
    Saving,
    blind,
    by_router,
    fixed,
    never_worse,
    oracle,
    savings,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSaving:
    """The saving of one rule, with the rule in words."""

    rule: str
    result: Saving


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came out.

    Attributes:
        prompts: Distinct prompts of the file.
        repeated: Rows left out as repetitions.
        reused: Answers found in the journal.
        failures: Prompts without a label.
        routes: Labels a route.
        gradings: Labels a way of grading.
        contradictions: Judged labels where swapping the order turned the verdict.
        cut: Answers cut at the most tokens, by model.
        fast_score: Mean score of the fast model, None without labels.
        slow_score: Mean score of the slow model, None without labels.
        price: What the saving was worked out with.
        uncounted: Answers without token counts, given their model's mean cost.
        savings: By rule; empty without labels.
    """

    prompts: int
    repeated: int
    reused: int
    failures: tuple[Failure, ...]
    routes: dict[str, int]
    gradings: dict[str, int]
    contradictions: int
    cut: dict[str, int]
    fast_score: float | None
    slow_score: float | None
    price: str
    uncounted: int
    savings: tuple[NamedSaving, ...]

    @property
    def labelled(self) -> int:
        """Prompts with a label."""
        return sum(self.routes.values())

    @property
    def unasked(self) -> int:
        """Prompts that were not begun, or not brought to an end."""
        return self.prompts - self.labelled - len(self.failures)

    @property
    def judged(self) -> int:
        """Labels that came from the judge."""
        return self.gradings.get(Grading.MODEL, 0)


def summarise(
    labels: Sequence[Label],
    failures: Sequence[Failure],
    *,
    prompts: int,
    repeated: int,
    reused: int,
    prices: PairPrice,
    routed: RoutedPrompts | None,
    seed: int,
) -> Report:
    """Return the report of a run.

    Args:
        labels: In the order of the prompts.
        failures: In the order of the prompts.
        prompts: Distinct prompts of the file.
        repeated: Rows left out as repetitions.
        reused: Answers found in the journal.
        prices: Of both models.
        routed: What an artifact decides for each label's prompt, None = no artifact.
        seed: Of the bootstrap.

    Raises:
        ConfigError: If a price by tokens meets a server that counts none.
    """
    named: tuple[NamedSaving, ...] = ()
    uncounted = 0
    if labels:
        named, uncounted = _named_savings(labels, prices, routed, seed)
    return Report(
        prompts=prompts,
        repeated=repeated,
        reused=reused,
        failures=tuple(failures),
        routes=dict(sorted(Counter(label.route for label in labels).items())),
        gradings=dict(sorted(Counter(str(label.prompt.grading) for label in labels).items())),
        contradictions=sum(label.comparison.contradiction for label in labels),
        cut={
            "fast": sum(label.fast.finish_reason == "length" for label in labels),
            "slow": sum(label.slow.finish_reason == "length" for label in labels),
        },
        fast_score=_mean([label.comparison.weak_score for label in labels]),
        slow_score=_mean([label.comparison.strong_score for label in labels]),
        price=str(prices),
        uncounted=uncounted,
        savings=named,
    )


def _named_savings(
    labels: Sequence[Label], prices: PairPrice, routed: RoutedPrompts | None, seed: int
) -> tuple[tuple[NamedSaving, ...], int]:
    scored, uncounted = score_and_price(labels, prices)
    rules = {"perfect router, worse on no prompt": never_worse(scored)}
    for margin in MARGINS:
        rules[f"perfect router, {_quality(margin)}"] = oracle(scored, margin=margin)
    if routed is not None:
        rules["artifact, at its own threshold"] = fixed(scored, routed.fast)
        for margin in MARGINS:
            rule = by_router(scored, routed.p_fast, margin=margin)
            rules[f"artifact, best threshold, {_quality(margin)}"] = rule
    for margin in MARGINS:
        rules[f"random share, {_quality(margin)}"] = blind(scored, margin=margin)
    results = savings(scored, list(rules.values()), seed=seed)
    named = [
        NamedSaving(rule=rule, result=result) for rule, result in zip(rules, results, strict=True)
    ]
    return tuple(named), uncounted


def _quality(margin: float) -> str:
    return f"at most {margin * 100:g} point lost" if margin else "equal mean quality"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
