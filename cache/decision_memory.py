"""Remember recent decisions by the caller's own decision key.

A caller that retries under the same business id gets the decision it got before, provided the
request is the same. Kept apart from the answer cache: short-lived, never matched by meaning.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable

from cache.errors import SettingError
from cache.forward_clock import ForwardClock


class DecisionMemory:
    """Payloads by tenant, decision key and request key; safe to share between threads.

    When full, the oldest decision of the tenant that remembers most is forgotten, so no tenant
    pushes out another that remembers less than itself.

    Args:
        ttl_s: How long a decision is remembered, in seconds, > 0.
        max_entries: Most decisions of all tenants together, >= 1.
        clock: Seconds; may step back, which counts as no time passed.
    """

    def __init__(self, *, ttl_s: float, max_entries: int, clock: Callable[[], float]) -> None:
        if not 0.0 < ttl_s < math.inf:
            msg = f"decision ttl_s must be finite and > 0, got {ttl_s}"
            raise SettingError(msg)
        if max_entries < 1:
            msg = f"decision max_entries must be >= 1, got {max_entries}"
            raise SettingError(msg)
        self._ttl_s = ttl_s
        self._max_entries = max_entries
        self._clock = ForwardClock(clock)
        self._lock = threading.Lock()
        # Oldest first. One TTL for all makes that the order of expiry as well.
        self._decisions: dict[str, OrderedDict[tuple[str, str], tuple[float, bytes]]] = {}
        self._entries = 0

    def __len__(self) -> int:
        return self._entries

    def recall(self, tenant: str, decision_key: str, request_key: str) -> bytes | None:
        """Return what was remembered under exactly these, None when nothing or too old."""
        with self._lock:
            self._forget_old(tenant)
            decisions = self._decisions.get(tenant)
            found = None if decisions is None else decisions.get((decision_key, request_key))
            return None if found is None else found[1]

    def remember(self, tenant: str, decision_key: str, request_key: str, payload: bytes) -> None:
        """Remember ``payload`` from now on, in place of what was remembered before."""
        with self._lock:
            self._forget_old(tenant)
            self._remove(tenant, (decision_key, request_key))
            decisions = self._decisions.setdefault(tenant, OrderedDict())
            decisions[decision_key, request_key] = (self._clock.now_s() + self._ttl_s, payload)
            self._entries += 1
            if self._entries > self._max_entries:
                self._make_room(newest_tenant=tenant)

    def forget(self, tenant: str, *, request_key: str | None = None) -> int:
        """Forget the tenant's decisions, or those on one request; return how many."""
        with self._lock:
            chosen = [
                keys for keys in self._decisions.get(tenant, {}) if request_key in (None, keys[1])
            ]
            for keys in chosen:
                self._remove(tenant, keys)
            return len(chosen)

    def _make_room(self, *, newest_tenant: str) -> None:
        for tenant in list(self._decisions):
            self._forget_old(tenant)
        if self._entries <= self._max_entries:
            return

        def remembered(tenant: str) -> tuple[int, bool]:
            newest = tenant == newest_tenant
            return len(self._decisions[tenant]) - newest, newest

        heaviest = max(self._decisions, key=remembered)
        self._remove(heaviest, next(iter(self._decisions[heaviest])))

    def _forget_old(self, tenant: str) -> None:
        now_s = self._clock.now_s()
        decisions = self._decisions.get(tenant)
        while decisions:
            keys, (expires_at_s, _) = next(iter(decisions.items()))
            if expires_at_s > now_s:
                return
            self._remove(tenant, keys)

    def _remove(self, tenant: str, keys: tuple[str, str]) -> None:
        decisions = self._decisions.get(tenant)
        if decisions is None or decisions.pop(keys, None) is None:
            return
        self._entries -= 1
        if not decisions:
            del self._decisions[tenant]
