"""Find out whether an upstream is reachable."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

import httpx

from slow_tier.exchange import build_request, exchange
from slow_tier.structured import load_json
from slow_tier.upstream import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a server says about itself.

    Attributes:
        upstream: Name of the upstream.
        models: Ids of the models it lists, possibly none.
        elapsed_ns: Time of the exchange.
    """

    upstream: str
    models: tuple[str, ...]
    elapsed_ns: int


async def probe(
    http: httpx.AsyncClient,
    upstream: Upstream,
    *,
    deadline_s: float,
    clock: Callable[[], float],
) -> Probe:
    """Ask an upstream for its models, ``GET /models``, once.

    Raises:
        SlowTierError: Any but NotConfigured. UpstreamRejected means that it is reachable.
    """
    started_s = clock()
    request = build_request(http, upstream, "GET", "/models")
    async with aclosing(
        exchange(http, upstream, request, deadline_s=lambda: deadline_s, clock=clock)
    ) as chunks:
        body = b"".join([chunk async for chunk in chunks])
    listing = load_json(body, upstream=upstream.name, what="model list")
    entries = listing.get("data") if isinstance(listing, dict) else None
    entries = entries if isinstance(entries, list) else []
    ids = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return Probe(
        upstream=upstream.name,
        models=tuple(name for name in ids if isinstance(name, str)),
        elapsed_ns=round((clock() - started_s) * 1e9),
    )
