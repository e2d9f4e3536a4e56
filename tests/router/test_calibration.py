import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.calibration import RouteCalibration, route_probabilities

ROUTES = ("fast", "slow", "tool")


def logits(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_matches_the_hand_computed_value() -> None:
    """Logits ln 1, ln 2, ln 5 are odds of 1:2:5."""
    found = route_probabilities(
        logits(0.0, np.log(2.0), np.log(5.0)), RouteCalibration(routes=ROUTES)
    )
    assert list(found) == list(ROUTES)
    assert list(found.values()) == pytest.approx([0.125, 0.25, 0.625], rel=1e-6)


def test_divides_by_the_temperature_before_it_adds_the_bias() -> None:
    """(2 ln 3) / 2 + ln 2 = ln 6, so the odds are 1:6."""
    calibration = RouteCalibration(
        routes=("fast", "slow"), temperature=2.0, bias=(0.0, float(np.log(2.0)))
    )
    found = route_probabilities(logits(0.0, 2.0 * np.log(3.0)), calibration)
    assert found["slow"] == pytest.approx(6.0 / 7.0, rel=1e-6)


def test_a_masked_route_is_absent_and_the_rest_is_renormalised() -> None:
    found = route_probabilities(
        logits(0.0, np.log(2.0), np.log(5.0)), RouteCalibration(routes=ROUTES), masked={"tool"}
    )
    assert set(found) == {"fast", "slow"}
    assert found["fast"] == pytest.approx(1.0 / 3.0, rel=1e-6)


def test_survives_logits_that_overflow_a_naive_exp() -> None:
    found = route_probabilities(logits(1e4, 0.0, -1e4), RouteCalibration(routes=ROUTES))
    assert found == {"fast": 1.0, "slow": 0.0, "tool": 0.0}


@given(st.lists(st.floats(-50, 50, width=32), min_size=3, max_size=3), st.floats(0.1, 10))
def test_probabilities_sum_to_one_and_keep_the_ranking(values, temperature) -> None:
    calibration = RouteCalibration(routes=ROUTES, temperature=temperature)
    found = list(route_probabilities(logits(*values), calibration).values())
    assert sum(found) == pytest.approx(1.0)
    # Two logits closer than a rounding step may become equal, never change places.
    assert found[int(np.argmax(values))] == max(found)


def test_refuses_logits_of_another_head() -> None:
    with pytest.raises(ValueError, match=r"logits must have shape \(3,\), got \(2,\)"):
        route_probabilities(logits(0.0, 1.0), RouteCalibration(routes=ROUTES))


def test_refuses_logits_that_are_not_finite() -> None:
    with pytest.raises(ValueError, match="logits must be finite"):
        route_probabilities(logits(0.0, np.nan, 0.0), RouteCalibration(routes=ROUTES))


def test_refuses_to_mask_every_route() -> None:
    with pytest.raises(ValueError, match="every route is masked"):
        route_probabilities(logits(0, 0, 0), RouteCalibration(routes=ROUTES), masked=ROUTES)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"routes": ("fast",)}, "at least two distinct names"),
        ({"routes": ("fast", "fast")}, "at least two distinct names"),
        ({"routes": ROUTES, "temperature": 0.0}, "temperature must be finite and > 0"),
        ({"routes": ROUTES, "temperature": float("nan")}, "temperature must be finite"),
        ({"routes": ROUTES, "bias": (0.0,)}, "bias: need 3 finite numbers"),
        ({"routes": ROUTES, "bias": (0.0, 0.0, float("inf"))}, "bias: need 3 finite numbers"),
    ],
)
def test_refuses_a_meaningless_calibration(values, message) -> None:
    with pytest.raises(ValueError, match=message):
        RouteCalibration(**values)
