"""What is worth another attempt, after which wait."""

import random

import pytest

from slow_tier.errors import (
    DeadlineExceeded,
    InvalidAnswer,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from slow_tier.retry import RetryPolicy, next_delay_s, parse_retry_after_s

DOWN = UpstreamUnavailable(upstream="u", reason="", retryable=True)


class UpperEnd(random.Random):
    def uniform(self, a, b):
        return b


def delay(error, *, attempts_made=1, rng=None, deadline_s=1000.0, **policy):
    return next_delay_s(
        error,
        attempts_made=attempts_made,
        policy=RetryPolicy(**({"max_attempts": 10} | policy)),
        random=rng or UpperEnd(),
        now_s=0.0,
        deadline_s=deadline_s,
    )


def test_the_bound_of_the_wait_doubles_up_to_its_maximum():
    waits = [delay(DOWN, attempts_made=n) for n in range(1, 8)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])


def test_jitter_is_full_so_waits_fill_the_whole_range_from_zero():
    rng = random.Random(7)
    waits = [delay(DOWN, attempts_made=5, rng=rng) for _ in range(2000)]
    assert 0.0 <= min(waits) < 0.02
    assert 1.58 < max(waits) <= 1.6
    assert sum(waits) / len(waits) == pytest.approx(0.8, abs=0.05)


def test_an_endless_row_of_attempts_does_not_overflow():
    assert delay(DOWN, attempts_made=5000, max_attempts=10_000) == 2.0


def test_what_the_server_asks_for_is_the_least_wait():
    assert delay(UpstreamRateLimited(upstream="u", retry_after_s=1.5)) == pytest.approx(1.6)
    busy = UpstreamUnavailable(upstream="u", reason="", retryable=True, retry_after_s=1.0)
    assert delay(busy) == pytest.approx(1.1)


@pytest.mark.parametrize(
    "error",
    [
        UpstreamRejected(upstream="u", status=400),
        UpstreamRateLimited(upstream="u", retry_after_s=None),
        UpstreamRateLimited(upstream="u", retry_after_s=2.5),
        UpstreamUnavailable(upstream="u", reason="status 500"),
        UpstreamTimeout(upstream="u", reason="silent"),
        InvalidAnswer(upstream="u", reason="empty"),
        DeadlineExceeded(upstream="u"),
    ],
)
def test_what_a_wait_cannot_mend_is_not_retried(error):
    assert delay(error) is None


def test_attempts_end_at_their_maximum_or_where_the_wait_would_meet_the_deadline():
    assert delay(DOWN, attempts_made=2, max_attempts=3) is not None
    assert delay(DOWN, attempts_made=3, max_attempts=3) is None
    assert delay(DOWN, deadline_s=0.11) is not None
    assert delay(DOWN, deadline_s=0.1) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
        (
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT",
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            30.0,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT",
                "date": "Wed, 21 Oct 2015 07:28:30 GMT",
            },
            0.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 +" + "9" * 20}, None),
        ({"retry-after": f"Wed, 21 Oct {'9' * 20} 07:28:30 GMT"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "21 Oct 2015 07:28"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_counted_from_the_responses_own(headers, seconds):
    assert parse_retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"max_attempts": 0}, "max_attempts: must be >= 1, got 0"),
        ({"base_delay_s": 0.0}, "base_delay_s: must be > 0"),
        ({"base_delay_s": 3.0}, "base_delay_s: .* <= max_delay_s, got 3.0 and 2.0"),
        ({"max_delay_s": float("inf")}, "base_delay_s: .* got 0.1 and inf"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_field(policy, problem):
    with pytest.raises(ValueError, match=problem):
        RetryPolicy(**policy)
