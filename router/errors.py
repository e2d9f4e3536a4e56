"""The errors a request can end in, split by who is wrong.

::

    RouterError
    ├── RequestError               the caller is wrong
    │   ├── InvalidRequest         a field is malformed             INVALID_ARGUMENT
    │   ├── RequestUnsatisfiable   nobody could satisfy it as set   FAILED_PRECONDITION
    │   ├── Unauthenticated        no valid credentials             UNAUTHENTICATED
    │   ├── Forbidden              not this caller's to do          PERMISSION_DENIED
    │   └── UnknownDecision        no such decision of this tenant  NOT_FOUND
    ├── Overloaded                 too much at once                 RESOURCE_EXHAUSTED
    ├── DeadlinePassed             the caller's time is over        DEADLINE_EXCEEDED
    ├── TierUnavailable            no tier is left to answer        UNAVAILABLE
    ├── Draining                   the service is about to stop     UNAVAILABLE
    ├── PolicyFailed               the operator's own policy failed INTERNAL
    ├── ConfigError                the operator is wrong            (start-up)
    └── ArtifactError              a model folder is damaged        (start-up)

Messages name the field, limit or setting, never what a user typed.
"""

from __future__ import annotations


class RouterError(Exception):
    """Base of everything the router raises on purpose."""


class RequestError(RouterError):
    """The request cannot be served as it is.

    Attributes:
        field: Path of the offending field on the wire, e.g. ``"messages[2].content"``;
            empty where no single field is at fault.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.description = message


class InvalidRequest(RequestError):  # noqa: N818 - named for what it says to the caller
    """A field is malformed, missing or over its limit."""


class RequestUnsatisfiable(RequestError):  # noqa: N818
    """The request is well formed, but nobody could satisfy it with this configuration."""


class Unauthenticated(RequestError):  # noqa: N818
    """The call carries no valid credentials."""


class Forbidden(RequestError):  # noqa: N818
    """The caller is known but may not do this."""


class UnknownDecision(RequestError):  # noqa: N818
    """No decision of this id belongs to the caller's tenant."""


class Overloaded(RouterError):  # noqa: N818
    """The service refuses work it could not finish in time.

    Attributes:
        retry_after_s: When a retry is worth trying, seconds.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlinePassed(RouterError):  # noqa: N818
    """The request's deadline is over; nothing is generated after it."""


class TierUnavailable(RouterError):  # noqa: N818
    """No tier can answer.

    Attributes:
        setting: The configuration key that would change that, e.g.
            ``"slow_tier.upstreams"``.
    """

    def __init__(self, message: str, *, setting: str) -> None:
        super().__init__(f"{message} (setting: {setting})")
        self.setting = setting


class Draining(RouterError):  # noqa: N818
    """The service is about to stop and takes no new calls."""


class PolicyFailed(RouterError):  # noqa: N818
    """The policy that the operator configured gave no verdict.

    Attributes:
        setting: The configuration key that names the policy.
    """

    def __init__(self, message: str, *, setting: str) -> None:
        super().__init__(f"{message} (setting: {setting})")
        self.setting = setting


class ConfigError(RouterError):
    """The configuration is wrong; the message has one line a mistake, each with its key."""


class ArtifactError(RouterError):
    """A model folder is missing, damaged or of another format; the message names the file."""
