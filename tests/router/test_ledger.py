import pytest

from router.domain import Tier
from router.errors import UnknownDecision
from router.ledger import DecisionLedger, LedgerEntry
from router.pipeline_testing import ScriptedTime


def entry(tenant: str = "acme", **values) -> LedgerEntry:
    return LedgerEntry(tenant=tenant, tier=Tier.FAST, **values)


def ledger(time: ScriptedTime, *, max_entries: int = 3) -> DecisionLedger:
    return DecisionLedger(max_entries=max_entries, ttl_s=10.0, clock=lambda: time.now_s)


def test_returns_what_is_known_about_a_decision() -> None:
    kept = ledger(ScriptedTime())
    kept.remember("a", entry(cache_key="k"))
    assert kept.find("a", tenant="acme") == entry(cache_key="k")


def test_another_tenants_decision_looks_like_none_at_all() -> None:
    kept = ledger(ScriptedTime())
    kept.remember("a", entry())
    with pytest.raises(UnknownDecision) as theirs:
        kept.find("a", tenant="other")
    with pytest.raises(UnknownDecision) as nobodys:
        kept.find("b", tenant="acme")
    assert str(theirs.value) == str(nobodys.value)
    assert theirs.value.field == "decision_id"


def test_a_decision_is_forgotten_at_the_end_of_its_time() -> None:
    time = ScriptedTime()
    kept = ledger(time)
    kept.remember("a", entry())
    time.now_s += 9.999
    assert kept.find("a", tenant="acme")
    time.now_s += 0.001
    with pytest.raises(UnknownDecision):
        kept.find("a", tenant="acme")


def test_expired_decisions_take_no_room() -> None:
    time = ScriptedTime()
    kept = ledger(time)
    for name in "abc":
        kept.remember(name, entry())
    time.now_s += 10.0
    kept.remember("d", entry())
    assert len(kept) == 1


def test_the_oldest_decision_makes_room() -> None:
    kept = ledger(ScriptedTime())
    for name in "abcd":
        kept.remember(name, entry())
    with pytest.raises(UnknownDecision):
        kept.find("a", tenant="acme")
    assert len(kept) == 3


def test_a_decision_that_is_remembered_again_is_the_newest() -> None:
    kept = ledger(ScriptedTime())
    for name in "abc":
        kept.remember(name, entry())
    kept.remember("a", entry(cache_key="new"))
    kept.remember("d", entry())
    assert kept.find("a", tenant="acme").cache_key == "new"
    with pytest.raises(UnknownDecision):
        kept.find("b", tenant="acme")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_entries": 0, "ttl_s": 1.0}, "max_entries must be >= 1, got 0"),
        ({"max_entries": 1, "ttl_s": 0.0}, "ttl_s must be finite and > 0, got 0.0"),
        ({"max_entries": 1, "ttl_s": float("inf")}, "ttl_s must be finite"),
    ],
)
def test_refuses_limits_that_hold_nothing(values, message) -> None:
    with pytest.raises(ValueError, match=message):
        DecisionLedger(clock=lambda: 0.0, **values)
