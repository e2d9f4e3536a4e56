import pytest

from router.domain import Reason, Tier
from router.policy import Policy, PolicyScore, Signals, ThresholdPolicy, Verdict

TIERS = {"fast": Tier.FAST, "slow": Tier.SLOW, "tool": Tier.TOOL}
SURE_FAST = {"fast": 0.8, "slow": 0.15, "tool": 0.05}
SURE_SLOW = {"fast": 0.2, "slow": 0.7, "tool": 0.1}
SURE_TOOL = {"fast": 0.2, "slow": 0.1, "tool": 0.7}
UNSURE = {"fast": 0.5, "slow": 0.3, "tool": 0.2}
UNSURE_TOOL = {"fast": 0.3, "slow": 0.2, "tool": 0.5}


def decide(probabilities=SURE_FAST, **signals) -> Verdict:
    defaults = {"tiers": TIERS, "threshold": 0.6}
    return ThresholdPolicy().decide(Signals(probabilities=probabilities, **{**defaults, **signals}))


@pytest.mark.parametrize(
    ("probabilities", "signals", "tier", "reason", "route"),
    [
        (SURE_FAST, {}, Tier.FAST, Reason.CONFIDENT, "fast"),
        (SURE_SLOW, {}, Tier.SLOW, Reason.CONFIDENT, "slow"),
        (SURE_TOOL, {}, Tier.TOOL, Reason.TOOL_FITS, "tool"),
        (UNSURE, {}, Tier.SLOW, Reason.BELOW_THRESHOLD, "fast"),
        (UNSURE_TOOL, {}, Tier.SLOW, Reason.BELOW_THRESHOLD, "tool"),
        (SURE_FAST, {"truncated": True}, Tier.SLOW, Reason.INPUT_TRUNCATED, "fast"),
        (SURE_FAST, {"language_known": False}, Tier.SLOW, Reason.ABSTAINED_LANGUAGE, "fast"),
        (
            SURE_FAST,
            {"in_distribution": False},
            Tier.SLOW,
            Reason.ABSTAINED_OUT_OF_DISTRIBUTION,
            "fast",
        ),
        (
            SURE_SLOW,
            {"typed": True, "typed_to_fast": True},
            Tier.FAST,
            Reason.TYPED_QUESTION,
            "slow",
        ),
        (SURE_SLOW, {"typed": True}, Tier.SLOW, Reason.CONFIDENT, "slow"),
        (SURE_SLOW, {"typed_to_fast": True}, Tier.SLOW, Reason.CONFIDENT, "slow"),
        (
            SURE_SLOW,
            {"remaining_s": 0.9, "slow_floor_s": 1.0},
            Tier.FAST,
            Reason.DEADLINE,
            "slow",
        ),
        (
            SURE_SLOW,
            {"remaining_s": 1.0, "slow_floor_s": 1.0},
            Tier.SLOW,
            Reason.CONFIDENT,
            "slow",
        ),
        (
            SURE_SLOW,
            {"max_cost_usd": 0.01, "slow_cost_usd": 0.02},
            Tier.FAST,
            Reason.BUDGET,
            "slow",
        ),
        (
            SURE_SLOW,
            {"max_cost_usd": 0.02, "slow_cost_usd": 0.02},
            Tier.SLOW,
            Reason.CONFIDENT,
            "slow",
        ),
    ],
)
def test_each_reason_has_its_tier(probabilities, signals, tier, reason, route) -> None:
    assert decide(probabilities, **signals) == Verdict(
        tier=tier, reason=reason, route=route, threshold=0.6
    )


def test_the_first_reason_that_applies_wins_in_the_order_of_the_enum() -> None:
    """Every cause at once, then the winning one taken away, one after the other."""
    signals = {
        "remaining_s": 0.5,
        "slow_floor_s": 1.0,
        "max_cost_usd": 0.0,
        "slow_cost_usd": 1.0,
        "truncated": True,
        "language_known": False,
        "in_distribution": False,
        "typed": True,
        "typed_to_fast": True,
    }
    cures = [
        {"slow_floor_s": 0.0},
        {"max_cost_usd": None},
        {"truncated": False},
        {"language_known": True},
        {"in_distribution": True},
        {"typed": False},
        {},
    ]
    found = []
    for cure in cures:
        found.append(decide(SURE_TOOL, **signals).reason)
        signals |= cure
    assert found == [
        Reason.DEADLINE,
        Reason.BUDGET,
        Reason.INPUT_TRUNCATED,
        Reason.ABSTAINED_LANGUAGE,
        Reason.ABSTAINED_OUT_OF_DISTRIBUTION,
        Reason.TYPED_QUESTION,
        Reason.TOOL_FITS,
    ]
    order = list(Reason)
    assert found == sorted(found, key=order.index)


def test_a_probability_equal_to_the_threshold_is_enough() -> None:
    assert decide({"fast": 0.6, "slow": 0.4}).tier is Tier.FAST
    assert decide({"fast": 0.5999, "slow": 0.4001}).tier is Tier.SLOW


@pytest.mark.parametrize(
    ("probabilities", "min_quality", "tier", "reason"),
    [
        (SURE_FAST, 0.9, Tier.SLOW, Reason.BUDGET),
        (SURE_FAST, 0.8, Tier.FAST, Reason.CONFIDENT),
        (UNSURE, 0.4, Tier.FAST, Reason.BUDGET),
        (UNSURE, 0.55, Tier.SLOW, Reason.BELOW_THRESHOLD),
    ],
)
def test_min_quality_is_the_reason_only_where_it_moved_the_decision(
    probabilities, min_quality, tier, reason
) -> None:
    verdict = decide(probabilities, min_quality=min_quality)
    assert (verdict.tier, verdict.reason) == (tier, reason)
    assert verdict.threshold == min_quality


@pytest.mark.parametrize(("gain", "tier"), [(0.4, Tier.FAST), (0.41, Tier.SLOW), (-1.0, Tier.FAST)])
def test_strong_gain_decides_instead_of_the_probability(gain, tier) -> None:
    """1 - 0.4 reaches the threshold 0.6; a negative gain counts as none."""
    verdict = decide(UNSURE, score=PolicyScore.STRONG_GAIN, strong_gain=gain)
    assert verdict.tier is tier


def test_strong_gain_leaves_tools_to_their_probability() -> None:
    verdict = decide(SURE_TOOL, score=PolicyScore.STRONG_GAIN, strong_gain=0.0)
    assert (verdict.tier, verdict.reason) == (Tier.TOOL, Reason.TOOL_FITS)


def test_route_names_mean_what_the_configuration_says() -> None:
    tiers = {"chat": Tier.FAST, "code": Tier.SLOW}
    verdict = decide({"chat": 0.3, "code": 0.7}, tiers=tiers)
    assert (verdict.tier, verdict.route) == (Tier.SLOW, "code")


def test_any_object_with_the_method_is_a_policy() -> None:
    class Always:
        def decide(self, signals: Signals) -> Verdict:
            return Verdict(tier=Tier.SLOW, reason=Reason.OVERRIDE, route="slow", threshold=1.0)

    assert isinstance(Always(), Policy)
    assert not isinstance(object(), Policy)


@pytest.mark.parametrize(
    ("probabilities", "min_quality", "tier", "reason"),
    [
        (SURE_SLOW, 0.2, Tier.FAST, Reason.BUDGET),
        (SURE_SLOW, 0.21, Tier.SLOW, Reason.BELOW_THRESHOLD),
        (SURE_SLOW, 0.0, Tier.FAST, Reason.BUDGET),
        (SURE_FAST, 0.2, Tier.FAST, Reason.CONFIDENT),
        (SURE_FAST, 0.9, Tier.SLOW, Reason.BUDGET),
        (SURE_TOOL, 0.1, Tier.TOOL, Reason.TOOL_FITS),
    ],
)
def test_a_caller_may_accept_a_fast_answer_that_is_more_likely_bad_than_good(
    probabilities, min_quality, tier, reason
) -> None:
    verdict = decide(probabilities, min_quality=min_quality)
    assert (verdict.tier, verdict.reason, verdict.threshold) == (tier, reason, min_quality)
