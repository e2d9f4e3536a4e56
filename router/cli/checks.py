"""Check what the service stands on: each check says whether it holds and what to do if not."""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import platform
import random
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cache.entry import CacheHit, Namespace, request_key
from router.artifact import REGISTERED, verify_all
from router.auth import DEFAULT_TENANT
from router.cli.in_process import in_process_router
from router.clock import Clock
from router.config import Secret, Settings
from router.errors import ConfigError, RouterError
from router.v1 import router_pb2 as pb
from router.wiring import load_encoder, make_cache
from slow_tier.client import ChatClient, Upstream
from slow_tier.errors import SlowTierError, UpstreamRejected

_PROBE_S = 3.0
_DECISION_S = 30.0
_PACKAGES = ("fastslow", "onnxruntime", "faiss-cpu", "grpcio", "numpy", "protobuf", "pydantic")


class Status(enum.StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one check found.

    Attributes:
        name: What was checked.
        status: How it came out.
        detail: What was found.
        remedy: What to do; empty when all is well.
    """

    name: str
    status: Status
    detail: str
    remedy: str = ""


def _ok(name: str, detail: str) -> Check:
    return Check(name=name, status=Status.OK, detail=detail)


def _warning(name: str, detail: str, remedy: str) -> Check:
    return Check(name=name, status=Status.WARNING, detail=detail, remedy=remedy)


def _failed(name: str, detail: str, remedy: str) -> Check:
    return Check(name=name, status=Status.FAILED, detail=detail, remedy=remedy)


async def all_checks(settings: Settings) -> AsyncIterator[Check]:
    """Run every check, in the order in which a mistake would show at start."""
    yield versions()
    yield artifact(settings)
    yield await warm_decision(settings)
    yield cache_round_trip(settings)
    for check in ports(settings):
        yield check
    async for check in upstreams(settings):
        yield check


def versions() -> Check:
    """Return the versions of Python, this package and what it computes with."""
    found = [f"python {platform.python_version()}"]
    found += [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
    return _ok("versions", ", ".join(found))


def artifact(settings: Settings) -> Check:
    """Compare every file of the encoder's folder with its checksum."""
    name = settings.encoder.artifact
    folder = REGISTERED.get(name, Path(name))
    try:
        sums = verify_all(folder)
    except RouterError as error:
        remedy = "reinstall the package, or set encoder.artifact to an intact folder"
        return _failed("artifact", str(error), remedy)
    return _ok("artifact", f"{len(sums)} files of {name} match their SHA-256")


async def warm_decision(settings: Settings) -> Check:
    """Build the service without its ports, decide twice, time the second decision."""
    request = pb.RouteRequest(prompt="What is the capital of France?")
    try:
        async with in_process_router(settings) as router:
            await router.route(request, timeout_s=_DECISION_S)
            started_ns = time.perf_counter_ns()
            response = await router.route(request, timeout_s=_DECISION_S)
            elapsed_ms = (time.perf_counter_ns() - started_ns) / 1e6
    except RouterError as error:
        return _failed("decision", str(error), "correct what is named, then run doctor again")
    tier = pb.Tier.Name(response.decision.tier).removeprefix("TIER_")
    return _ok("decision", f"{tier} in {elapsed_ms:.1f} ms")


def cache_round_trip(settings: Settings) -> Check:
    """Store an answer in a cache as configured, find it by key, by vector, then remove it."""
    try:
        loaded = load_encoder(settings)
    except RouterError as error:
        return _failed("cache", f"needs the encoder: {error}", "see the check of the artifact")
    loaded.close()
    try:
        cache = make_cache(settings, loaded, Clock())
    except ConfigError as error:
        return _failed("cache", str(error), "correct the setting")
    if cache is None:
        return _warning("cache", "switched off", "set cache.enabled: true to store answers")
    started_ns = time.perf_counter_ns()
    namespace = Namespace(
        tenant=DEFAULT_TENANT,
        encoder_revision=loaded.encoder.revision,
        system_prompt="",
        question_schema="",
        answer_settings="",
        tool_set="",
        model_revisions="",
        variant="",
    )
    key = request_key(namespace, {"check": "round trip"})
    text = "round trip"
    vector = np.zeros(loaded.encoder.dim, dtype=np.float32)
    vector[0] = 1.0
    refused = cache.insert(
        namespace,
        key=key,
        text=text,
        payload=b"stored",
        embedding=vector,
        decision_id="",
        model_revision="",
        ttl_s=None,
    )
    if refused is not None:
        remedy = "raise cache.max_entry_bytes: not even a short answer fits"
        return _failed("cache", f"nothing is stored: {refused.value}", remedy)
    exact = cache.lookup_exact(namespace, key)
    similar = cache.lookup_semantic(namespace, text, vector)
    gone = cache.evict(DEFAULT_TENANT, key) and cache.lookup_exact(namespace, key) is None
    elapsed_ms = (time.perf_counter_ns() - started_ns) / 1e6
    if exact is None or not isinstance(similar, CacheHit) or not gone:
        return _failed("cache", "a stored answer was not found or not removed", "report this bug")
    return _ok("cache", f"stored, found by key and by vector, removed in {elapsed_ms:.1f} ms")


def ports(settings: Settings) -> Iterator[Check]:
    """Try to listen where the service would."""
    server = settings.server
    yield _port("server.port", server.host, server.port)
    if server.metrics_port is not None:
        yield _port("server.metrics_port", server.metrics_host, server.metrics_port)


def _port(key: str, host: str, port: int) -> Check:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            # A port whose last connections are still closing is free to a server.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
    except OSError as error:
        remedy = f"stop what listens there (this service, perhaps), or set {key}"
        return _failed(key, f"cannot listen on {host}:{port}: {error.strerror}", remedy)
    return _ok(key, f"{host}:{port} is free" if port else f"{host}: the system picks a port")


async def upstreams(settings: Settings) -> AsyncIterator[Check]:
    """Ask every model server for its models, each with a short deadline."""
    text = settings.fast_tier.text
    if text is None:
        remedy = "set fast_tier.text, else simple text goes to the slow tier too"
        yield _warning("fast_tier.text", "not configured", remedy)
    elif text.url is None:
        yield _in_process_engine(text.gguf)
    else:
        yield await _reachable("fast_tier.text", text.url, text.model, text.api_key)
    if not settings.slow_tier.upstreams:
        remedy = "set slow_tier.upstreams, else requests that need it are UNAVAILABLE"
        yield _warning("slow_tier.upstreams", "not configured", remedy)
    for position, upstream in enumerate(settings.slow_tier.upstreams):
        key = f"slow_tier.upstreams[{position}]"
        yield await _reachable(key, upstream.url, upstream.model, upstream.api_key)


def _in_process_engine(gguf: Path | None) -> Check:
    # Whether it loads was seen when the decision was made.
    if importlib.util.find_spec("xllamacpp") is None:
        return _failed("fast_tier.text", "xllamacpp is missing", "pip install 'fastslow[llm]'")
    return _ok("fast_tier.text", f"{gguf} runs in process")


async def _reachable(key: str, url: str, model: str, api_key: Secret | None) -> Check:
    clock = Clock()
    try:
        secret = None if api_key is None else api_key.read(f"{key}.api_key").get_secret_value()
        upstream = Upstream(name=key, url=url, model=model, api_key=secret)
    except (ConfigError, ValueError) as error:
        return _failed(key, str(error), "correct the setting")
    jitter = random.Random(0)  # noqa: S311 - a probe is not repeated, so nothing is drawn
    client = ChatClient([upstream], clock=clock.monotonic_s, random=jitter)
    try:
        probe = await client.probe(key, clock.monotonic_s() + _PROBE_S)
    except UpstreamRejected as error:
        remedy = f"check {key}.url and {key}.api_key; some servers list no models, then all is well"
        return _warning(key, f"reachable, but GET /models gives status {error.status}", remedy)
    except SlowTierError as error:
        return _failed(key, error.reason, f"start the server, or correct {key}.url")
    finally:
        await client.aclose()
    listed = f"{len(probe.models)} model(s) listed"
    if probe.models and model not in probe.models:
        return _warning(key, f"{listed}, none is called as {key}.model", f"check {key}.model")
    return _ok(key, f"reachable in {probe.elapsed_ns / 1e6:.0f} ms, {listed}")
