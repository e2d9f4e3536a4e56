"""Every error has one status, and no status tells what a user typed."""

import asyncio

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from structlog.testing import capture_logs

from router import errors
from router.errors import (
    InvalidRequest,
    Overloaded,
    RequestUnsatisfiable,
    RouterError,
    TierUnavailable,
)
from router.status import CODES, failure_of, translated

START_UP = {errors.ConfigError, errors.ArtifactError}
ABSTRACT = {errors.RouterError, errors.RequestError}


def only_detail(error: Exception, kind: type) -> object:
    status = status_pb2.Status()
    ((key, value),) = failure_of(error).trailers()
    assert key == "grpc-status-details-bin"
    status.ParseFromString(value)
    assert (status.code, status.message) == (failure_of(error).number, str(error))
    (packed,) = status.details
    detail = kind()
    assert packed.Unpack(detail)
    return detail


def test_every_error_of_a_request_has_a_row() -> None:
    defined = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, RouterError)
    }
    assert defined - START_UP - ABSTRACT == set(CODES)


def test_a_subclass_has_the_status_of_its_base() -> None:
    class TooLong(InvalidRequest):
        pass

    assert failure_of(TooLong("x")).code is grpc.StatusCode.INVALID_ARGUMENT


def test_an_invalid_field_is_named_in_a_bad_request() -> None:
    detail = only_detail(InvalidRequest("is empty", field="prompt"), error_details_pb2.BadRequest)
    (violation,) = detail.field_violations
    assert (violation.field, violation.description) == ("prompt", "is empty")


def test_an_unmet_precondition_names_its_subject() -> None:
    error = RequestUnsatisfiable("no value satisfies it", field="response_schema")
    detail = only_detail(error, error_details_pb2.PreconditionFailure)
    assert detail.violations[0].subject == "response_schema"
    assert failure_of(error).code is grpc.StatusCode.FAILED_PRECONDITION


def test_an_overloaded_service_says_when_to_retry() -> None:
    detail = only_detail(Overloaded("busy", retry_after_s=1.25), error_details_pb2.RetryInfo)
    assert (detail.retry_delay.seconds, detail.retry_delay.nanos) == (1, 250_000_000)


def test_a_missing_tier_names_the_setting() -> None:
    error = TierUnavailable("no tier can answer", setting="slow_tier.upstreams")
    detail = only_detail(error, error_details_pb2.ErrorInfo)
    assert (detail.reason, detail.domain) == ("TIER_UNAVAILABLE", "fastslow")
    assert detail.metadata == {"setting": "slow_tier.upstreams"}
    assert "slow_tier.upstreams" in failure_of(error).message


def test_draining_sends_callers_to_another_replica() -> None:
    assert failure_of(errors.Draining("stopping")).code is grpc.StatusCode.UNAVAILABLE


async def test_a_caller_that_does_not_read_cannot_hold_a_call_open(monkeypatch) -> None:
    class Unread:
        async def abort(self, *_args, **_kwargs) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("router.status._ABORT_S", 0.01)

    async def call() -> None:
        async with translated(Unread()):
            msg = "late"
            raise errors.DeadlinePassed(msg)

    with pytest.raises(grpc.aio.AbortError):
        await call()


async def test_a_call_that_grpc_ended_meanwhile_is_cancelled_and_no_bug() -> None:
    class Ended:
        async def abort(self, *_args, **_kwargs) -> None:
            raise grpc.aio.BaseError

    async def call() -> None:
        async with translated(Ended()):
            msg = "late"
            raise errors.DeadlinePassed(msg)

    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await call()
    assert logs == []


@pytest.mark.parametrize("error", [ValueError("secret"), errors.ConfigError("secret")])
def test_an_unknown_exception_is_internal_and_logged_without_its_message(error: Exception) -> None:
    def fail() -> None:
        raise error from KeyError("secret text of a user")

    with pytest.raises(type(error)) as caught:
        fail()
    with capture_logs() as logs:
        failure = failure_of(caught.value, new_error_id=lambda: "e-1")
    assert failure.code is grpc.StatusCode.INTERNAL
    assert failure.message == "internal error e-1"
    (entry,) = logs
    assert entry["error_id"] == "e-1"
    assert [raised["type"] for raised in entry["exceptions"]] == [
        type(error).__qualname__,
        "KeyError",
    ]
    assert entry["exceptions"][0]["frames"][-1].endswith(" fail")
    assert "secret" not in repr(logs)
    assert "secret" not in repr(failure)
