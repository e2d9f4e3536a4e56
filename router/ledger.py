"""Remember for a while which cached answer belongs to which decision.

A caller reports on a decision by its id alone; the ledger says whose decision that was, which
model answered, where the answer lies in the cache. It is bounded in number and time, so a late
report finds nothing, as a report about somebody else's decision does.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from router.domain import AnsweredBy, Tier
from router.errors import UnknownDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What is known about one decision.

    Attributes:
        tenant: Whose decision it is.
        tier: Where the request went.
        answered_by: Who answered; ``None`` for a decision without an answer.
        cache_key: Key of the cached answer it was served from or stored as; ``None`` where
            the answer is in no cache.
    """

    tenant: str
    tier: Tier
    answered_by: AnsweredBy | None = None
    cache_key: str | None = None


class DecisionLedger:
    """Decisions by id, oldest forgotten first.

    Args:
        max_entries: Most decisions remembered, >= 1.
        ttl_s: Seconds a decision is remembered, > 0.
        clock: Monotonic seconds.
    """

    def __init__(self, *, max_entries: int, ttl_s: float, clock: Callable[[], float]) -> None:
        if max_entries < 1:
            msg = f"max_entries must be >= 1, got {max_entries}"
            raise ValueError(msg)
        if not 0.0 < ttl_s < math.inf:
            msg = f"ttl_s must be finite and > 0, got {ttl_s}"
            raise ValueError(msg)
        self._max_entries = max_entries
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, LedgerEntry]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def remember(self, decision_id: str, entry: LedgerEntry) -> None:
        """Keep ``entry``, replacing what was known about the decision."""
        now_s = self._clock()
        self._entries[decision_id] = (now_s + self._ttl_s, entry)
        self._entries.move_to_end(decision_id)
        # Every entry lives equally long, so the oldest ones are the expired ones.
        while self._entries:
            expires_s, _ = next(iter(self._entries.values()))
            if expires_s > now_s and len(self._entries) <= self._max_entries:
                return
            self._entries.popitem(last=False)

    def find(self, decision_id: str, *, tenant: str) -> LedgerEntry:
        """Return what is known about a decision of ``tenant``.

        Raises:
            UnknownDecision: Never made, forgotten, or another tenant's; the three look the
                same, so that nobody can probe for other tenants' decisions.
        """
        expires_s, entry = self._entries.get(decision_id, (-math.inf, None))
        if entry is None or entry.tenant != tenant or expires_s <= self._clock():
            msg = "no decision of this id is remembered for this tenant"
            raise UnknownDecision(msg, field="decision_id")
        return entry
