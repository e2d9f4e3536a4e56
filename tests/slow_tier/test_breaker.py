"""The breaker opens, cools down, probes; no cancelled or late attempt confuses it."""

import pytest

from slow_tier.breaker import CircuitBreaker


class ManualClock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def breaker(clock):
    return CircuitBreaker(failure_threshold=2, cool_down_s=10.0, clock=clock)


def attempt(breaker, outcome):
    with breaker.admit() as permit:
        if outcome is not None:
            (permit.succeed if outcome else permit.fail)()


def open_up(breaker):
    attempt(breaker, False)
    attempt(breaker, False)
    assert breaker.state == "open"


def test_only_consecutive_failures_open_it(breaker):
    for outcome in (False, True, False, True, False):
        attempt(breaker, outcome)
    assert breaker.state == "closed"
    attempt(breaker, False)
    assert breaker.state == "open"
    assert breaker.admit() is None


def test_an_abandoned_attempt_neither_counts_nor_clears(breaker):
    attempt(breaker, False)
    attempt(breaker, None)
    assert breaker.state == "closed"
    attempt(breaker, False)
    assert breaker.state == "open"


def test_it_opens_for_exactly_the_cool_down_then_admits_one_probe(breaker, clock):
    open_up(breaker)
    clock.now_s = 109.999
    assert breaker.admit() is None
    clock.now_s = 110.0
    assert breaker.state == "half_open"
    assert breaker.admit() is not None
    assert breaker.admit() is None


def test_the_probes_success_closes_it_with_a_clean_count(breaker, clock):
    open_up(breaker)
    clock.now_s = 110.0
    attempt(breaker, True)
    assert breaker.state == "closed"
    attempt(breaker, False)
    assert breaker.state == "closed"


def test_the_probes_failure_opens_it_for_another_cool_down(breaker, clock):
    open_up(breaker)
    clock.now_s = 115.0
    attempt(breaker, False)
    clock.now_s = 124.999
    assert breaker.admit() is None
    clock.now_s = 125.0
    assert breaker.admit() is not None


def test_a_cancelled_probe_hands_the_probe_to_the_next_attempt(breaker, clock):
    open_up(breaker)
    clock.now_s = 110.0
    with pytest.raises(KeyboardInterrupt), breaker.admit():
        raise KeyboardInterrupt
    assert breaker.state == "half_open"
    attempt(breaker, True)
    assert breaker.state == "closed"


@pytest.mark.parametrize("late", ["succeed", "fail"])
def test_an_attempt_admitted_before_it_opened_has_no_say_afterwards(breaker, clock, late):
    straggler = breaker.admit()
    open_up(breaker)
    clock.now_s = 110.0
    probe = breaker.admit()
    getattr(straggler, late)()
    assert breaker.state == "half_open"
    assert breaker.admit() is None
    probe.succeed()
    assert breaker.state == "closed"


def test_only_the_first_outcome_of_a_permit_counts(breaker):
    with breaker.admit() as permit:
        permit.fail()
        permit.fail()
        permit.fail()
    assert breaker.state == "closed"


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"failure_threshold": 0, "cool_down_s": 1.0}, "failure_threshold"),
        ({"failure_threshold": 1, "cool_down_s": 0.0}, "cool_down_s"),
        ({"failure_threshold": 1, "cool_down_s": float("nan")}, "cool_down_s"),
    ],
)
def test_limits_that_make_no_sense_are_refused_by_name(limits, field, clock):
    with pytest.raises(ValueError, match=f"{field}: must be"):
        CircuitBreaker(**limits, clock=clock)


def test_a_probe_that_begins_to_answer_lets_others_in_before_it_ends(breaker, clock):
    open_up(breaker)
    clock.now_s = 110.0
    with breaker.admit() as probe:
        assert breaker.admit() is None
        probe.begin()
        assert breaker.state == "closed"
        attempt(breaker, True)
        probe.succeed()
    assert breaker.state == "closed"


def test_a_probe_that_breaks_off_after_its_beginning_opens_again(breaker, clock):
    open_up(breaker)
    clock.now_s = 110.0
    with breaker.admit() as probe:
        probe.begin()
        probe.fail()
    assert breaker.state == "open"


def test_beginning_to_answer_changes_nothing_while_closed(breaker):
    attempt(breaker, False)
    with breaker.admit() as permit:
        permit.begin()
    attempt(breaker, False)
    assert breaker.state == "open"
