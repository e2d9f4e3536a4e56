"""Rank statistics treat ties as random order and counts as repeated rows."""

import numpy as np
import pytest

from router.evaluation.ranking import auc, balanced_accuracy, roc_points, spearman

EVENT = np.array([True, False, True, False])


def repeated(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.repeat(values, counts.astype(int))


def test_auc_counts_the_pairs_in_the_right_order() -> None:
    """Of the pairs (.9, .8), (.9, .1), (.2, .8), (.2, .1) three are in order."""
    assert auc(EVENT, np.array([0.9, 0.8, 0.2, 0.1]))[0] == 0.75


def test_a_constant_score_has_an_auc_of_one_half_whatever_the_file_order() -> None:
    assert auc(np.array([True, True, False]), np.zeros(3))[0] == 0.5


def test_auc_of_the_negated_score_is_the_complement() -> None:
    rng = np.random.default_rng(1)
    event, score = rng.random(80) < 0.3, rng.integers(0, 9, 80)
    assert auc(event, score)[0] + auc(event, -score)[0] == pytest.approx(1.0)


def test_auc_is_undefined_for_one_class() -> None:
    assert np.isnan(auc(np.array([True, True]), np.array([0.1, 0.2]))[0])


def test_spearman_of_a_reversed_order_is_minus_one() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([9.0, 5.0, 1.0]))[0] == pytest.approx(-1.0)


def test_spearman_gives_ties_their_mean_rank() -> None:
    """Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5 over sqrt(4.5 * 5)."""
    rho = spearman(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]))[0]
    assert rho == pytest.approx(4.5 / np.sqrt(4.5 * 5.0))


def test_spearman_of_a_constant_is_undefined() -> None:
    assert np.isnan(spearman(np.zeros(3), np.arange(3.0))[0])


def test_balanced_accuracy_is_the_mean_of_both_recalls() -> None:
    """Two of three positives and one of one negative: (2/3 + 1) / 2."""
    truth = np.array([True, True, True, False])
    predicted = np.array([True, True, False, False])
    assert balanced_accuracy(truth, predicted)[0] == pytest.approx(5.0 / 6.0)


@pytest.mark.parametrize("statistic", [auc, spearman, balanced_accuracy])
def test_counts_mean_the_same_as_repeating_the_rows(statistic) -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 3, 40)
    first = rng.random(40) < 0.5
    second = (
        first ^ (rng.random(40) < 0.3) if statistic is balanced_accuracy else rng.integers(0, 6, 40)
    )
    weighted = statistic(first, second, counts[None, :].astype(float))[0]
    assert weighted == pytest.approx(
        statistic(repeated(first, counts), repeated(second, counts))[0]
    )


def test_the_roc_curve_starts_with_nothing_called_and_ends_with_everything() -> None:
    alarms, hits, thresholds = roc_points(EVENT, np.array([0.9, 0.8, 0.2, 0.1]))
    np.testing.assert_allclose(alarms, [0.0, 0.0, 0.5, 0.5, 1.0])
    np.testing.assert_allclose(hits, [0.0, 0.5, 0.5, 1.0, 1.0])
    np.testing.assert_allclose(thresholds, [np.inf, 0.9, 0.8, 0.2, 0.1])


def test_equal_scores_are_one_corner_of_the_roc_curve() -> None:
    alarms, hits, _ = roc_points(EVENT, np.zeros(4))
    np.testing.assert_array_equal([alarms, hits], [[0.0, 1.0], [0.0, 1.0]])


def test_a_roc_curve_needs_both_classes() -> None:
    with pytest.raises(ValueError, match="rows with it and rows without"):
        roc_points(np.array([True]), np.array([0.5]))


@pytest.mark.train
def test_they_agree_with_scikit_learn_and_scipy() -> None:
    from scipy.stats import spearmanr
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    rng = np.random.default_rng(5)
    event, score = rng.random(300) < 0.4, rng.integers(0, 40, 300).astype(float)
    weight = rng.integers(1, 4, 300).astype(float)
    assert auc(event, score)[0] == pytest.approx(roc_auc_score(event, score))
    assert auc(event, score, weight[None, :])[0] == pytest.approx(
        roc_auc_score(event, score, sample_weight=weight)
    )
    other = score + rng.normal(0, 9, 300)
    assert spearman(score, other)[0] == pytest.approx(spearmanr(score, other).statistic)
    assert balanced_accuracy(event, score > 20)[0] == pytest.approx(
        balanced_accuracy_score(event, score > 20)
    )
