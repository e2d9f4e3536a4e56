"""Savings worked out by hand, bounds that hold for any scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.labelling.saving import (
    Scored,
    blind,
    by_router,
    fixed,
    never_worse,
    oracle,
    savings,
)


def scored(weak, strong, *, fast_cost=1.0, slow_cost=10.0) -> Scored:
    weak, strong = np.array(weak, dtype=float), np.array(strong, dtype=float)
    ones = np.ones_like(weak)
    return Scored(weak=weak, strong=strong, fast_cost=fast_cost * ones, slow_cost=slow_cost * ones)


def values(rule) -> tuple[float, float, float]:
    [result] = savings(rule[0], [rule[1]], seed=0)
    return result.fast_share.value, result.saving.value, result.quality_change.value


# Fast is right, slow is right: both, neither, slow only, fast only, slow only.
FIVE = scored([1, 0, 0, 1, 0], [1, 0, 1, 0, 1])


def test_worse_on_no_prompt_sends_fast_where_fast_is_at_least_as_good() -> None:
    # Three of five; one answer that only the fast model has right.
    assert values((FIVE, never_worse(FIVE))) == pytest.approx((0.6, 0.54, 0.2))


def test_at_equal_mean_quality_a_gain_pays_for_a_loss() -> None:
    assert values((FIVE, oracle(FIVE, margin=0.0))) == pytest.approx((0.8, 0.72, 0.0))


def test_a_margin_buys_more() -> None:
    assert values((FIVE, oracle(FIVE, margin=0.2))) == pytest.approx((1.0, 0.9, -0.2))
    assert values((FIVE, oracle(FIVE, margin=0.19)))[0] == pytest.approx(0.8)


def test_a_random_share_loses_what_the_models_differ_by() -> None:
    # Slow is right on 3 of 5, fast on 2 of 5: a share p loses .2 p.
    assert values((FIVE, blind(FIVE, margin=0.0))) == (0.0, 0.0, 0.0)
    assert values((FIVE, blind(FIVE, margin=0.01))) == pytest.approx((0.05, 0.045, -0.01))
    better = scored([1, 1], [1, 0])
    assert values((better, blind(better, margin=0.0))) == pytest.approx((1.0, 0.9, 0.5))


def test_a_routers_order_is_cut_where_it_saves_most_without_losing() -> None:
    # Down its order: loss 0, +1, then -1 makes up for it, then +1.
    order = [0.9, 0.1, 0.8, 0.7, 0.2]
    router = by_router(FIVE, np.array(order), margin=0.0)
    assert values((FIVE, router)) == pytest.approx((0.6, 0.54, 0.0))


def test_prompts_of_equal_probability_go_together() -> None:
    pair = scored([1, 0], [1, 1])
    assert values((pair, by_router(pair, np.array([0.5, 0.5]), margin=0.0))) == (0.0, 0.0, 0.0)
    apart = by_router(pair, np.array([0.6, 0.5]), margin=0.0)
    assert values((pair, apart)) == pytest.approx((0.5, 0.45, 0.0))


def test_where_a_router_abstains_nothing_goes_fast() -> None:
    pair = scored([1, 1], [1, 1])
    router = by_router(pair, np.array([-1.0, 0.2]), margin=1.0)
    assert values((pair, router))[0] == pytest.approx(0.5)


def test_a_fast_model_that_costs_more_is_never_worth_it() -> None:
    dear = scored([1, 1], [1, 1], fast_cost=20.0)
    for rule in (
        never_worse(dear),
        oracle(dear, margin=1.0),
        by_router(dear, np.array([0.9, 0.8]), margin=1.0),
        blind(dear, margin=1.0),
    ):
        assert values((dear, rule)) == (0.0, 0.0, 0.0)
    assert values((dear, fixed(dear, np.array([True, True]))))[1] == pytest.approx(-1.0)


def test_dear_prompts_count_for_what_they_cost() -> None:
    uneven = Scored(
        weak=np.array([1.0, 0.0]),
        strong=np.array([1.0, 1.0]),
        fast_cost=np.array([1.0, 1.0]),
        slow_cost=np.array([91.0, 9.0]),
    )
    assert values((uneven, oracle(uneven, margin=0.0))) == pytest.approx((0.5, 0.9, 0.0))


def test_intervals_are_the_same_for_a_seed_and_cover_the_binomial_one() -> None:
    rng = np.random.default_rng(1)
    weak = (rng.random(400) < 0.5).astype(float)
    many = scored(weak, np.ones(400))
    [one] = savings(many, [oracle(many, margin=0.0)], seed=3)
    assert [one] == savings(many, [oracle(many, margin=0.0)], seed=3)
    share = weak.mean()
    half = 1.96 * np.sqrt(share * (1 - share) / 400) * 0.9
    assert one.saving.low == pytest.approx(one.saving.value - half, abs=0.01)
    assert one.saving.high == pytest.approx(one.saving.value + half, abs=0.01)


def test_one_prompt_has_no_interval() -> None:
    one = scored([1], [1])
    [result] = savings(one, [never_worse(one)], seed=0)
    assert (result.saving.value, result.saving.low, result.saving.high) == (0.9, None, None)


def test_many_prompts_are_resampled_in_blocks_alike() -> None:
    many = scored(np.tile([1.0, 0.0], 2500), np.ones(5000))
    [result] = savings(many, [never_worse(many)], seed=0)
    assert result.saving.value == pytest.approx(0.45)
    assert result.saving.high - result.saving.low < 0.03


score = st.sampled_from([0.0, 0.5, 1.0])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(score, score, st.floats(0, 1), st.floats(0, 9)), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.01, 0.3]),
)
def test_no_order_saves_more_than_the_oracle_and_none_loses_more_than_the_margin(
    prompts: list[tuple[float, float, float, float]], margin: float
) -> None:
    weak, strong, p_fast, _ = map(np.array, zip(*prompts, strict=True))
    pair = scored(weak, strong)
    _, best, change = values((pair, oracle(pair, margin=margin)))
    assert change >= -margin - 1e-9
    for rule in (by_router(pair, p_fast, margin=margin), never_worse(pair)):
        _, saving, change = values((pair, rule))
        assert 0.0 <= saving <= best + 1e-9
        assert change >= -margin - 1e-9


def test_scores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="must share one shape"):
        scored([], [])
    with pytest.raises(ValueError, match="slow_cost: must be finite with a sum > 0"):
        scored([1], [1], slow_cost=0.0)
