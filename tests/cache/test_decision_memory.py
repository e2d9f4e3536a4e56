"""A decision is remembered for its key, its request, its tenant and its time only."""

import math

import pytest

from cache.decision_memory import DecisionMemory
from cache.errors import SettingError
from cache.testing import ScriptedClock


def memory(clock: ScriptedClock, *, max_entries: int = 4, max_bytes: int = 1_000) -> DecisionMemory:
    return DecisionMemory(ttl_s=30.0, max_entries=max_entries, max_bytes=max_bytes, clock=clock)


def test_recall_needs_the_same_tenant_key_and_request() -> None:
    decisions = memory(ScriptedClock())
    decisions.remember("a", "order-1", "request", b"decided")
    assert decisions.recall("a", "order-1", "request") == b"decided"
    assert decisions.recall("b", "order-1", "request") is None
    assert decisions.recall("a", "order-2", "request") is None
    assert decisions.recall("a", "order-1", "changed") is None


def test_a_decision_is_forgotten_at_its_ttl_counted_from_the_last_remember() -> None:
    clock = ScriptedClock()
    decisions = memory(clock)
    decisions.remember("a", "k", "r", b"1")
    clock.advance(20.0)
    decisions.remember("a", "k", "r", b"2")
    clock.advance(29.0)
    assert decisions.recall("a", "k", "r") == b"2"
    clock.advance(1.0)
    assert decisions.recall("a", "k", "r") is None
    assert len(decisions) == 0


def test_a_clock_that_steps_back_does_not_prolong_a_decision() -> None:
    clock = ScriptedClock()
    decisions = memory(clock)
    decisions.remember("a", "k", "r", b"1")
    clock.advance(-3_600.0)
    assert decisions.recall("a", "k", "r") == b"1"
    clock.advance(29.0)
    assert decisions.recall("a", "k", "r") == b"1"
    clock.advance(1.0)
    assert decisions.recall("a", "k", "r") is None


def test_a_busy_tenant_forgets_its_own_oldest_decision_first() -> None:
    decisions = memory(ScriptedClock(), max_entries=3)
    decisions.remember("quiet", "k", "r", b"kept")
    for i in range(10):
        decisions.remember("busy", f"k{i}", "r", b"x")
    assert decisions.recall("quiet", "k", "r") == b"kept"
    assert [i for i in range(10) if decisions.recall("busy", f"k{i}", "r")] == [8, 9]
    assert len(decisions) == 3


def test_room_is_first_made_of_what_is_too_old_anywhere() -> None:
    clock = ScriptedClock()
    decisions = memory(clock, max_entries=2)
    decisions.remember("old", "k", "r", b"x")
    clock.advance(30.0)
    decisions.remember("new", "k1", "r", b"1")
    decisions.remember("new", "k2", "r", b"2")
    assert decisions.recall("new", "k1", "r") == b"1"
    assert decisions.recall("new", "k2", "r") == b"2"


def test_a_new_decision_is_kept_even_with_room_for_one() -> None:
    decisions = memory(ScriptedClock(), max_entries=1)
    decisions.remember("a", "k", "r", b"1")
    decisions.remember("b", "k", "r", b"2")
    assert decisions.recall("a", "k", "r") is None
    assert decisions.recall("b", "k", "r") == b"2"


def test_bytes_of_keys_and_payload_are_bounded_across_tenants() -> None:
    decisions = memory(ScriptedClock(), max_bytes=30)
    decisions.remember("quiet", "k", "r", b"x" * 8)  # 10 bytes
    decisions.remember("busy", "k1", "r", b"x" * 7)
    decisions.remember("busy", "k2", "r", b"x" * 7)
    decisions.remember("busy", "k3", "r", b"x" * 7)  # 40 with the others
    assert decisions.recall("busy", "k1", "r") is None
    assert decisions.recall("busy", "k3", "r") == b"x" * 7
    assert decisions.recall("quiet", "k", "r") == b"x" * 8


def test_a_decision_over_the_limit_replaces_the_old_one_by_nothing_and_costs_nobody() -> None:
    decisions = memory(ScriptedClock(), max_bytes=30)
    decisions.remember("a", "k", "r", b"old")
    decisions.remember("b", "k", "r", b"kept")
    decisions.remember("a", "k", "r", b"x" * 29)
    assert decisions.recall("a", "k", "r") is None
    assert decisions.recall("b", "k", "r") == b"kept"
    decisions.remember("a", "\ud800", "r", b"a lone surrogate")
    assert len(decisions) == 2


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, math.nan, math.inf])
def test_a_meaningless_ttl_is_refused(ttl_s: float) -> None:
    with pytest.raises(SettingError, match="ttl_s must be finite and > 0"):
        DecisionMemory(ttl_s=ttl_s, max_entries=1, max_bytes=1, clock=ScriptedClock())


@pytest.mark.parametrize("name", ["max_entries", "max_bytes"])
def test_a_memory_without_room_is_refused(name) -> None:
    with pytest.raises(SettingError, match=f"{name} must be >= 1, got 0"):
        memory(ScriptedClock(), **{name: 0})
