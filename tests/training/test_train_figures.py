"""Calibration, threshold, detector and figures of a user's routes."""

import numpy as np
import pytest

pytestmark = [pytest.mark.train, pytest.mark.timeout(300)]


def test_the_calibration_of_separated_routes_stays_finite_and_of_noisy_ones_is_right() -> None:
    from router.training.calibrate import fit_route_calibration

    wanted = np.arange(40) % 4
    separated = np.eye(4, dtype=np.float32)[wanted] * 3.0
    temperature, bias = fit_route_calibration(separated, wanted, np.ones(40))
    assert 0.05 < temperature < 1.0
    assert np.abs(bias).max() < 0.1
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3)).astype(np.float32)
    shares = np.exp(logits / 2.0 + np.asarray([0.5, 0.0, -0.5]))
    shares /= shares.sum(axis=1, keepdims=True)
    drawn = (shares.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    temperature, bias = fit_route_calibration(logits, drawn, np.ones(4000))
    assert temperature == pytest.approx(2.0, rel=0.1)
    assert bias[0] - bias[2] == pytest.approx(1.0, abs=0.15)


def test_weights_count_in_the_calibration() -> None:
    from router.training.calibrate import fit_route_calibration

    logits = np.zeros((100, 2), np.float32)
    wanted = np.arange(100) % 2
    weights = np.where(wanted == 0, 9.0, 1.0)
    _, bias = fit_route_calibration(logits, wanted, weights)
    # Nine to one, shrunk a little by the prior.
    assert bias[0] - bias[1] == pytest.approx(np.log(9.0), abs=0.2)


def test_temperatures_that_collapse_are_told() -> None:
    from router.training.route_figures import temperature_figures

    wanted = np.asarray([0.2, 1.0, 0.2, 1.0, np.nan])
    flat = temperature_figures(np.asarray([0.60, 0.61, 0.60, 0.60, 0.9]), wanted)
    assert flat is not None
    assert flat["collapsed"]
    assert flat["mean_absolute_error"] == pytest.approx(0.3975 + 0.005, abs=0.01)
    spread = temperature_figures(np.asarray([0.5, 0.7, 0.5, 0.7, 0.9]), wanted)
    assert spread is not None
    assert not spread["collapsed"]
    # Labels that do not vary cannot be said to have been missed.
    same = temperature_figures(np.full(4, 0.5), np.full(4, 0.7))
    assert same is not None
    assert not same["collapsed"]
    assert temperature_figures(np.full(4, 0.5), np.full(4, np.nan)) is None


def test_the_threshold_of_other_routes_weighs_wrong_ones_against_giving_up() -> None:
    from router.evaluation.threshold import CostMatrix
    from router.training.route_figures import at_threshold, choose_threshold

    p = np.asarray([[0.95, 0.05], [0.9, 0.1], [0.65, 0.35], [0.6, 0.4], [0.3, 0.7]])
    wanted = np.asarray([0, 0, 1, 0, 1])
    search = choose_threshold(p, wanted, ("law", "code"), CostMatrix())
    # Taking the row at .65 costs 10, giving up on those at .60 and .70 costs 1 each.
    assert search.threshold == 0.7
    reached = at_threshold(p, wanted, ("law", "code"), 0.7)
    assert reached["coverage"] == pytest.approx(0.6)
    assert reached["accuracy"] == 1.0


def test_fast_and_slow_are_weighed_without_the_tool_route() -> None:
    from router.training.route_figures import at_threshold

    p = np.asarray([[0.4, 0.1, 0.5], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    reached = at_threshold(p, np.asarray([0, 1, 2]), ("fast", "slow", "tool"), 0.8)
    # Of the two rows without a tool, the first has P(fast) = .8 once tool is masked.
    assert reached == {"where": "fast", "coverage": 0.5, "accuracy": 1.0}


def test_no_share_is_made_up_where_every_row_needs_a_tool() -> None:
    from router.training.route_figures import at_threshold

    reached = at_threshold(
        np.asarray([[0.1, 0.1, 0.8]]), np.asarray([2]), ("fast", "slow", "tool"), 0.8
    )
    assert reached == {"where": "fast", "coverage": None, "accuracy": None}


def test_rows_that_all_look_the_same_still_leave_a_threshold_to_pass() -> None:
    from router.training.calibrate import fit_detector

    rows = np.ones((8, 3), np.float32)
    _, _, threshold = fit_detector(rows, rows, false_alarm_rate=0.1)
    assert 0.0 < threshold < 1e-3


def test_a_flag_that_training_never_saw_moves_the_heads_by_its_own_size() -> None:
    import torch

    from router.training.heads import Standardised

    rows = torch.tensor([[0.1, 0.7, 3.0], [0.1, 0.7, 5.0], [0.1, 0.7, 7.0]])
    standardised = Standardised(3)
    standardised.fit(rows)
    values = standardised(torch.tensor([[0.1, 1.7, 7.0]]))
    torch.testing.assert_close(values, torch.tensor([[0.0, 1.0, 1.0]]))
