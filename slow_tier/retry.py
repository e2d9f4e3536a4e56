"""Decide whether a failed attempt is worth another one at the same upstream.

Waits grow exponentially with full jitter, a uniform draw between zero and the cap, which
spreads competing clients best: M. Brooker, "Exponential Backoff And Jitter", AWS
Architecture Blog, 2015.

The stamina library is not used. It adds jitter on top of the wait instead of drawing the
whole wait, takes time and randomness from the process instead of from its caller, and
measures a timeout from its own start where the deadline here is one absolute time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from random import Random

from slow_tier.errors import (
    SlowTierError,
    UpstreamRateLimited,
    UpstreamTimeout,
    UpstreamUnavailable,
)

RETRYABLE_STATUSES = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often to ask one upstream, with which waits between.

    Attributes:
        max_attempts: Attempts in all, >= 1; 1 means no retry.
        base_delay_s: Upper bound of the first wait, > 0; it doubles with each attempt.
        max_delay_s: Upper bound of every wait, >= ``base_delay_s``. A server that asks for
            a longer one is not waited for.
    """

    max_attempts: int = 3
    base_delay_s: float = 0.1
    max_delay_s: float = 2.0

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            msg = f"max_attempts: must be >= 1, got {self.max_attempts}"
            raise ValueError(msg)
        if not 0.0 < self.base_delay_s <= self.max_delay_s < math.inf:
            msg = (
                "base_delay_s: must be > 0 and <= max_delay_s, "
                f"got {self.base_delay_s} and {self.max_delay_s}"
            )
            raise ValueError(msg)


def next_delay_s(
    error: SlowTierError,
    *,
    attempts_made: int,
    policy: RetryPolicy,
    random: Random,
    now_s: float,
    deadline_s: float,
) -> float | None:
    """Return the seconds to wait before the next attempt, None for no further attempt.

    Retried are connect failures, statuses 502 to 504, and a 429 whose server says when to
    come back (without that word it is as often a spent quota, which no wait mends). What
    may be retried at all stands in the error's ``retryable``.

    Args:
        error: Why the last attempt failed.
        attempts_made: Attempts at this upstream so far, >= 1.
        policy: Limits of this upstream.
        random: Source of the jitter.
        now_s: Monotonic time.
        deadline_s: Absolute monotonic time at which the caller gives up.
    """
    if attempts_made >= policy.max_attempts:
        return None
    match error:
        case UpstreamRateLimited(retry_after_s=float(asked_s)):
            floor_s = asked_s
        case UpstreamUnavailable(retryable=True, retry_after_s=asked_s):
            floor_s = asked_s or 0.0
        case UpstreamTimeout(retryable=True):
            floor_s = 0.0
        case _:
            return None
    if floor_s > policy.max_delay_s:
        return None
    # The exponent is capped because 2.0 ** 1024 overflows.
    growth = 2.0 ** min(attempts_made - 1, 64)
    delay_s = floor_s + random.uniform(0.0, min(policy.max_delay_s, policy.base_delay_s * growth))
    return delay_s if now_s + delay_s < deadline_s else None


def parse_retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait of a ``Retry-After`` header in seconds, >= 0, or None.

    RFC 9110, section 10.2.3: a number of seconds or a date. A date counts from the
    response's own ``Date``, so that the two machines' clocks need not agree.

    Args:
        headers: Response headers, looked up by their lower-case names.
    """
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))
        except (OverflowError, ValueError, TypeError):
            # No date, one out of range, or only one of the two has a zone.
            return None
        seconds = wait.total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
