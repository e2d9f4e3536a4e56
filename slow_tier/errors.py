"""What can go wrong between a caller and an upstream model server.

::

    SlowTierError
    ├── NotConfigured          no such upstream, or none at all
    ├── DeadlineExceeded       the caller's time is over, whoever is to blame
    ├── UpstreamUnavailable    cannot connect, 5xx, a broken stream, breaker open
    ├── UpstreamTimeout        slower than its settings, or its part of the deadline, allow
    ├── UpstreamRateLimited    429
    ├── UpstreamRejected       any other status that is not 2xx
    └── InvalidAnswer          it answered, but not what was asked for

Every error says whether the upstream is alive, for its breaker, and whether another upstream
should be asked. A message names the upstream. It never quotes a request or a response: servers echo
prompts in their error bodies, so neither body is safe to log.
"""

from __future__ import annotations

from typing import ClassVar

# RFC 9110, section 15.5: malformed, too large, URI too long, unprocessable; RFC 6585: headers
# too large. The same request would fare no better anywhere else.
_BLAMES_THE_REQUEST = frozenset({400, 413, 414, 422, 431})


class SlowTierError(Exception):
    """Root of the tree.

    Attributes:
        upstream: Name of the upstream from the configuration.
        reason: Why, in words that hold no text of the user, of the model or a secret.
        outcome: One word for metrics labels, the same for every error of a class.
        alive: True when the upstream answered at all, False when it failed, None when the
            error says nothing about it.
        elsewhere: Whether another upstream may well answer the same request.
    """

    outcome: ClassVar[str] = "error"
    alive: bool | None = None
    elsewhere: bool = False

    def __init__(self, *, upstream: str, reason: str) -> None:
        super().__init__(f"upstream {upstream!r}: {reason}")
        self.upstream = upstream
        self.reason = reason


class NotConfigured(SlowTierError):  # noqa: N818 - public name, a state rather than a fault
    """No upstream of that name exists; with no upstream at all the name is ``(none)``."""

    outcome = "not_configured"


class DeadlineExceeded(SlowTierError):  # noqa: N818 - gRPC's word for it
    """The absolute deadline of the call passed; nothing was generated after it.

    Attributes:
        alive: False when the upstream was silent for so long that it must be hanging.
    """

    outcome = "deadline_exceeded"

    def __init__(self, *, upstream: str, alive: bool | None = None) -> None:
        super().__init__(upstream=upstream, reason="the deadline passed")
        self.alive = alive


class UpstreamUnavailable(SlowTierError):  # noqa: N818 - gRPC's word for it
    """The server cannot be reached, fails (5xx), breaks off, or its breaker is open.

    Attributes:
        retryable: Whether the same upstream may be asked again for the same request.
        retry_after_s: Seconds the server asks to wait, >= 0, or None.
    """

    outcome = "unavailable"
    alive = False
    elsewhere = True

    def __init__(
        self,
        *,
        upstream: str,
        reason: str,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(upstream=upstream, reason=reason)
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class UpstreamTimeout(SlowTierError):  # noqa: N818 - reads as what happened
    """A limit passed before the caller's deadline did.

    Attributes:
        retryable: True when no connection was made, so that nothing was generated.
        alive: None when a limit passed that follows from a caller's short deadline.
    """

    outcome = "timeout"
    elsewhere = True

    def __init__(
        self, *, upstream: str, reason: str, retryable: bool = False, alive: bool | None = False
    ) -> None:
        super().__init__(upstream=upstream, reason=reason)
        self.retryable = retryable
        self.alive = alive


class UpstreamRateLimited(SlowTierError):  # noqa: N818 - reads as what happened
    """Status 429.

    Attributes:
        retry_after_s: Seconds the server asks to wait, >= 0; None when it does not say.
    """

    outcome = "rate_limited"
    alive = True
    elsewhere = True

    def __init__(self, *, upstream: str, retry_after_s: float | None) -> None:
        wait = "not said" if retry_after_s is None else f"{retry_after_s:g} s"
        super().__init__(upstream=upstream, reason=f"status 429, retry after: {wait}")
        self.retry_after_s = retry_after_s


class UpstreamRejected(SlowTierError):  # noqa: N818 - reads as what happened
    """The server understood the connection but not, or not us, the request.

    Attributes:
        status: HTTP status, neither 2xx nor 5xx nor 429.
        elsewhere: False for a status that blames the request itself. Any other, an expired
            key or a wrong URL, is a fault between this upstream and us.
    """

    outcome = "rejected"
    alive = True

    def __init__(self, *, upstream: str, status: int) -> None:
        super().__init__(upstream=upstream, reason=f"status {status}")
        self.status = status
        self.elsewhere = status not in _BLAMES_THE_REQUEST


class InvalidAnswer(SlowTierError):  # noqa: N818 - reads as what happened
    """An answer that is empty, too large, no JSON, or against its schema.

    Attributes:
        field: Top-level property or question id that is wrong, or None.
    """

    outcome = "invalid_answer"
    alive = True

    def __init__(self, *, upstream: str, reason: str, field: str | None = None) -> None:
        super().__init__(
            upstream=upstream, reason=reason if field is None else f"{field!r}: {reason}"
        )
        self.field = field
