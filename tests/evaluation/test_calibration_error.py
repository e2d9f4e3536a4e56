"""Calibration error compares what was promised with what happened, bin by bin."""

import math

import numpy as np
import pytest

from router.evaluation.calibration_error import ece, ece_by_chance, ece_debiased, reliability


def perfect(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.random(rows)
    return p, rng.random(rows) < p


def test_ece_is_the_mean_gap_weighted_by_rows() -> None:
    """Two bins: promised .2 and .7, happened 0 and 1: (.2 + .3) / 2."""
    p = np.array([0.2, 0.2, 0.7, 0.7])
    happened = np.array([False, False, True, True])
    assert ece(p, happened, bins=2)[0] == pytest.approx(0.25)


def test_one_bin_sees_only_the_mean() -> None:
    p = np.array([0.0, 1.0])
    assert ece(p, np.array([True, False]), bins=1)[0] == pytest.approx(0.0)
    assert ece(p, np.array([True, False]), bins=2)[0] == pytest.approx(1.0)


def test_bins_hold_equal_numbers_of_rows() -> None:
    p, happened = perfect(302, 0)
    assert [each.n for each in reliability(p, happened, bins=15)] == [21] * 2 + [20] * 13


def test_fewer_rows_than_bins_make_a_bin_each() -> None:
    diagram = reliability(np.array([0.9, 0.1]), np.array([True, False]))
    assert [(b.predicted, b.observed) for b in diagram] == [(0.1, 0.0), (0.9, 1.0)]


def test_the_reliability_interval_is_wilsons() -> None:
    """5 of 10: centre .5, half width z sqrt(.025 + z^2/400) / (1 + z^2/10)."""
    (only,) = reliability(np.full(10, 0.5), np.arange(10) < 5, bins=1)
    z = 1.959964
    half = z * math.sqrt(0.025 + z * z / 400) / (1 + z * z / 10)
    assert only.low == pytest.approx(0.5 - half)
    assert only.high == pytest.approx(0.5 + half)


def test_chance_alone_explains_the_error_of_a_perfect_model() -> None:
    errors, chances, debiased = [], [], []
    for seed in range(40):
        p, happened = perfect(600, seed)
        errors.append(ece(p, happened)[0])
        chances.append(ece_by_chance(p))
        debiased.append(ece_debiased(p, happened)[0])
    assert np.mean(errors) == pytest.approx(np.mean(chances), rel=0.1)
    # About half of the bias is left, never more than the plain figure.
    assert 0.3 * np.mean(errors) < np.mean(debiased) < 0.75 * np.mean(errors)


def test_debiasing_hardly_moves_an_error_far_above_chance() -> None:
    p, happened = perfect(3000, 1)
    wrong = np.clip(p + 0.3, 0.0, 1.0)
    plain, debiased = ece(wrong, happened)[0], ece_debiased(wrong, happened)[0]
    assert plain > 0.2
    assert debiased == pytest.approx(plain, abs=0.003)


def test_debiasing_of_one_bin_is_worked_out_by_hand() -> None:
    """Gap 0 with standard error s: the expected |N(0, s)| is subtracted from 0."""
    p, happened = np.full(4, 0.5), np.array([True, True, False, False])
    expected = -0.25 * math.sqrt(2.0 / math.pi)
    assert ece_debiased(p, happened, bins=1)[0] == pytest.approx(expected)


def test_a_bin_without_doubt_has_nothing_to_subtract() -> None:
    p, happened = np.full(5, 0.9), np.ones(5, dtype=bool)
    assert ece_debiased(p, happened, bins=1)[0] == pytest.approx(0.1)


def test_counts_weigh_rows_in_the_bins_of_the_sample() -> None:
    p = np.array([0.2, 0.2, 0.7, 0.7])
    happened = np.array([False, True, True, True])
    counts = np.array([[2.0, 0.0, 1.0, 1.0], [0.0, 0.0, 2.0, 2.0]])
    np.testing.assert_allclose(ece(p, happened, counts, bins=2), [0.25, 0.3])


@pytest.mark.train
def test_the_diagram_agrees_with_scikit_learn() -> None:
    from sklearn.calibration import calibration_curve

    p, happened = perfect(900, 3)
    observed, predicted = calibration_curve(happened, p, n_bins=10, strategy="quantile")
    diagram = reliability(p, happened, bins=10)
    np.testing.assert_allclose([b.observed for b in diagram], observed, atol=0.02)
    np.testing.assert_allclose([b.predicted for b in diagram], predicted, atol=0.02)
