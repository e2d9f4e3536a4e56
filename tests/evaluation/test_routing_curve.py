"""The call-performance curve is what spending strong calls in a router's order buys."""

import itertools

import numpy as np
import pytest

from router.evaluation.routing_curve import (
    GRID,
    aiq,
    apgr,
    cpt,
    non_decreasing_hull,
    quality_curve,
)

# Two of four prompts gain 1 from the strong model; the weak model masters the others.
GAIN = np.array([1.0, 0.0, 1.0, 0.0])
WEAK = np.array([0.0, 1.0, 0.0, 1.0])
ORACLE = GAIN
WORST = -GAIN


def test_apgr_of_the_oracle_is_worked_out_by_hand() -> None:
    """The gap closes linearly up to half of the calls, then stays: .25 + .5."""
    assert apgr(GAIN, ORACLE)[0] == pytest.approx(0.75)
    assert apgr(GAIN, WORST)[0] == pytest.approx(0.25)


def test_apgr_of_a_constant_score_is_one_half_not_what_file_order_gives() -> None:
    assert apgr(np.array([1.0, 1.0, 0.0, 0.0]), np.zeros(4))[0] == pytest.approx(0.5)
    assert cpt(GAIN, np.zeros(4), recovered=0.8)[0] == pytest.approx(0.8)


def test_ties_score_the_mean_over_all_orders() -> None:
    gain = np.array([1.0, 0.0, -0.5, 0.75])
    score = np.array([2.0, 1.0, 1.0, 1.0])
    orders = [
        apgr(gain, score + 0.1 * np.array([0, *order]))[0]
        for order in itertools.permutations((1, 2, 3))
    ]
    assert apgr(gain, score)[0] == pytest.approx(np.mean(orders))


def test_apgr_may_exceed_one_where_the_weak_model_is_often_better() -> None:
    """Skipping the call that loses 1 recovers twice the gap."""
    assert apgr(np.array([1.0, 1.0, -1.0]), np.array([3.0, 2.0, 1.0]))[0] > 1.0


def test_nothing_is_recovered_where_the_strong_model_gains_nothing() -> None:
    gain = np.array([0.5, -0.5])
    assert np.isnan(apgr(gain, np.arange(2.0))[0])
    assert np.isnan(cpt(gain, np.arange(2.0), recovered=0.5)[0])


def test_cpt_is_where_the_curve_first_reaches_the_level() -> None:
    assert cpt(GAIN, ORACLE, recovered=0.5)[0] == pytest.approx(0.25)
    assert cpt(GAIN, ORACLE, recovered=0.8)[0] == pytest.approx(0.4)
    assert cpt(GAIN, WORST, recovered=0.5)[0] == pytest.approx(0.75)


def test_recovering_the_whole_gap_at_random_takes_every_call() -> None:
    assert cpt(GAIN, np.zeros(4), recovered=1.0)[0] == pytest.approx(1.0)


def test_a_curve_that_falls_again_counts_from_its_first_crossing() -> None:
    gain = np.array([1.0, -0.5, 0.5])
    assert cpt(gain, np.array([3.0, 2.0, 1.0]), recovered=0.5)[0] == pytest.approx(1.0 / 6.0)


@pytest.mark.parametrize("seed", range(3))
def test_counts_mean_the_same_as_repeating_the_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain, score = rng.normal(0.3, 0.5, 25), rng.integers(0, 5, 25).astype(float)
    counts = rng.integers(0, 3, 25)
    more = [np.repeat(each, counts) for each in (gain, score)]
    once = counts[None, :].astype(float)
    assert apgr(gain, score, once)[0] == pytest.approx(apgr(*more)[0])
    assert cpt(gain, score, recovered=0.5, counts=once)[0] == pytest.approx(
        cpt(*more, recovered=0.5)[0]
    )


def test_quality_runs_from_weak_only_to_strong_only() -> None:
    curve = quality_curve(WEAK, GAIN, ORACLE)[0]
    assert curve[0] == pytest.approx(0.5)
    assert curve[50] == pytest.approx(1.0)
    assert curve[-1] == pytest.approx(1.0)


def test_aiq_of_the_oracle_is_worked_out_by_hand() -> None:
    """From .5 to 1 over the first half of the cost, then 1: .375 + .5."""
    assert aiq(WEAK, GAIN, ORACLE)[0] == pytest.approx(0.875)


def test_aiq_never_charges_for_a_dearer_point_that_is_worse() -> None:
    """Strong-only loses what the first half gained; the hull keeps its height."""
    gain = np.array([0.5, -0.5])
    assert aiq(np.array([0.5, 0.5]), gain, np.array([1.0, 0.0]))[0] == pytest.approx(0.6875)


def test_the_hull_lies_over_the_curve_is_concave_and_never_falls() -> None:
    quality = np.random.default_rng(4).normal(size=GRID.size).cumsum()
    hull = non_decreasing_hull(GRID, quality)
    assert (hull >= quality - 1e-9).all()
    steps = np.diff(hull)
    assert (steps >= -1e-9).all()
    assert (np.diff(steps) <= 1e-9).all()


def test_the_hull_of_three_points_skips_the_one_below_the_line() -> None:
    hull = non_decreasing_hull(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.2, 1.0]))
    np.testing.assert_allclose(hull, [0.0, 0.5, 1.0])


def test_the_ten_point_mean_of_the_paper_lies_above_the_integral() -> None:
    """The paper's sum over 10 %, ..., 100 % gives a random router .55."""
    gain = np.tile([1.0, 0.0], 50)
    curve = quality_curve(1.0 - gain, gain, np.zeros(100))[0]
    recovered = (curve - 0.5) / 0.5
    assert recovered[10::10].mean() == pytest.approx(0.55)
    assert apgr(gain, np.zeros(100))[0] == pytest.approx(0.5)
