"""The service as a whole: ports, health, limits, drain, TLS, what keeps it from starting."""

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from router.config import Settings
from router.domain import Reason, Tier
from router.errors import ArtifactError, ConfigError
from router.pipeline_testing import FixedEncoder, encoding, loaded, running_service, service_on
from router.policy import Signals, Verdict
from router.policy_loading import load_policy
from router.server import Service, serve
from router.transport import is_loopback
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc
from slow_tier.testing import ScriptedReply, ScriptedUpstream

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class AlwaysSlow:
    """A custom policy, as an operator would write one."""

    def decide(self, signals: Signals) -> Verdict:
        return Verdict(tier=Tier.SLOW, reason=Reason.OVERRIDE, route="slow", threshold=1.0)


class NeedsArguments:
    def __init__(self, _needed: int) -> None: ...

    def decide(self, signals: Signals) -> Verdict: ...


def channel(service: Service, *options) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"127.0.0.1:{service.port}", options=options)


async def health(service: Service, name: str = "") -> int:
    async with channel(service) as open_channel:
        stub = health_pb2_grpc.HealthStub(open_channel)
        return (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status


@pytest.mark.parametrize("name", ["", "router.v1.RouterService", "router.v1.CacheAdminService"])
async def test_a_started_service_reports_serving_for_each_of_its_services(name) -> None:
    async with running_service(FixedEncoder()) as service:
        assert await health(service, name) == SERVING


async def test_nothing_is_reported_serving_before_the_encoder_is_warm() -> None:
    entered, gate = threading.Event(), threading.Event()

    def warm_up() -> None:
        entered.set()
        gate.wait(5.0)

    service = service_on(FixedEncoder(), warm_up=warm_up)
    starting = asyncio.create_task(service.start())
    await asyncio.to_thread(entered.wait, 5.0)
    assert await health(service) == NOT_SERVING
    gate.set()
    await starting
    assert await health(service) == SERVING
    await service.stop(0.0)


async def test_a_port_in_use_names_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = service_on(FixedEncoder(), server={"port": port, "metrics_port": None})
        with pytest.raises(
            ConfigError, match=rf"server\.port: cannot listen on 127\.0\.0\.1:{port}"
        ):
            await service.start()


async def test_two_services_cannot_share_a_port() -> None:
    """gRPC would let them, with SO_REUSEPORT, and split the calls between the two."""
    async with running_service(FixedEncoder()) as first:
        second = service_on(FixedEncoder(), server={"port": first.port, "metrics_port": None})
        with pytest.raises(ConfigError, match="is the port in use"):
            await second.start()


async def test_a_start_that_fails_gives_the_metrics_port_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics_port = free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {"port": taken.getsockname()[1], "metrics_port": metrics_port}
        with pytest.raises(ConfigError, match=r"server\.port"):
            await service_on(FixedEncoder(), server=ports).start()
    async with running_service(
        FixedEncoder(), server={"port": 0, "metrics_port": metrics_port}
    ) as again:
        assert again.metrics_port == metrics_port


async def test_the_ports_that_the_system_picked_are_told() -> None:
    async with running_service(FixedEncoder(), server={"port": 0, "metrics_port": 0}) as service:
        assert service.port > 0
        assert service.metrics_port > 0
    async with running_service(FixedEncoder()) as service:
        assert service.metrics_port is None


async def test_a_message_over_the_limit_is_refused_by_grpc_and_the_next_call_works() -> None:
    async with (
        running_service(FixedEncoder(), limits={"message_bytes": 2_048}) as service,
        channel(service) as open_channel,
    ):
        stub = pb_grpc.RouterServiceStub(open_channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Route(pb.RouteRequest(prompt="x" * 4_096))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await stub.Route(pb.RouteRequest(prompt="x"))).decision.tier == pb.TIER_FAST


async def test_calls_over_the_limit_are_refused_before_any_work() -> None:
    encoder = FixedEncoder(gate=asyncio.Event())
    async with (
        running_service(encoder, limits={"in_flight": 1}) as service,
        channel(service) as open_channel,
    ):
        stub = pb_grpc.RouterServiceStub(open_channel)
        running = asyncio.ensure_future(stub.Route(pb.RouteRequest(prompt="first")))
        await until(lambda: encoder.inputs)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Route(pb.RouteRequest(prompt="second"))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        encoder.gate.set()
        await running
    assert len(encoder.inputs) == 1


async def test_a_drain_finishes_what_runs_and_refuses_what_comes() -> None:
    encoder = FixedEncoder(gate=asyncio.Event())
    service = service_on(encoder)
    await service.start()
    async with channel(service) as open_channel:
        stub = pb_grpc.RouterServiceStub(open_channel)
        running = asyncio.ensure_future(stub.Route(pb.RouteRequest(prompt="first")))
        await until(lambda: encoder.inputs)
        stopping = asyncio.create_task(service.stop(5.0))
        await asyncio.sleep(0)
        assert await health(service) == NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Route(pb.RouteRequest(prompt="second"))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not stopping.done()
        encoder.gate.set()
        assert (await running).decision.tier == pb.TIER_FAST
        await stopping


async def test_a_drain_does_not_wait_for_ever() -> None:
    encoder = FixedEncoder(gate=asyncio.Event())
    service = service_on(encoder)
    await service.start()
    async with channel(service) as open_channel:
        stub = pb_grpc.RouterServiceStub(open_channel)
        running = asyncio.ensure_future(stub.Route(pb.RouteRequest(prompt="stuck")))
        await until(lambda: encoder.inputs)
        await service.stop(0.02)
        with pytest.raises(grpc.aio.AioRpcError):
            await running


async def test_a_caller_that_hangs_up_stops_the_generation() -> None:
    never = ScriptedReply(text="late", before=asyncio.Event())
    async with (
        ScriptedUpstream(never) as upstream,
        running_service(FixedEncoder(), fast=upstream.url) as service,
        channel(service) as open_channel,
    ):
        call = pb_grpc.RouterServiceStub(open_channel).Decide(pb.DecideRequest(prompt="hello"))
        await upstream.wait_for_requests(1)
        call.cancel()
        await upstream.wait_for_disconnects(1)


async def test_a_streams_caller_that_hangs_up_stops_the_generation() -> None:
    stuck = ScriptedReply(text="Paris", between=asyncio.Event())
    async with (
        ScriptedUpstream(stuck) as upstream,
        running_service(FixedEncoder(), fast=upstream.url) as service,
        channel(service) as open_channel,
    ):
        request = pb.DecideStreamRequest(request=pb.DecideRequest(prompt="hello"))
        call = pb_grpc.RouterServiceStub(open_channel).DecideStream(request)
        assert (await call.read()).WhichOneof("part") == "decision"
        await upstream.wait_for_requests(1)
        call.cancel()
        await upstream.wait_for_disconnects(1)


async def test_sigterm_drains_and_ends_the_server() -> None:
    """The process is this one, so the signal is sent to itself."""
    served = asyncio.Event()
    settings = Settings(server={"port": 0, "metrics_port": None})
    running = asyncio.create_task(serve(settings, on_serving=lambda _: served.set()))
    await served.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await running


async def test_the_shipped_encoder_serves() -> None:
    service = Service.build(Settings(server={"port": 0, "metrics_port": None}))
    await service.start()
    async with channel(service) as open_channel:
        stub = pb_grpc.RouterServiceStub(open_channel)
        response = await stub.Route(pb.RouteRequest(prompt="What is the capital of France?"))
    await service.stop(0.0)
    assert sum(response.decision.probabilities.values()) == pytest.approx(1.0)
    assert response.decision.encoder_revision.startswith("laya-base@")
    assert response.timings.encode_ns > 0


TLS = Path(__file__).parent / "tls"
KEY_AND_CERT = {"cert_file": str(TLS / "cert.pem"), "key_file": str(TLS / "key.pem")}


async def routed_over_tls(service: Service, *, with_certificate: bool) -> pb.RouteResponse:
    cert, key = (TLS / "cert.pem").read_bytes(), (TLS / "key.pem").read_bytes()
    credentials = (
        grpc.ssl_channel_credentials(cert, key, cert)
        if with_certificate
        else grpc.ssl_channel_credentials(cert)
    )
    async with grpc.aio.secure_channel(f"localhost:{service.port}", credentials) as open_channel:
        return await pb_grpc.RouterServiceStub(open_channel).Route(pb.RouteRequest(prompt="x"))


async def test_tls_is_spoken_where_it_is_configured() -> None:
    server = {"host": "127.0.0.1", "port": 0, "metrics_port": None, "tls": KEY_AND_CERT}
    async with running_service(FixedEncoder(), server=server) as service:
        assert (await routed_over_tls(service, with_certificate=False)).decision
        async with channel(service) as plain:
            with pytest.raises(grpc.aio.AioRpcError):
                await pb_grpc.RouterServiceStub(plain).Route(pb.RouteRequest(prompt="x"))


async def test_with_a_client_ca_a_client_needs_a_certificate() -> None:
    tls = {**KEY_AND_CERT, "client_ca_file": str(TLS / "cert.pem")}
    server = {"host": "127.0.0.1", "port": 0, "metrics_port": None, "tls": tls}
    async with running_service(FixedEncoder(), server=server) as service:
        assert (await routed_over_tls(service, with_certificate=True)).decision
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await routed_over_tls(service, with_certificate=False)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cert_file": "/no/cert.pem"}, r"server\.tls\.cert_file: cannot read /no/cert\.pem"),
        ({"key_file": "/no/key.pem"}, r"server\.tls\.key_file: cannot read"),
        ({"key_file": str(TLS / "cert.pem")}, r"server\.tls: .*not a certificate with its"),
        ({"client_ca_file": __file__}, r"server\.tls\.client_ca_file: not a certificate"),
    ],
)
async def test_a_tls_file_that_cannot_be_used_names_its_setting(change, message) -> None:
    server = {"port": 0, "metrics_port": None, "tls": {**KEY_AND_CERT, **change}}
    with pytest.raises(ConfigError, match=message):
        await service_on(FixedEncoder(), server=server).start()


async def test_a_health_watcher_does_not_hold_up_the_drain() -> None:
    service = service_on(FixedEncoder())
    await service.start()
    async with channel(service) as open_channel:
        stub = health_pb2_grpc.HealthStub(open_channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        stopping = asyncio.create_task(service.stop(60.0))
        assert (await watch.read()).status == NOT_SERVING
        async with asyncio.timeout(10.0):
            await stopping


async def reflected(service: Service) -> list[str]:
    async with channel(service) as open_channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(open_channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([request]))
        async for response in call:
            return [entry.name for entry in response.list_services_response.service]
    return []


async def test_reflection_is_there_on_loopback_and_can_be_switched_off() -> None:
    async with running_service(FixedEncoder()) as service:
        assert "router.v1.RouterService" in await reflected(service)
    off = {"port": 0, "metrics_port": None, "reflection": "off"}
    async with running_service(FixedEncoder(), server=off) as service:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await reflected(service)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("router.internal", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host, expected) -> None:
    assert is_loopback(host) is expected


async def test_a_token_is_read_from_its_file_and_names_the_tenant(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open-sesame\n")
    auth = {"tokens": [{"tenant": "acme", "token": {"file": str(tmp_path / "token")}}]}
    async with (
        running_service(FixedEncoder(), auth=auth) as service,
        channel(service) as open_channel,
    ):
        stub = pb_grpc.RouterServiceStub(open_channel)
        good = [("authorization", "Bearer open-sesame")]
        assert (await stub.Route(pb.RouteRequest(prompt="x"), metadata=good)).decision
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Route(pb.RouteRequest(prompt="x"))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_an_upstreams_key_is_read_from_its_variable(monkeypatch) -> None:
    monkeypatch.setenv("BIG_KEY", "sk-1")
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as upstream,
        running_service(
            FixedEncoder(default=encoding(fast=0.1, slow=0.88)),
            slow=[{"url": upstream.url, "model": "big", "api_key": {"env": "BIG_KEY"}}],
        ) as service,
        channel(service) as open_channel,
    ):
        await pb_grpc.RouterServiceStub(open_channel).Decide(pb.DecideRequest(prompt="x"))
    assert upstream.requests[0].headers["authorization"] == "Bearer sk-1"


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {
                "slow_tier": {
                    "upstreams": [
                        {"url": "http://h/v1", "model": "m", "api_key": {"env": "NO_SUCH_KEY"}}
                    ]
                }
            },
            r"slow_tier\.upstreams\[0\]\.api_key: environment variable NO_SUCH_KEY",
        ),
        (
            {"slow_tier": {"upstreams": [{"url": "http://user:pw@h/v1", "model": "m"}]}},
            r"slow_tier\.upstreams\[0\]: .*user or password",
        ),
        (
            {"fast_tier": {"text": {"url": "http://h/v1?x=1"}}},
            r"fast_tier\.text: .*query",
        ),
        ({"fast_tier": {"text": {"gguf": "/no/such.gguf"}}}, r"fast_tier\.text: .*no/such\.gguf"),
        ({"routes": {"fast": "FAST", "slow": "SLOW"}}, r"routes: .*route\(s\) tool"),
        (
            {"routes": {"fast": "TOOL", "slow": "TOOL", "tool": "TOOL"}},
            "routes: at least one route of the encoder must be fast or slow",
        ),
        ({"cache": {"max_bytes": 1_024, "max_entry_bytes": 2_048}}, "cache: max_entry_bytes"),
        ({"cache": {"semantic": {"threshold": -0.5}}}, "cache: similarity_threshold"),
        (
            {"policy": {"implementation": "no_such_package:x"}},
            r"policy\.implementation: .*ModuleNot",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
async def test_a_mistake_that_shows_only_when_things_are_made_names_its_setting(
    sections, message
) -> None:
    with pytest.raises(ConfigError, match=message):
        service_on(FixedEncoder(), **sections)


async def test_a_missing_artifact_is_named() -> None:
    with pytest.raises(ArtifactError, match="/no/such/folder"):
        Service.build(Settings(encoder={"artifact": "/no/such/folder"}))


async def test_routes_may_have_other_names_and_tiers() -> None:
    routes = {"fast": "SLOW", "slow": "SLOW", "tool": "TOOL"}
    async with (
        running_service(FixedEncoder(), routes=routes) as service,
        channel(service) as open_channel,
    ):
        response = await pb_grpc.RouterServiceStub(open_channel).Route(pb.RouteRequest(prompt="x"))
    assert (response.decision.tier, response.decision.route) == (pb.TIER_SLOW, "fast")


def test_a_policy_is_loaded_by_its_name(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    assert load_policy("test_server:AlwaysSlow").decide(None).reason is Reason.OVERRIDE
    assert load_policy("router.policy:ThresholdPolicy") is not None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("router.policy:NoSuchThing", "AttributeError"),
        ("router.policy:_by_threshold", r"has no method decide\(signals\)"),
        ("router.domain:Tier", "TypeError"),
        ("test_server:NeedsArguments", "TypeError"),
    ],
)
def test_an_object_that_is_no_policy_is_refused(name, message, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with pytest.raises(ConfigError, match=rf"policy\.implementation: {name} .*{message}"):
        load_policy(name)


async def until(condition) -> None:
    """Wait for something another task does, at most five seconds."""
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("the condition did not come true")


@pytest.fixture(autouse=True)
def _logs_as_they_were():
    """`serve` configures the process's logging."""
    import logging

    import structlog

    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    yield
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)
    structlog.reset_defaults()


def test_the_fake_encoder_has_the_routes_of_the_shipped_one() -> None:
    assert loaded(FixedEncoder()).calibration.routes == ("fast", "slow", "tool")
