"""Remember recent decisions by the caller's own decision key.

A caller that retries under the same business id gets the decision it got before, provided the
request is the same. Kept apart from the answer cache: short-lived, never matched by meaning.
A rejected answer leaves the decision as it is: the key promises the same decision, whatever
became of one answer.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from cache.entry import text_bytes
from cache.errors import SettingError
from cache.fair_lru import FairLru


class DecisionMemory:
    """Payloads by tenant, decision key and request key; safe to share between threads.

    When full, the oldest decision of the tenant that remembers most is forgotten (see
    :mod:`cache.fair_lru`).

    Args:
        ttl_s: How long a decision is remembered, in seconds, > 0.
        max_entries: Most decisions of all tenants together, >= 1.
        max_bytes: Most bytes of keys and payloads of all tenants together, >= 1.
        clock: Seconds; may step back, which counts as no time passed.
    """

    def __init__(
        self, *, ttl_s: float, max_entries: int, max_bytes: int, clock: Callable[[], float]
    ) -> None:
        if not 0.0 < ttl_s < math.inf:
            msg = f"decision ttl_s must be finite and > 0, got {ttl_s}"
            raise SettingError(msg)
        self._ttl_s = ttl_s
        self._lock = threading.Lock()
        self._decisions: FairLru[tuple[str, str], bytes] = FairLru(
            max_entries=max_entries, max_bytes=max_bytes, clock=clock
        )

    def __len__(self) -> int:
        return len(self._decisions)

    def recall(self, tenant: str, decision_key: str, request_key: str) -> bytes | None:
        """Return what was remembered under exactly these, None when nothing or too old."""
        with self._lock:
            self._decisions.expire()
            return self._decisions.get(tenant, (decision_key, request_key))

    def remember(self, tenant: str, decision_key: str, request_key: str, payload: bytes) -> None:
        """Remember ``payload`` from now on, in place of what was remembered before.

        One that alone exceeds ``max_bytes`` is not remembered.
        """
        size_bytes = len(payload) + text_bytes(decision_key, request_key)
        with self._lock:
            self._decisions.expire()
            if size_bytes > self._decisions.max_bytes:
                self._decisions.remove(tenant, (decision_key, request_key))
                return
            self._decisions.put(
                tenant,
                (decision_key, request_key),
                payload,
                size_bytes=max(1, size_bytes),
                expires_at_s=self._decisions.now_s() + self._ttl_s,
            )
