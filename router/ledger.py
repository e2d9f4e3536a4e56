"""Remember for a while which cached answers belong to which decision.

A caller reports on a decision by its id alone; the ledger says who answered and where the
answers lie in the cache. It is bounded in number, bytes and time, fairly between tenants, so a
late report finds nothing, as a report about somebody else's decision does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cache.entry import text_bytes
from cache.fair_lru import FairLru
from router.domain import AnsweredBy
from router.errors import UnknownDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What is known about one decision.

    Attributes:
        answered_by: Who answered last; ``None`` for a decision without an answer.
        cache_keys: Keys of the cached answers it was served from or stored as, without
            repetition, oldest first.
    """

    answered_by: AnsweredBy | None = None
    cache_keys: tuple[str, ...] = ()


class DecisionLedger:
    """Decisions by id.

    When full, the oldest decision of the tenant that has most is forgotten (see
    `cache.fair_lru`).

    Args:
        max_entries: Most decisions remembered, >= 1.
        max_bytes: Most bytes of their ids and cache keys, >= 1.
        ttl_s: Seconds a decision is remembered, > 0.
        clock: Monotonic seconds.
    """

    def __init__(
        self, *, max_entries: int, max_bytes: int, ttl_s: float, clock: Callable[[], float]
    ) -> None:
        if not 0.0 < ttl_s < math.inf:
            msg = f"ttl_s must be finite and > 0, got {ttl_s}"
            raise ValueError(msg)
        self._ttl_s = ttl_s
        self._entries: FairLru[str, LedgerEntry] = FairLru(
            max_entries=max_entries, max_bytes=max_bytes, clock=clock
        )

    def __len__(self) -> int:
        return len(self._entries)

    def remember(
        self,
        decision_id: str,
        *,
        tenant: str,
        answered_by: AnsweredBy | None = None,
        cache_key: str | None = None,
    ) -> None:
        """Add what a call came to; calls under one ``decision_key`` share their decision."""
        self._entries.expire()
        known = self._entries.get(tenant, decision_id) or LedgerEntry()
        keys = known.cache_keys
        if cache_key is not None and cache_key not in keys:
            keys = (*keys, cache_key)
        self._entries.put(
            tenant,
            decision_id,
            LedgerEntry(answered_by=answered_by, cache_keys=keys),
            size_bytes=text_bytes(decision_id, *keys),
            expires_at_s=self._entries.now_s() + self._ttl_s,
        )

    def find(self, decision_id: str, *, tenant: str) -> LedgerEntry:
        """Return what is known about a decision of ``tenant``.

        Raises:
            UnknownDecision: Never made, forgotten, or another tenant's; the three look the
                same, so that nobody can probe for other tenants' decisions.
        """
        self._entries.expire()
        entry = self._entries.get(tenant, decision_id)
        if entry is None:
            msg = "no decision of this id is remembered for this tenant"
            raise UnknownDecision(msg, field="decision_id")
        return entry
