"""Describe one OpenAI-compatible server."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import get_args

import httpx

from slow_tier.wire import Dialect

_API_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Where a server is, which model to ask there, with which limits.

    Attributes:
        name: Unique among its siblings; stands in error messages, metrics and traces.
        url: Base URL up to the version, e.g. ``http://127.0.0.1:8080/v1``.
        model: Model name sent to the server.
        api_key: Bearer key, printable ASCII without spaces, or None; never in the repr.
        system_prompt: Sent where a request's messages carry no system message, or None.
        connect_timeout_s: Longest wait for a connection, TCP and TLS each, seconds > 0.
        read_timeout_s: Longest silence of the server, seconds > 0. None leaves it to the
            upstream's part of the deadline; a server that does not stream is silent for as
            long as it generates.
        max_attempts: Attempts in all, >= 1.
        revision: Changes when the model behind the name changes.
        dialect: ``reasoning`` for models that refuse a request with ``max_tokens``, with a
            temperature or for log-probabilities; see `slow_tier.wire.encode_request`.
    """

    name: str
    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    system_prompt: str | None = None
    connect_timeout_s: float = 5.0
    read_timeout_s: float | None = None
    max_attempts: int = 3
    revision: str = ""
    dialect: Dialect = "chat"

    def __post_init__(self) -> None:
        for name, problem in self._problems():
            # Neither URL nor key is quoted: a wrong URL may hold a password.
            msg = f"upstream {self.name!r}: {name} {problem}"
            raise ValueError(msg)
        object.__setattr__(self, "url", self.url.rstrip("/"))

    def headers(self) -> dict[str, str]:
        """Return the headers of a request to this server, the key included."""
        # Unencoded bodies only: a size limit means little for one that is still compressed.
        headers = {"accept-encoding": "identity", "content-type": "application/json"}
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key}"
        return headers

    def _problems(self) -> Iterator[tuple[str, str]]:
        for name in ("name", "model"):
            if not getattr(self, name):
                yield name, "must not be empty"
        problem = _url_problem(self.url)
        if problem is not None:
            yield "url", problem
        # Checked here because the HTTP library quotes a header that it refuses.
        if self.api_key is not None and not _API_KEY.fullmatch(self.api_key):
            yield "api_key", "must be printable ASCII without spaces, not empty"
        for name in ("connect_timeout_s", "read_timeout_s"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                yield name, f"must be finite and > 0, got {value}"
        if self.dialect not in get_args(Dialect):
            yield "dialect", f"must be one of {', '.join(get_args(Dialect))}"
        if self.max_attempts < 1:
            yield "max_attempts", f"must be >= 1, got {self.max_attempts}"


def _url_problem(text: str) -> str | None:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        return "is not a URL"
    rules = (
        (
            url.scheme not in {"http", "https"} or not url.host,
            "must start with http:// or https:// and name a host",
        ),
        (
            url.port is not None and not 0 < url.port < 65_536,
            "must have a port from 1 to 65535",
        ),
        (bool(url.userinfo), "must not hold a user or password; use api_key"),
        (bool(url.query or url.fragment), "must not have a query or fragment"),
        (
            url.path.rstrip("/").endswith("/chat/completions"),
            "must end before /chat/completions",
        ),
    )
    return next((problem for applies, problem in rules if applies), None)
