"""Baselines get what they need to be strong, and nothing that breaks on odd rows."""

import numpy as np
import pytest

from router.evaluation.text_models import probability_of, standardised


def test_training_rows_get_mean_zero_and_deviation_one() -> None:
    seen, wanted = standardised(np.array([[1.0], [3.0]]), np.array([[5.0]]))
    np.testing.assert_allclose(seen, [[-1.0], [1.0]])
    np.testing.assert_allclose(wanted, [[3.0]])


def test_a_dimension_that_is_constant_in_training_stays_zero() -> None:
    _, wanted = standardised(np.full((3, 1), 2.0), np.array([[9.0]]))
    np.testing.assert_array_equal(wanted, [[0.0]])


@pytest.mark.train
def test_one_class_in_training_gives_its_rate() -> None:
    np.testing.assert_array_equal(
        probability_of(np.zeros((4, 2)), np.ones(4, dtype=bool), np.zeros((3, 2))), np.ones(3)
    )


@pytest.mark.train
def test_balancing_moves_the_boundary_between_unequal_classes_to_the_middle() -> None:
    seen = np.array([[0.0]] * 90 + [[1.0]] * 10)
    event = np.arange(100) >= 90
    middle = np.array([[0.5]])
    assert probability_of(seen, event, middle)[0] < 0.4
    assert probability_of(seen, event, middle, balanced=True)[0] == pytest.approx(0.5, abs=0.05)
