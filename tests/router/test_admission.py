"""Permits never outnumber the limit and always come back."""

from contextlib import ExitStack

import pytest

from router.admission import Admission
from router.errors import Overloaded


def test_a_call_over_the_limit_is_refused_until_another_one_ends() -> None:
    admission = Admission(limit=2, retry_after_s=1.5)
    with ExitStack() as calls:
        calls.enter_context(admission.permit())
        calls.enter_context(admission.permit())
        with (
            pytest.raises(Overloaded, match=r"2 calls.*limits\.in_flight") as caught,
            admission.permit(),
        ):
            pytest.fail("a third call was let in")
        assert caught.value.retry_after_s == 1.5
        assert admission.in_flight == 2
    with admission.permit():
        assert admission.in_flight == 1


def test_a_permit_comes_back_when_the_call_fails() -> None:
    admission = Admission(limit=1, retry_after_s=1.0)
    for _ in range(3):
        with pytest.raises(KeyError), admission.permit():
            raise KeyError
    assert admission.in_flight == 0


def test_a_limit_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="limit must be >= 1, got 0"):
        Admission(limit=0, retry_after_s=1.0)
