import pytest

from router.domain import AnsweredBy
from router.errors import UnknownDecision
from router.ledger import DecisionLedger, LedgerEntry
from router.pipeline_testing import ScriptedTime


def ledger(time: ScriptedTime, *, max_entries: int = 3) -> DecisionLedger:
    return DecisionLedger(
        max_entries=max_entries, max_bytes=10_000, ttl_s=10.0, clock=lambda: time.now_s
    )


def remember(kept: DecisionLedger, *decision_ids: str, tenant: str = "acme", **values) -> None:
    for decision_id in decision_ids:
        kept.remember(decision_id, tenant=tenant, **values)


def is_known(kept: DecisionLedger, decision_id: str, tenant: str = "acme") -> bool:
    try:
        kept.find(decision_id, tenant=tenant)
    except UnknownDecision:
        return False
    return True


def test_returns_what_is_known_about_a_decision() -> None:
    kept = ledger(ScriptedTime())
    remember(kept, "a", answered_by=AnsweredBy.FAST_TIER, cache_key="k")
    assert kept.find("a", tenant="acme") == LedgerEntry(
        answered_by=AnsweredBy.FAST_TIER, cache_keys=("k",)
    )


def test_a_later_call_on_the_same_decision_loses_no_cache_key() -> None:
    kept = ledger(ScriptedTime())
    for cache_key in ("own", "similar", None, "own"):
        remember(kept, "a", answered_by=AnsweredBy.SLOW_TIER, cache_key=cache_key)
    assert kept.find("a", tenant="acme").cache_keys == ("own", "similar")


def test_another_tenants_decision_looks_like_none_at_all() -> None:
    kept = ledger(ScriptedTime())
    remember(kept, "a")
    with pytest.raises(UnknownDecision) as theirs:
        kept.find("a", tenant="other")
    with pytest.raises(UnknownDecision) as nobodys:
        kept.find("b", tenant="acme")
    assert str(theirs.value) == str(nobodys.value)
    assert theirs.value.field == "decision_id"


def test_a_decision_is_forgotten_at_the_end_of_its_time() -> None:
    time = ScriptedTime()
    kept = ledger(time)
    remember(kept, "a")
    time.now_s += 9.0
    assert is_known(kept, "a")
    time.now_s += 1.0
    assert not is_known(kept, "a")


def test_expired_decisions_take_no_room() -> None:
    time = ScriptedTime()
    kept = ledger(time)
    remember(kept, *"abc")
    time.now_s += 10.0
    remember(kept, "d")
    assert len(kept) == 1


def test_the_oldest_decision_makes_room() -> None:
    kept = ledger(ScriptedTime())
    remember(kept, *"abcd")
    assert [name for name in "abcd" if is_known(kept, name)] == ["b", "c", "d"]


def test_a_decision_that_is_remembered_again_is_the_newest() -> None:
    kept = ledger(ScriptedTime())
    remember(kept, *"abc", "a", "d")
    assert [name for name in "abcd" if is_known(kept, name)] == ["a", "c", "d"]


def test_a_tenant_that_floods_the_ledger_loses_its_own_decisions() -> None:
    kept = ledger(ScriptedTime())
    remember(kept, "theirs", tenant="quiet")
    remember(kept, *"abcdefgh", tenant="busy")
    assert is_known(kept, "theirs", "quiet")
    assert [name for name in "abcdefgh" if is_known(kept, name, "busy")] == ["g", "h"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_entries": 0}, "max_entries must be >= 1, got 0"),
        ({"max_bytes": 0}, "max_bytes must be >= 1, got 0"),
        ({"ttl_s": 0.0}, "ttl_s must be finite and > 0, got 0.0"),
        ({"ttl_s": float("inf")}, "ttl_s must be finite"),
    ],
)
def test_refuses_limits_that_hold_nothing(values, message) -> None:
    limits = {"max_entries": 1, "max_bytes": 1, "ttl_s": 1.0}
    with pytest.raises(ValueError, match=message):
        DecisionLedger(clock=lambda: 0.0, **{**limits, **values})
