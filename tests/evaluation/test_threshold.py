"""The threshold search finds what costs least, and leans towards the slow tier."""

import numpy as np
import pytest

from router.artifact import ThresholdSearch
from router.evaluation.bootstrap import whole
from router.evaluation.threshold import (
    THRESHOLDS,
    CostMatrix,
    error_rates,
    row_costs,
    search_threshold,
)

FAST = np.array([True, True, False, False])
FAILS = np.array([True, False, True, False])


def test_only_wrong_routing_costs_and_each_direction_its_own() -> None:
    matrix = CostMatrix(complex_to_fast=10.0, simple_to_slow=1.0)
    np.testing.assert_array_equal(row_costs(FAST, FAILS, matrix), [10.0, 0.0, 0.0, 1.0])


def test_error_rates_are_shares_of_their_own_class() -> None:
    sent_fast = np.array([True, True, True, False])
    rates = error_rates(sent_fast, np.array([True, False, False, False]))
    assert rates["complex_sent_fast"](whole(4))[0] == 1.0
    assert rates["simple_sent_slow"](whole(4))[0] == pytest.approx(1.0 / 3.0)


def test_an_error_rate_of_an_absent_class_is_undefined() -> None:
    assert np.isnan(error_rates(FAST, np.zeros(4, dtype=bool))["complex_sent_fast"](whole(4))[0])


def test_the_grid_runs_from_a_half_to_nine_tenths_in_hundredths() -> None:
    assert (THRESHOLDS[0], THRESHOLDS[-1], len(THRESHOLDS)) == (0.5, 0.9, 41)


def test_the_search_parts_what_can_be_parted() -> None:
    """Failures lie under .65, successes over .75: anything between is free of cost."""
    p_fast = np.array([0.55, 0.65, 0.75, 0.85])
    found = search_threshold(p_fast, np.array([True, True, False, False]), CostMatrix())
    assert found.threshold == 0.75
    assert min(cost for _, cost in found.curve) == 0.0


def test_calibrated_probabilities_are_cut_where_the_costs_say() -> None:
    """Costs 3 to 1 have their least expected cost at 3/4 (Elkan 2001)."""
    rng = np.random.default_rng(0)
    p_fast = rng.random(60_000)
    fails = rng.random(60_000) >= p_fast
    found = search_threshold(p_fast, fails, CostMatrix(complex_to_fast=3.0, simple_to_slow=1.0))
    assert found.threshold == pytest.approx(0.75, abs=0.03)


def test_the_curve_holds_the_mean_cost_a_row_at_every_threshold() -> None:
    found = search_threshold(
        np.array([0.6, 0.8]), np.array([True, False]), CostMatrix(), (0.5, 0.7, 0.9)
    )
    assert found.curve == ((0.5, 5.0), (0.7, 0.0), (0.9, 0.5))
    assert (found.rows, found.complex_to_fast, found.simple_to_slow) == (2, 10.0, 1.0)


def test_it_survives_the_artifacts_config() -> None:
    found = search_threshold(np.array([0.6]), np.array([True]), CostMatrix(), (0.5, 0.7))
    assert ThresholdSearch.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_meaningless_cost_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="simple_to_slow: must be finite and >= 0"):
        CostMatrix(simple_to_slow=value)


def test_a_search_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="needs rows and thresholds"):
        search_threshold(np.zeros(0), np.zeros(0, dtype=bool), CostMatrix())
