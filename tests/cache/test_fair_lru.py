"""Limits hold, and the tenant that holds most pays for them."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.errors import SettingError
from cache.fair_lru import FairLru
from cache.testing import ScriptedClock


def lru(clock=None, *, max_entries: int = 4, max_bytes: int = 1_000) -> FairLru[str, str]:
    return FairLru(max_entries=max_entries, max_bytes=max_bytes, clock=clock or ScriptedClock())


def put(held: FairLru[str, str], tenant: str, key: str, *, size=1, ttl_s=60.0) -> list[str]:
    return held.put(
        tenant, key, f"{tenant}.{key}", size_bytes=size, expires_at_s=held.now_s() + ttl_s
    )


def test_the_least_recently_used_value_of_the_fullest_tenant_leaves() -> None:
    held = lru()
    for key in "123":
        put(held, "busy", key)
    put(held, "quiet", "1")
    held.touch("busy", "1")
    assert put(held, "quiet", "2") == ["busy.2"]
    assert list(held.values_of("busy")) == ["busy.3", "busy.1"]


def test_on_a_tie_the_tenant_that_stores_pays() -> None:
    held = lru()
    for tenant in "ab":
        for key in "12":
            put(held, tenant, key)
    assert put(held, "b", "3") == ["b.1"]
    assert put(held, "a", "3") == ["a.1"]


def test_a_lack_of_bytes_is_paid_by_the_tenant_with_most_bytes_not_most_values() -> None:
    held = lru(max_bytes=10)
    put(held, "many", "1")
    put(held, "many", "2")
    put(held, "large", "1", size=7)
    assert put(held, "new", "1", size=2) == ["large.1"]


def test_replacing_a_value_evicts_nobody_and_forgets_the_old_size_and_time() -> None:
    clock = ScriptedClock()
    held = lru(clock, max_entries=1, max_bytes=5)
    put(held, "a", "1", size=5, ttl_s=1.0)
    assert put(held, "a", "1", size=2, ttl_s=9.0) == []
    assert held.size_of("a") == (1, 2)
    clock.advance(8.0)
    assert held.expire() == []
    clock.advance(1.0)
    assert held.expire() == ["a.1"]


def test_nothing_is_kept_of_a_tenant_that_holds_nothing() -> None:
    held = lru(max_entries=100)
    for number in range(1_000):
        put(held, f"t{number}", "k")
        assert held.remove(f"t{number}", "k") == f"t{number}.k"
    assert held.remove("t0", "k") is None
    parts = (held._tenants, held._entries._held, held._bytes._held)
    assert [len(part) for part in parts] == [0, 0, 0]
    # What the heaps still hold of them is bounded too.
    assert max(len(held._deadlines), len(held._entries._heap), len(held._bytes._heap)) <= 65


def test_a_value_that_can_never_fit_is_refused_and_the_old_one_stays() -> None:
    held = lru(max_bytes=3)
    put(held, "a", "1")
    with pytest.raises(SettingError, match="4 bytes exceeds max_bytes = 3"):
        put(held, "a", "1", size=4)
    assert held.get("a", "1") == "a.1"


@pytest.mark.parametrize("name", ["max_entries", "max_bytes"])
def test_a_limit_that_holds_nothing_is_refused(name) -> None:
    with pytest.raises(SettingError, match=f"{name} must be >= 1, got 0"):
        lru(**{name: 0})


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("12345"), st.integers(1, 6)), max_size=60
    )
)
def test_no_tenant_pushes_out_one_that_holds_less_than_itself(puts) -> None:
    held = lru(max_entries=5, max_bytes=16)
    model: OrderedDict[str, int] = OrderedDict()  # bytes by "tenant.key", oldest first
    for tenant, key, size in puts:
        model.pop(f"{tenant}.{key}", None)
        for lost in put(held, tenant, key, size=size):
            entries = {t: [k for k in model if k[0] == t] for t in "abc"}
            if len(model) + 1 > 5:
                amounts = {t: len(keys) for t, keys in entries.items()}
            else:
                assert sum(model.values()) + size > 16
                amounts = {t: sum(model[k] for k in keys) for t, keys in entries.items()}
            assert amounts[lost[0]] == max(amounts.values())
            assert lost == entries[lost[0]][0]
            del model[lost]
        model[f"{tenant}.{key}"] = size
        assert len(held) == len(model) <= 5
        for t in "abc":
            own = [k for k in model if k[0] == t]
            assert list(held.values_of(t)) == own
            assert held.size_of(t) == (len(own), sum(model[k] for k in own))
