"""What can go wrong between a caller and an upstream model server.

::

    SlowTierError
    ├── NotConfigured          no such upstream, or none at all
    ├── DeadlineExceeded       the caller's time is over, whoever is to blame
    ├── UpstreamUnavailable    cannot connect, 5xx, a broken stream, breaker open
    ├── UpstreamTimeout        slower than a limit of the upstream's own settings
    ├── UpstreamRateLimited    429
    ├── UpstreamRejected       any other status that is not 2xx
    └── InvalidAnswer          it answered, but not what was asked for

A message names the upstream. It never quotes a request or a response: servers echo
prompts in their error bodies, so neither body is safe to log.
"""

from __future__ import annotations

from typing import ClassVar


class SlowTierError(Exception):
    """Root of the tree.

    Attributes:
        upstream: Name of the upstream from the configuration.
        reason: Why, in words that hold no text of the user, of the model or a secret.
        outcome: One word for metrics labels, the same for every error of a class.
    """

    outcome: ClassVar[str] = "error"

    def __init__(self, *, upstream: str, reason: str) -> None:
        super().__init__(f"upstream {upstream!r}: {reason}")
        self.upstream = upstream
        self.reason = reason


class NotConfigured(SlowTierError):  # noqa: N818 - public name, a state rather than a fault
    """No upstream of that name exists; with no upstream at all the name is ``(none)``."""

    outcome = "not_configured"


class DeadlineExceeded(SlowTierError):  # noqa: N818 - gRPC's word for it
    """The absolute deadline of the call passed; nothing was generated after it."""

    outcome = "deadline_exceeded"

    def __init__(self, *, upstream: str) -> None:
        super().__init__(upstream=upstream, reason="the deadline passed")


class UpstreamUnavailable(SlowTierError):  # noqa: N818 - gRPC's word for it
    """The server cannot be reached, fails (5xx), breaks off, or its breaker is open.

    Attributes:
        retryable: Whether the same upstream may be asked again for the same request.
        retry_after_s: Seconds the server asks to wait, >= 0, or None.
    """

    outcome = "unavailable"

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
    """A limit of the upstream's own settings passed before the caller's deadline did.

    Attributes:
        retryable: True when no connection was made, so that nothing was generated.
    """

    outcome = "timeout"

    def __init__(self, *, upstream: str, reason: str, retryable: bool = False) -> None:
        super().__init__(upstream=upstream, reason=reason)
        self.retryable = retryable


class UpstreamRateLimited(SlowTierError):  # noqa: N818 - reads as what happened
    """Status 429.

    Attributes:
        retry_after_s: Seconds the server asks to wait, >= 0; None when it does not say.
    """

    outcome = "rate_limited"

    def __init__(self, *, upstream: str, retry_after_s: float | None) -> None:
        wait = "not said" if retry_after_s is None else f"{retry_after_s:g} s"
        super().__init__(upstream=upstream, reason=f"status 429, retry after: {wait}")
        self.retry_after_s = retry_after_s


class UpstreamRejected(SlowTierError):  # noqa: N818 - reads as what happened
    """The server understood the connection but not, or not us, the request.

    Attributes:
        status: HTTP status, neither 2xx nor 5xx nor 429.
    """

    outcome = "rejected"

    def __init__(self, *, upstream: str, status: int) -> None:
        super().__init__(upstream=upstream, reason=f"status {status}")
        self.status = status


class InvalidAnswer(SlowTierError):  # noqa: N818 - reads as what happened
    """An answer that is empty, too large, no JSON, or against its schema.

    Attributes:
        field: Top-level property or question id that is wrong, or None.
    """

    outcome = "invalid_answer"

    def __init__(self, *, upstream: str, reason: str, field: str | None = None) -> None:
        super().__init__(
            upstream=upstream, reason=reason if field is None else f"{field!r}: {reason}"
        )
        self.field = field
