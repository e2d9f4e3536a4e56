"""Stand in for the encoder in tests, under a router that is otherwise real."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.calibration import RouteCalibration
from router.clock import Clock
from router.config import Settings
from router.domain import EncoderInput, Encoding, Message, Request, Role
from router.observing import ObservedRouter
from router.server import Service
from router.wiring import LoadedEncoder

ROUTES = ("fast", "slow", "tool")


def encoding(
    *,
    fast: float = 0.9,
    slow: float = 0.08,
    tool: float = 0.02,
    embedding: NDArray[np.float32] | None = None,
) -> Encoding:
    """Return an encoding whose calibrated probabilities are exactly the given ones.

    Args:
        fast: Probability of the route, > 0; the three sum to 1.
        slow: As ``fast``.
        tool: As ``fast``.
        embedding: Shape ``(4,)``, unit norm; ``None`` = the first axis.
    """
    logits = [math.log(p) for p in (fast, slow, tool)]
    return Encoding(
        route_logits=np.array(logits, dtype=np.float32),
        strong_gain=0.25,
        temperature=0.5,
        output_tokens_p50=100,
        output_tokens_p95=400,
        embedding=axis(0) if embedding is None else embedding,
        features={"log_chars": 0.5},
        input_tokens=10,
        truncated=False,
        in_distribution=True,
        language_known=True,
        queue_ns=3,
        encode_ns=5,
    )


def axis(number: int) -> NDArray[np.float32]:
    """Return a unit vector of length 4 along one axis."""
    vector = np.zeros(4, dtype=np.float32)
    vector[number] = 1.0
    return vector


@dataclass(slots=True)
class FixedEncoder:
    """Says what it was told to say about each text.

    Attributes:
        by_text: Encoding by the input's text.
        default: For every other text.
        error: Raised instead, where set.
        gate: Awaited before every answer, where set.
        inputs: What was encoded, in order.
        revision: As of a real encoder.
        dim: As of a real encoder.
    """

    by_text: Mapping[str, Encoding] = field(default_factory=dict)
    default: Encoding = field(default_factory=encoding)
    error: Exception | None = None
    gate: asyncio.Event | None = None
    inputs: list[EncoderInput] = field(default_factory=list)
    revision: str = "fixed@0"
    dim: int = 4

    async def encode(self, item: EncoderInput, *, deadline_s: float) -> Encoding:
        """Return the encoding for the input's text; a copy, as a real encoder makes one."""
        del deadline_s
        self.inputs.append(item)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        said = self.by_text.get(item.text, self.default)
        return replace(said, embedding=said.embedding.copy())


def loaded(encoder: FixedEncoder) -> LoadedEncoder:
    """Return ``encoder`` as the composition root takes it, with an identity calibration."""
    return LoadedEncoder(
        encoder=encoder,
        calibration=RouteCalibration(routes=ROUTES),
        threshold=0.6,
        semantic_threshold=0.9,
        warm_up=lambda: None,
        close=lambda: None,
    )


def asked(text: str = "What is the capital of France?", **values: Any) -> Request:
    """Return a request with one user turn, a distant deadline and whatever else is given."""
    turn = Message(role=Role.USER, content=text)
    defaults: dict[str, Any] = {"tenant": "acme", "deadline_s": 1e9, "messages": (turn,)}
    return Request(**{**defaults, **values})


@dataclass(slots=True)
class ScriptedTime:
    """A clock that moves only when told.

    Attributes:
        now_s: Monotonic and Unix time, seconds.
    """

    now_s: float = 1_000.0

    def clock(self) -> Clock:
        """Return the clocks the router takes; durations come from the same time."""
        return Clock(
            monotonic_s=lambda: self.now_s,
            time_s=lambda: self.now_s,
            perf_ns=lambda: round(self.now_s * 1e9),
        )


class RealTime(ScriptedTime):
    """The clocks of the process, for tests in which a deadline passes by itself."""

    def clock(self) -> Clock:
        """Return the real clocks."""
        return Clock()


def service_on(
    encoder: FixedEncoder,
    *,
    fast: str | None = None,
    slow: Sequence[str | Mapping[str, Any]] = (),
    time: ScriptedTime | None = None,
    warm_up: Callable[[], None] = lambda: None,
    **sections: Any,
) -> Service:
    """Return a service that differs from the real one in its encoder alone, not started.

    It listens on free ports. Decision ids count up from 1, in 32 hexadecimal digits.

    Args:
        encoder: Reads the requests.
        fast: URL of a server for the fast tier.
        slow: URLs of the slow tier's servers, or their whole configuration.
        time: Replaces the clocks.
        warm_up: Warms the encoder up.
        sections: Further sections of the configuration.
    """
    upstreams = [
        {"name": f"slow-{index}", "url": entry, "model": "big", "max_attempts": 1}
        if isinstance(entry, str)
        else entry
        for index, entry in enumerate(slow)
    ]
    values: dict[str, Any] = {
        "server": {"port": 0, "metrics_port": None},
        "slow_tier": {"upstreams": upstreams},
        "fast_tier": {"text": None if fast is None else {"url": fast, "model": "small"}},
    }
    numbers = itertools.count(1)
    return Service.build(
        Settings(**{**values, **sections}),
        encoder=replace(loaded(encoder), warm_up=warm_up),
        clock=Clock() if time is None else time.clock(),
        new_id=lambda: f"{next(numbers):032x}",
    )


@asynccontextmanager
async def routing(
    encoder: FixedEncoder, *, time: ScriptedTime | None = None, **values: Any
) -> AsyncIterator[ObservedRouter]:
    """Give the router of a service that does not listen; time stands still unless given."""
    service = service_on(encoder, time=time or ScriptedTime(), **values)
    try:
        yield service.router
    finally:
        await service.stop(0.0)


@asynccontextmanager
async def running_service(encoder: FixedEncoder, **values: Any) -> AsyncIterator[Service]:
    """Run a service that listens; arguments as for `service_on`."""
    service = service_on(encoder, **values)
    await service.start()
    try:
        yield service
    finally:
        # With no time at all, calls that were answered could not write their line.
        await service.stop(1.0)
