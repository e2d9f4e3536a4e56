"""Define one training row.

One row may label several heads and leave others open. A route label is the set of routes
that would be right: exam questions say fast or slow, an irrelevant tool list says "not tool"
and no more. The reference pair's weak score decides between fast and slow (score >= .5 is
fast), as in RouteLLM (Ong et al., arXiv:2406.18665, section 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ROUTES = ("fast", "slow", "tool")
FAST, SLOW, TOOL = (frozenset({name}) for name in ROUTES)
NO_TOOL = FAST | SLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One training row.

    Attributes:
        text: The request.
        source: Data set, for reports.
        split: ``train``, ``dev`` or ``test``.
        tools: Offered tools; ``None`` = unknown, empty = none.
        routes: Routes that would be right; empty = no route label.
        p_fast: Soft label: probability in [0, 1] that fast is right, given that no tool is
            needed; NaN = ``routes`` says all there is.
        gain: Strong minus weak score, NaN = no label.
        temperature: Sampling temperature, NaN = no label.
        log_tokens: Natural logarithm of the answer's tokens, NaN = no label.
        weight: Weight of the row's route label.
    """

    text: str
    source: str
    split: str
    tools: str | None = None
    routes: frozenset[str] = frozenset()
    p_fast: float = math.nan
    gain: float = math.nan
    temperature: float = math.nan
    log_tokens: float = math.nan
    weight: float = 1.0
