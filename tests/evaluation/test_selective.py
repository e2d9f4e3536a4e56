"""Silence where unsure raises accuracy only if confidence means something."""

import numpy as np
import pytest

from router.evaluation.selective import accuracy_at_coverage, area_under_risk_coverage

RIGHT = np.array([True, True, False, False])


def test_the_confident_half_is_all_right() -> None:
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    assert accuracy_at_coverage(RIGHT, confidence, 0.5)[0] == pytest.approx(1.0)
    assert accuracy_at_coverage(RIGHT, confidence, 0.75)[0] == pytest.approx(2.0 / 3.0)
    assert accuracy_at_coverage(RIGHT, confidence, 1.0)[0] == pytest.approx(0.5)


def test_equal_confidence_is_no_better_than_chance_at_any_coverage() -> None:
    for coverage in (0.1, 0.5, 1.0):
        assert accuracy_at_coverage(RIGHT, np.ones(4), coverage)[0] == pytest.approx(0.5)


def test_the_area_is_the_mean_of_the_errors_so_far() -> None:
    """Errors 0, 0, 1/3, 1/2 at coverages 1/4 to 1."""
    area = area_under_risk_coverage(RIGHT, np.array([0.9, 0.8, 0.7, 0.6]))[0]
    assert area == pytest.approx((1.0 / 3.0 + 0.5) / 4.0)


def test_the_area_of_a_meaningless_confidence_is_the_error_rate() -> None:
    assert area_under_risk_coverage(RIGHT, np.ones(4))[0] == pytest.approx(0.5)


def test_a_resample_without_the_most_confident_rows_is_still_defined() -> None:
    counts = np.array([[0.0, 0.0, 2.0, 2.0]])
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    assert area_under_risk_coverage(RIGHT, confidence, counts)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("coverage", [0.0, 1.1])
def test_a_meaningless_coverage_is_refused(coverage: float) -> None:
    with pytest.raises(ValueError, match=r"coverage: must be in \(0, 1\]"):
        accuracy_at_coverage(RIGHT, np.ones(4), coverage)
