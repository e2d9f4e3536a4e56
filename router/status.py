"""The one table from exceptions to gRPC statuses.

Only this module turns an exception into what a caller sees: code, message and rich details
(``google.rpc.Status`` in the ``grpc-status-details-bin`` trailer, google.aip.dev/193).
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # no py.typed
from grpc_status import rpc_status

from router.errors import (
    DeadlinePassed,
    Draining,
    Forbidden,
    InvalidRequest,
    Overloaded,
    PolicyFailed,
    RequestError,
    RequestUnsatisfiable,
    RouterError,
    TierUnavailable,
    Unauthenticated,
    UnknownDecision,
)
from router.logs import exception_chain

DOMAIN = "fastslow"
# A status waits behind what was written before it, which a caller may never read.
_ABORT_S = 1.0

CODES: dict[type[RouterError], grpc.StatusCode] = {
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    RequestUnsatisfiable: grpc.StatusCode.FAILED_PRECONDITION,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    UnknownDecision: grpc.StatusCode.NOT_FOUND,
    Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    DeadlinePassed: grpc.StatusCode.DEADLINE_EXCEEDED,
    TierUnavailable: grpc.StatusCode.UNAVAILABLE,
    Draining: grpc.StatusCode.UNAVAILABLE,
    PolicyFailed: grpc.StatusCode.INTERNAL,
}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a caller is told.

    Attributes:
        code: gRPC status code.
        message: Names field, limit or setting, never what a user typed.
        details: Messages of ``google/rpc/error_details.proto``.
    """

    code: grpc.StatusCode
    message: str
    details: tuple[Message, ...] = ()

    @property
    def number(self) -> int:
        """The code as a number of ``google.rpc.Code``."""
        number: int = self.code.value[0]
        return number

    def trailers(self) -> tuple[tuple[str, str | bytes], ...]:
        """Return the trailing metadata that carries the details."""
        status = status_pb2.Status(code=self.number, message=self.message)
        for detail in self.details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        trailers: tuple[tuple[str, str | bytes], ...] = rpc_status.to_status(
            status
        ).trailing_metadata
        return trailers


def failure_of(
    error: Exception, *, new_error_id: Callable[[], str] = lambda: uuid.uuid4().hex
) -> Failure:
    """Translate an exception.

    An exception without a row is a bug: the caller gets INTERNAL with an error id, and the log
    the same id with the traceback, both without the exception's message.

    Args:
        error: What was raised.
        new_error_id: Gives a fresh id.
    """
    for kind in type(error).__mro__:
        if kind in CODES:
            return Failure(code=CODES[kind], message=str(error), details=_details(error))
    error_id = new_error_id()
    _log.error("internal_error", error_id=error_id, exceptions=exception_chain(error))
    info = error_details_pb2.ErrorInfo(
        reason="INTERNAL", domain=DOMAIN, metadata={"error_id": error_id}
    )
    return Failure(
        code=grpc.StatusCode.INTERNAL, message=f"internal error {error_id}", details=(info,)
    )


@asynccontextmanager
async def translated(context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[None]:
    """End the call with the status of whatever the ``async with`` block raises.

    Cancellation passes through: there is nobody left to tell.
    """
    try:
        yield
    except grpc.aio.AbortError:
        raise
    except Exception as error:  # noqa: BLE001 - the last place that sees it; unknown ones are logged
        failure = failure_of(error)
        try:
            async with asyncio.timeout(_ABORT_S):
                await context.abort(
                    failure.code, failure.message, trailing_metadata=failure.trailers()
                )
        except TimeoutError:
            # gRPC drops the call when its handler ends.
            raise grpc.aio.AbortError from None
        except grpc.aio.AbortError:
            raise
        except grpc.aio.BaseError:
            # gRPC had ended the call already, its deadline passed or its caller gone: there
            # is nobody left to tell, which is no bug.
            raise asyncio.CancelledError from None


def _details(error: Exception) -> tuple[Message, ...]:
    match error:
        case InvalidRequest() if error.field:
            violation = error_details_pb2.BadRequest.FieldViolation(
                field=error.field, description=error.description
            )
            return (error_details_pb2.BadRequest(field_violations=[violation]),)
        case RequestUnsatisfiable() if error.field:
            unmet = error_details_pb2.PreconditionFailure.Violation(
                type=_reason(error), subject=error.field, description=error.description
            )
            return (error_details_pb2.PreconditionFailure(violations=[unmet]),)
        case Overloaded():
            delay = Duration()
            delay.FromMicroseconds(round(error.retry_after_s * 1_000_000))
            return (error_details_pb2.RetryInfo(retry_delay=delay),)
        case TierUnavailable() | PolicyFailed():
            metadata = {"setting": error.setting}
        case RequestError() if error.field:
            metadata = {"field": error.field}
        case _:
            metadata = {}
    return (error_details_pb2.ErrorInfo(reason=_reason(error), domain=DOMAIN, metadata=metadata),)


def _reason(error: Exception) -> str:
    """Return the class name as the contract writes words: ``TIER_UNAVAILABLE``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).upper()
