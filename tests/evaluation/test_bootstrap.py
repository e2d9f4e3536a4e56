"""Intervals come from resampled rows, differences from the same resamples."""

import numpy as np
import pytest

from router.evaluation.bootstrap import Draws, Resampling, draw, mean_of, measured, whole

RESAMPLING = Resampling(resamples=400, seed=3)


def test_a_figure_is_the_statistic_of_the_rows_themselves() -> None:
    figure = measured(
        {"mean": mean_of(np.array([0.0, 1.0, 1.0, 0.0]))}, rows=4, resampling=RESAMPLING
    )
    assert figure["mean"]["value"] == 0.5
    assert figure["mean"]["n"] == 4


def test_the_interval_has_the_width_the_normal_approximation_gives() -> None:
    """A share of .5 over 400 rows has a standard error of .025."""
    values = np.tile([0.0, 1.0], 200)
    figure = measured({"": mean_of(values)}, rows=400, resampling=RESAMPLING)[""]
    assert figure["low"] == pytest.approx(0.5 - 1.96 * 0.025, abs=0.008)
    assert figure["high"] == pytest.approx(0.5 + 1.96 * 0.025, abs=0.008)


def test_a_paired_difference_is_narrower_than_its_parts() -> None:
    """Two statistics that differ by a constant have a difference without spread."""
    values = np.random.default_rng(0).random(50)
    drawn = draw(
        {"a": mean_of(values), "b": mean_of(values + 0.25)}, rows=50, resampling=RESAMPLING
    )
    lead = drawn["b"].minus(drawn["a"]).figure()
    assert lead.low == pytest.approx(0.25)
    assert lead.high == pytest.approx(0.25)
    assert np.ptp(drawn["a"].samples) > 0.05


def test_every_resample_has_as_many_rows_as_the_sample() -> None:
    drawn = draw({"rows": lambda counts: counts.sum(axis=1)}, rows=7, resampling=RESAMPLING)
    np.testing.assert_array_equal(drawn["rows"].samples, np.full(400, 7.0))


def test_the_same_seed_draws_the_same_resamples() -> None:
    values = np.arange(30.0)
    once, again = (draw({"": mean_of(values)}, rows=30, resampling=RESAMPLING) for _ in range(2))
    np.testing.assert_array_equal(once[""].samples, again[""].samples)


def test_blocks_do_not_change_how_many_resamples_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.evaluation.bootstrap._CELLS", 90)
    drawn = draw({"": mean_of(np.arange(30.0))}, rows=30, resampling=Resampling(resamples=7))
    assert drawn[""].samples.shape == (7,)


def test_an_undefined_value_has_no_interval_and_undefined_resamples_are_left_out() -> None:
    undefined = Draws(value=np.nan, samples=np.array([1.0, 2.0]), n=2)
    assert (undefined.figure().value, undefined.figure().low) == (None, None)
    partly = Draws(value=1.0, samples=np.array([np.nan, 1.0, 1.0]), n=2)
    assert partly.figure().low == 1.0


def test_one_row_has_a_value_but_no_interval() -> None:
    figure = measured({"": mean_of(np.array([1.0]))}, rows=1, resampling=RESAMPLING)[""]
    assert (figure["value"], figure["low"], figure["high"]) == (1.0, None, None)


def test_no_rows_and_too_few_resamples_are_refused() -> None:
    with pytest.raises(ValueError, match="rows: need at least one"):
        draw({}, rows=0, resampling=RESAMPLING)
    with pytest.raises(ValueError, match="resamples: must be at least 2, got 1"):
        Resampling(resamples=1)


def test_whole_counts_every_row_once() -> None:
    np.testing.assert_array_equal(whole(3), [[1.0, 1.0, 1.0]])
