"""The cache answers what it knows, to its owner only, for as long as it may."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cache import guard, statistics
from cache.admission import StoreRefusal
from cache.entry import CacheHit, CacheMiss, MissReason, Namespace
from cache.errors import EntryError, SettingError, VectorError
from cache.semantic_cache import CacheSettings, SemanticCache
from cache.testing import ScriptedClock

DIM = 4
SETTINGS = CacheSettings(
    max_entries=100,
    max_bytes=100_000,
    ttl_s=60.0,
    max_entry_bytes=1_000,
    similarity_threshold=0.9,
    candidates=4,
)


def namespace(tenant: str = "a", *, variant: str = "", encoder: str = "enc-1") -> Namespace:
    return Namespace(
        tenant=tenant,
        encoder_revision=encoder,
        system_prompt="",
        question_schema="",
        answer_settings="",
        tool_set="",
        model_revisions="",
        variant=variant,
    )


def direction(degrees: float) -> np.ndarray:
    """A unit vector whose cosine with ``direction(0)`` is that of the angle."""
    radians = math.radians(degrees)
    return np.array([math.cos(radians), math.sin(radians), 0.0, 0.0], dtype=np.float32)


def insert(cache: SemanticCache, space: Namespace, key: str, **fields) -> StoreRefusal | None:
    return cache.insert(
        space,
        **(
            {
                "key": key,
                "text": "a question",
                "payload": key.encode(),
                "embedding": direction(0.0),
                "decision_id": "d",
                "model_revision": "m-1",
                "ttl_s": None,
            }
            | fields
        ),
    )


@pytest.fixture
def clock() -> ScriptedClock:
    return ScriptedClock()


@pytest.fixture
def cache(clock: ScriptedClock) -> SemanticCache:
    return SemanticCache(SETTINGS, dim=DIM, clock=clock)


def small(clock: ScriptedClock, **limits) -> SemanticCache:
    return SemanticCache(replace(SETTINGS, **limits), dim=DIM, clock=clock)


def keys(cache: SemanticCache, space: Namespace, candidates: str) -> str:
    return "".join(k for k in candidates if cache.lookup_exact(space, k) is not None)


def test_an_exact_hit_returns_what_was_stored_with_its_age(cache, clock) -> None:
    assert insert(cache, namespace(), "k", payload=b"Paris") is None
    clock.advance(12.5)
    hit = cache.lookup_exact(namespace(), "k")
    assert (hit.entry.payload, hit.kind, hit.similarity, hit.age_s) == (
        b"Paris",
        "exact",
        1.0,
        12.5,
    )
    assert cache.lookup_exact(namespace(variant="B"), "k") is None
    assert cache.lookup_exact(namespace("b"), "k") is None


def test_a_semantic_hit_needs_the_threshold(cache) -> None:
    insert(cache, namespace(), "k")
    hit = cache.lookup_semantic(namespace(), "the question", direction(25.0))
    assert isinstance(hit, CacheHit)
    assert hit.kind == "semantic"
    assert hit.similarity == pytest.approx(math.cos(math.radians(25.0)))  # .906
    miss = cache.lookup_semantic(namespace(), "the question", direction(26.0))
    assert isinstance(miss, CacheMiss)
    assert miss.reason is MissReason.BELOW_THRESHOLD
    assert miss.similarity == pytest.approx(math.cos(math.radians(26.0)))  # .899


def test_a_semantic_lookup_takes_the_closest_entry_the_guard_consents_to(cache) -> None:
    insert(cache, namespace(), "closest", text="disable 2FA", embedding=direction(1.0))
    insert(cache, namespace(), "right", text="enable the 2FA", embedding=direction(5.0))
    insert(cache, namespace(), "farther", text="enable 2FA", embedding=direction(9.0))
    hit = cache.lookup_semantic(namespace(), "enable 2FA", direction(0.0))
    assert hit.entry.key == "right"


def test_a_miss_names_what_the_closest_entry_failed_at(cache) -> None:
    insert(cache, namespace(), "k1", text="disable 2FA", embedding=direction(1.0))
    insert(cache, namespace(), "k2", text="enable 3FA", embedding=direction(2.0))
    insert(cache, namespace(), "k3", text="enable 2FA", embedding=direction(80.0))
    miss = cache.lookup_semantic(namespace(), "enable 2FA", direction(0.0))
    assert miss.reason is MissReason.GUARD_NEGATION
    assert miss.similarity == pytest.approx(math.cos(math.radians(1.0)))


def test_an_entry_without_embedding_is_found_by_key_only(cache) -> None:
    insert(cache, namespace(), "k", embedding=None)
    assert cache.lookup_exact(namespace(), "k") is not None
    assert cache.lookup_semantic(namespace(), "a question", direction(0.0)) == CacheMiss(
        reason=MissReason.EMPTY, similarity=None
    )


def test_replacing_an_entry_leaves_nothing_of_the_old_one(cache) -> None:
    insert(cache, namespace(), "k", payload=b"old", embedding=direction(0.0))
    insert(cache, namespace(), "k", payload=b"new", embedding=direction(90.0))
    assert cache.lookup_exact(namespace(), "k").entry.payload == b"new"
    assert isinstance(cache.lookup_semantic(namespace(), "a question", direction(0.0)), CacheMiss)
    stats = cache.stats("a")
    assert (stats.entries, stats.evictions, stats.namespaces[0].vectors) == (1, 0, 1)


def test_an_expired_entry_leaves_both_levels_and_its_empty_namespace(cache, clock) -> None:
    insert(cache, namespace(), "short", ttl_s=10.0)
    insert(cache, namespace(variant="B"), "long", ttl_s=10_000.0)  # clipped to the setting
    clock.advance(10.0)
    assert cache.lookup_exact(namespace(), "short") is None
    assert (
        cache.lookup_semantic(namespace(), "a question", direction(0.0)).reason is MissReason.EMPTY
    )
    assert [n.namespace.variant for n in cache.stats("a").namespaces] == ["B"]
    clock.advance(50.0)
    stats = cache.stats("a")
    assert (stats.entries, stats.size_bytes, stats.expirations, stats.namespaces) == (0, 0, 2, ())


def test_a_clock_that_steps_back_neither_crashes_nor_prolongs_a_life(cache, clock) -> None:
    insert(cache, namespace(), "k", ttl_s=30.0)
    clock.advance(20.0)
    assert cache.lookup_exact(namespace(), "k").age_s == 20.0
    clock.advance(-86_400.0)
    assert cache.lookup_exact(namespace(), "k").age_s == 20.0
    insert(cache, namespace(), "after", ttl_s=5.0)
    clock.advance(9.0)
    assert keys(cache, namespace(), "k") == "k"
    assert cache.lookup_exact(namespace(), "after") is None
    clock.advance(1.0)
    assert cache.lookup_exact(namespace(), "k") is None


def test_the_least_recently_used_entry_leaves_first_and_any_hit_is_a_use(clock) -> None:
    cache = small(clock, max_entries=3)
    insert(cache, namespace(), "1", embedding=direction(0.0))
    insert(cache, namespace(), "2", embedding=direction(90.0))
    insert(cache, namespace(), "3", embedding=None)
    cache.lookup_exact(namespace(), "1")
    cache.lookup_semantic(namespace(), "a question", direction(90.0))
    insert(cache, namespace(), "4", embedding=None)
    assert keys(cache, namespace(), "1234") == "124"
    assert cache.stats("a").evictions == 1


def test_bytes_count_text_key_payload_and_vector(clock) -> None:
    cache = small(clock, max_bytes=100, max_entry_bytes=100)
    # 2 bytes of UTF-8 text + 1 of key + 20 of payload + 4 floats of 4 bytes = 39
    insert(cache, namespace(), "1", text="é", payload=b"x" * 20)
    assert cache.stats("a").size_bytes == 39
    insert(cache, namespace(), "2", text="é", payload=b"x" * 20)
    insert(cache, namespace(), "3", text="é", payload=b"x" * 20, embedding=None)
    assert keys(cache, namespace(), "123") == "23"  # 39 + 23; all three are 101
    assert cache.stats("a").size_bytes == 62


def test_an_entry_over_the_limit_is_declined_and_the_old_answer_stays(clock) -> None:
    cache = small(clock, max_entry_bytes=40)
    insert(cache, namespace(), "k", text="", payload=b"x" * 23)
    assert (
        insert(cache, namespace(), "k", text="", payload=b"y" * 24) is StoreRefusal.ENTRY_TOO_LARGE
    )
    assert cache.lookup_exact(namespace(), "k").entry.payload == b"x" * 23


def test_a_flood_by_one_tenant_evicts_its_own_entries(clock) -> None:
    cache = small(clock, max_entries=10)
    for key in "123":
        insert(cache, namespace("quiet"), key)
    for i in range(50):
        insert(cache, namespace("busy"), f"k{i}")
    assert keys(cache, namespace("quiet"), "123") == "123"
    assert (cache.stats("quiet").evictions, cache.stats("busy").evictions) == (0, 43)


def test_a_newcomer_finds_room_in_a_cache_that_another_tenant_filled(clock) -> None:
    cache = small(clock, max_entries=2)
    insert(cache, namespace("first"), "1")
    insert(cache, namespace("first"), "2")
    insert(cache, namespace("late"), "3")
    assert keys(cache, namespace("first"), "12") == "2"
    assert keys(cache, namespace("late"), "3") == "3"


def test_a_tenant_can_neither_evict_nor_count_what_another_stored(cache) -> None:
    insert(cache, namespace("a"), "k")
    other = namespace("a").digest
    assert not cache.evict("b", "k")
    assert cache.invalidate("b", namespace=None, key=None, revision=None) == 0
    assert cache.invalidate("b", namespace=other, key=None, revision=None) == 0
    cache.lookup_semantic(namespace("b"), "a question", direction(0.0))
    stats = cache.stats("b")
    assert (stats.entries, stats.size_bytes, stats.semantic_hits) == (0, 0, 0)
    assert stats.misses == {MissReason.EMPTY: 1}
    assert cache.stats("a").misses == {}
    assert cache.evict("a", "k")
    assert not cache.evict("a", "k")
    assert cache.lookup_semantic(namespace("a"), "q", direction(0.0)).reason is MissReason.EMPTY


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ({}, ""),
        ({"key": "1"}, "23"),
        ({"revision": "m-2"}, "13"),
        ({"revision": "enc-2"}, "12"),
        ({"namespace": namespace().digest}, "3"),
        ({"namespace": namespace().digest, "revision": "m-2"}, "13"),
        ({"namespace": namespace().digest, "revision": "enc-2"}, "123"),
    ],
)
def test_invalidation_removes_what_fits_every_condition(cache, condition, left) -> None:
    insert(cache, namespace(), "1")
    insert(cache, namespace(), "2", model_revision="m-2")
    insert(cache, namespace(encoder="enc-2"), "3")
    removed = cache.invalidate(
        "a", **({"namespace": None, "key": None, "revision": None} | condition)
    )
    found = keys(cache, namespace(), "12") + keys(cache, namespace(encoder="enc-2"), "3")
    assert (removed, found) == (3 - len(left), left)


def test_counters_tell_each_kind_of_lookup(cache) -> None:
    insert(cache, namespace(), "k")
    cache.lookup_exact(namespace(), "k")
    cache.lookup_exact(namespace(), "other")  # no semantic lookup, so no miss
    cache.lookup_semantic(namespace(), "the question", direction(0.0))
    cache.lookup_semantic(namespace(), "not the question", direction(0.0))
    cache.lookup_semantic(namespace(), "the question 5", direction(0.0))
    stats = cache.stats("a")
    assert (stats.exact_hits, stats.semantic_hits) == (1, 1)
    assert stats.misses == {
        MissReason.GUARD_NEGATION: 1,
        MissReason.GUARD_NUMBERS: 1,
    }


def test_an_unsuitable_entry_is_passed_over_for_the_next_closest(cache) -> None:
    insert(cache, namespace(), "closest", payload=b"weak", embedding=direction(1.0))
    insert(cache, namespace(), "farther", payload=b"strong", embedding=direction(5.0))
    insert(cache, namespace(), "far", payload=b"weak", embedding=direction(80.0))
    asked_about = []

    def is_strong(entry) -> bool:
        asked_about.append(entry.key)
        return entry.payload == b"strong"

    hit = cache.lookup_semantic(namespace(), "a question", direction(0.0), is_suitable=is_strong)
    assert hit.entry.key == "farther"
    assert asked_about == ["closest", "farther"]
    cache.evict("a", "farther")
    miss = cache.lookup_semantic(namespace(), "a question", direction(0.0), is_suitable=is_strong)
    assert miss.reason is MissReason.UNSUITABLE
    assert miss.similarity == pytest.approx(math.cos(math.radians(1.0)))


def test_counts_are_kept_for_the_tenants_active_last_only(cache, monkeypatch) -> None:
    monkeypatch.setattr(statistics, "MAX_COUNTED_TENANTS", 2)
    for tenant in ("first", "second", "first", "third"):
        cache.lookup_semantic(namespace(tenant), "q", direction(0.0))
    cache.stats("reads only")
    misses = [cache.stats(t).misses.get(MissReason.EMPTY, 0) for t in ("first", "second", "third")]
    assert misses == [2, 0, 1]
    assert len(cache._counts) == 2


def test_an_entry_removed_while_the_guard_reads_is_not_served(cache, monkeypatch) -> None:
    insert(cache, namespace(), "k")
    consent = guard.refusal

    def remove_then_consent(a: str, b: str) -> MissReason | None:
        cache.evict("a", "k")
        return consent(a, b)

    monkeypatch.setattr(guard, "refusal", remove_then_consent)
    miss = cache.lookup_semantic(namespace(), "a question", direction(0.0))
    assert miss.reason is MissReason.REMOVED_MEANWHILE


def test_unfit_input_is_refused_and_stores_nothing(cache) -> None:
    with pytest.raises(VectorError, match="norm 1"):
        insert(cache, namespace(), "k", embedding=direction(0.0) * 2)
    with pytest.raises(VectorError, match="shape"):
        cache.lookup_semantic(namespace(), "q", np.ones(3, dtype=np.float32))
    with pytest.raises(EntryError, match="key must not be empty"):
        insert(cache, namespace(), "")
    for ttl_s in (0.0, -1.0, math.nan):
        with pytest.raises(EntryError, match="ttl_s must be > 0"):
            insert(cache, namespace(), "k", ttl_s=ttl_s)
    assert insert(cache, namespace(), "k", text="\ud800") is None
    assert cache.stats("a").entries == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_entries": 0}, "max_entries must be >= 1, got 0"),
        ({"candidates": 0}, "candidates must be >= 1, got 0"),
        ({"ttl_s": math.nan}, "ttl_s must be finite and > 0, got nan"),
        ({"ttl_s": -1.0}, "ttl_s must be finite and > 0"),
        ({"max_entry_bytes": 100_001}, r"max_entry_bytes \(100001\) must be at most max_bytes"),
        ({"similarity_threshold": 0.0}, r"similarity_threshold must be in \(0, 1\], got 0.0"),
        ({"similarity_threshold": math.nan}, "similarity_threshold"),
    ],
)
def test_a_meaningless_setting_is_refused_by_name(change, message) -> None:
    with pytest.raises(SettingError, match=message):
        replace(SETTINGS, **change)


def test_threads_never_see_each_others_tenant_nor_break_the_counts() -> None:
    cache = small(ScriptedClock(), max_entries=30)
    errors: list[BaseException] = []

    def work(tenant: str) -> None:
        try:
            space = namespace(tenant)
            for i in range(300):
                insert(cache, space, f"k{i % 20}", payload=tenant.encode())
                hit = cache.lookup_semantic(space, "a question", direction(0.0))
                assert isinstance(hit, CacheMiss) or hit.entry.payload == tenant.encode()
                if i % 7 == 0:
                    cache.evict(tenant, f"k{i % 20}")
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(tenant,)) for tenant in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    stats = [cache.stats(tenant) for tenant in "abcd"]
    assert sum(s.entries for s in stats) <= 30
    for s in stats:
        assert s.semantic_hits + sum(s.misses.values()) == 300
        assert (
            s.entries
            == sum(n.entries for n in s.namespaces)
            == sum(n.vectors for n in s.namespaces)
        )


class AgainstANaiveModel(RuleBasedStateMachine):
    """Any sequence of operations agrees with a plain list of entries."""

    tenants = st.sampled_from("abc")
    variants = st.sampled_from(["", "B"])
    some_keys = st.sampled_from(["k1", "k2", "k3"])
    degrees = st.sampled_from([0.0, 45.0, 90.0])

    def __init__(self) -> None:
        super().__init__()
        self.clock = ScriptedClock()
        self.cache = small(self.clock, max_entries=6)
        self.model: list[dict] = []  # least recently used first
        self.elapsed_s = 0.0
        self.serial = 0

    def _alive(self, **conditions) -> list[dict]:
        self.model = [e for e in self.model if e["expires_s"] > self.elapsed_s]
        return [e for e in self.model if all(e[k] == v for k, v in conditions.items())]

    def _used(self, entry: dict) -> None:
        self.model.remove(entry)
        self.model.append(entry)

    @rule(
        tenant=tenants, variant=variants, key=some_keys, degrees=degrees, ttl_s=st.integers(1, 60)
    )
    def insert(self, tenant, variant, key, degrees, ttl_s) -> None:
        self.serial += 1
        payload = f"{tenant}{variant}{self.serial}".encode()
        insert(
            self.cache,
            namespace(tenant, variant=variant),
            key,
            payload=payload,
            embedding=direction(degrees),
            ttl_s=float(ttl_s),
        )
        for old in self._alive(tenant=tenant, variant=variant, key=key):
            self.model.remove(old)
        if len(self.model) == 6:
            most = max(len(self._alive(tenant=t)) for t in "abc")
            heaviest = [t for t in "abc" if len(self._alive(tenant=t)) == most]
            left = {e.decode() for t in heaviest for e in self._payloads(t)}
            # On a tie the rule leaves the choice between the heaviest open.
            lost = [
                oldest
                for t in heaviest
                if (oldest := self._alive(tenant=t)[0])["payload"].decode() not in left
            ]
            assert len(lost) == 1
            self.model.remove(lost[0])
        self.model.append(
            {
                "tenant": tenant,
                "variant": variant,
                "key": key,
                "payload": payload,
                "degrees": degrees,
                "expires_s": self.elapsed_s + ttl_s,
            }
        )

    def _payloads(self, tenant: str) -> list[bytes]:
        return [s.entry.payload for s in self.cache._store.entries_of(tenant)]

    @rule(tenant=tenants, variant=variants, key=some_keys)
    def look_up_exactly(self, tenant, variant, key) -> None:
        hit = self.cache.lookup_exact(namespace(tenant, variant=variant), key)
        known = self._alive(tenant=tenant, variant=variant, key=key)
        assert ([hit.entry.payload] if hit else []) == [e["payload"] for e in known]
        for entry in known:
            self._used(entry)

    @rule(tenant=tenants, variant=variants, degrees=degrees)
    def look_up_by_meaning(self, tenant, variant, degrees) -> None:
        result = self.cache.lookup_semantic(
            namespace(tenant, variant=variant), "a question", direction(degrees)
        )
        fit = self._alive(tenant=tenant, variant=variant, degrees=degrees)
        if not fit:
            assert isinstance(result, CacheMiss)
            return
        assert result.entry.payload in [e["payload"] for e in fit]
        self._used(next(e for e in fit if e["payload"] == result.entry.payload))

    @rule(tenant=tenants, key=some_keys)
    def evict(self, tenant, key) -> None:
        known = self._alive(tenant=tenant, key=key)
        assert self.cache.evict(tenant, key) == bool(known)
        self.model = [e for e in self.model if e not in known]

    @rule(tenant=tenants, variant=variants)
    def invalidate_a_namespace(self, tenant, variant) -> None:
        known = self._alive(tenant=tenant, variant=variant)
        digest = namespace(tenant, variant=variant).digest
        removed = self.cache.invalidate(tenant, namespace=digest, key=None, revision=None)
        assert removed == len(known)
        self.model = [e for e in self.model if e not in known]

    @rule(seconds=st.sampled_from([1, 7, 30, -5, -1_000]))
    def pass_time(self, seconds) -> None:
        self.clock.advance(float(seconds))
        self.elapsed_s += max(0, seconds)
        self.cache.stats("a")  # the cache reads the clock after every step

    @invariant()
    def every_tenant_holds_exactly_its_own(self) -> None:
        for tenant in "abc":
            stats = self.cache.stats(tenant)
            known = self._alive(tenant=tenant)
            assert self._payloads(tenant) == [e["payload"] for e in known]
            assert stats.entries == len(known) == sum(n.vectors for n in stats.namespaces)
            assert stats.size_bytes == sum(n.size_bytes for n in stats.namespaces)
            assert {n.namespace.variant for n in stats.namespaces} == {e["variant"] for e in known}


TestAgainstANaiveModel = AgainstANaiveModel.TestCase
TestAgainstANaiveModel.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
