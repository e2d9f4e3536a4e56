"""The service as a whole: ports, health, limits, drain, TLS, what keeps it from starting."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from router.config import Settings
from router.errors import ArtifactError, ConfigError
from router.pipeline_testing import FixedEncoder, encoding, loaded, running_service, service_on
from router.server import Service
from router.serving import serve
from router.transport import is_loopback
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc
from router.wiring import LoadedEncoder
from slow_tier.testing import ScriptedReply, ScriptedUpstream

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


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


@pytest.mark.parametrize("key", ["host", "metrics_host"])
async def test_a_host_that_cannot_be_resolved_names_its_setting(key) -> None:
    server = {"port": 0, "metrics_port": 0, key: "no-such-host.invalid"}
    with pytest.raises(ConfigError, match=rf"server\.{key}: .* cannot be resolved"):
        await service_on(FixedEncoder(), server=server).start()


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
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_callers_that_ask_without_a_pause_learn_of_the_stop_by_a_status_to_retry() -> None:
    service = service_on(FixedEncoder())
    await service.start()
    ended: dict[grpc.StatusCode, int] = {}
    stopped = asyncio.Event()

    async def ask_on_and_on() -> None:
        # One connection each, which learns of the stop by itself.
        async with channel(service, ("grpc.use_local_subchannel_pool", 1)) as open_channel:
            stub = pb_grpc.RouterServiceStub(open_channel)
            while not stopped.is_set():
                try:
                    await stub.Route(pb.RouteRequest(prompt="again"))
                except grpc.aio.AioRpcError as error:
                    ended[error.code()] = ended.get(error.code(), 0) + 1

    asking = [asyncio.create_task(ask_on_and_on()) for _ in range(8)]
    await asyncio.sleep(0.05)
    await service.stop(5.0)
    stopped.set()
    await asyncio.gather(*asking)
    assert set(ended) == {grpc.StatusCode.UNAVAILABLE}


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


async def test_a_signal_while_models_load_ends_the_start_without_waiting_for_them(
    monkeypatch,
) -> None:
    loading, gate, freed = threading.Event(), threading.Event(), threading.Event()

    def slow_load(_settings: Settings) -> LoadedEncoder:
        loading.set()
        gate.wait(20.0)
        return replace(loaded(FixedEncoder()), close=freed.set)

    monkeypatch.setattr("router.server.load_encoder", slow_load)
    settings = Settings(server={"port": 0, "metrics_port": None})
    running = asyncio.create_task(serve(settings, on_serving=lambda _: pytest.fail("served")))
    await until(loading.is_set)
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    assert not gate.is_set()
    gate.set()
    await until(freed.is_set)


async def test_the_two_models_load_at_the_same_time_beside_the_event_loop(monkeypatch) -> None:
    both = threading.Barrier(2, timeout=20.0)

    def load_encoder(_settings: Settings) -> LoadedEncoder:
        both.wait()
        return loaded(FixedEncoder())

    monkeypatch.setattr("router.server.load_encoder", load_encoder)
    monkeypatch.setattr("router.server.load_engine", lambda _: both.wait() and None)
    service = await Service.load(Settings(server={"port": 0, "metrics_port": None}))
    await service.stop(0.0)


async def test_when_one_model_cannot_be_loaded_the_other_one_is_freed(monkeypatch) -> None:
    freed = threading.Event()

    def fail(_settings: Settings) -> None:
        msg = "fast_tier.text: broken"
        raise ConfigError(msg)

    encoder = replace(loaded(FixedEncoder()), close=freed.set)
    monkeypatch.setattr("router.server.load_encoder", lambda _: encoder)
    monkeypatch.setattr("router.server.load_engine", fail)
    with pytest.raises(ConfigError, match="broken"):
        await Service.load(Settings(server={"port": 0, "metrics_port": None}))
    await until(freed.is_set)


async def test_every_mistake_that_shows_without_a_model_is_told_at_once(tmp_path: Path) -> None:
    settings = Settings(
        encoder={"max_tokens": 8_192},
        policy={"implementation": "no_such_package:x"},
        server={"tls": {"cert_file": "/no/cert.pem", "key_file": "/no/key.pem"}},
        fast_tier={"text": {"gguf": "/no/such.gguf"}},
        slow_tier={
            "upstreams": [
                {"name": "a", "url": "http://h/v1", "model": "m", "api_key": {"env": "NO_SUCH"}},
                {"name": "b", "url": "http://h/v1?q", "model": "m"},
            ]
        },
    )
    with pytest.raises(ConfigError) as caught:
        await Service.load(settings)
    lines = str(caught.value).splitlines()
    keys = [line.partition(": ")[0] for line in lines]
    assert sorted(keys) == [
        "encoder.max_tokens",
        "fast_tier.text.gguf",
        "policy.implementation",
        "server.tls.cert_file",
        "slow_tier.upstreams[0].api_key",
        "slow_tier.upstreams[1]",
    ]
    assert "is 8192, laya-base reads at most 1024" in str(caught.value)


async def test_the_shipped_encoder_serves() -> None:
    service = await Service.load(Settings(server={"port": 0, "metrics_port": None}))
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


async def asked_with_certificate(
    service: Service, folder: Path, subject: str, alternative: str
) -> pb.RouteResponse:
    """Ask with a fresh certificate that the committed one, which is a CA, has signed."""

    def openssl(*arguments: object) -> None:
        command = ["openssl", *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)

    (folder / "names").write_text(f"subjectAltName={alternative}\n")
    openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", "client.key", "-out", "client.csr", "-subj", f"/CN={subject}"),
    )
    openssl(
        *("x509", "-req", "-in", "client.csr", "-CA", TLS / "cert.pem", "-CAkey", TLS / "key.pem"),
        *("-set_serial", "7", "-days", "30", "-extfile", "names", "-out", "client.pem"),
    )
    credentials = grpc.ssl_channel_credentials(
        (TLS / "cert.pem").read_bytes(),
        (folder / "client.key").read_bytes(),
        (folder / "client.pem").read_bytes(),
    )
    async with grpc.aio.secure_channel(f"localhost:{service.port}", credentials) as open_channel:
        return await pb_grpc.RouterServiceStub(open_channel).Route(pb.RouteRequest(prompt="x"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
async def test_a_verified_certificate_names_the_tenant_or_may_not_call(tmp_path: Path) -> None:
    server = {
        "port": 0,
        "metrics_port": None,
        "tls": {**KEY_AND_CERT, "client_ca_file": str(TLS / "cert.pem")},
    }
    certificates = [
        {"tenant": "acme", "subject": "client.acme"},
        {"tenant": "globex", "subject": "spiffe://globex/batch"},
    ]
    tenants: list[str] = []

    class Listening(FixedEncoder):
        async def encode(self, item, *, deadline_s):
            tenants.append(structlog.contextvars.get_contextvars()["tenant"])
            return await FixedEncoder.encode(self, item, deadline_s=deadline_s)

    async with running_service(
        Listening(), server=server, auth={"certificates": certificates}
    ) as service:
        await asked_with_certificate(service, tmp_path, "client.acme", "DNS:other")
        await asked_with_certificate(service, tmp_path, "other", "DNS:x,DNS:client.acme")
        await asked_with_certificate(service, tmp_path, "other", "URI:spiffe://globex/batch")
        for subject, alternative in (("stranger", "email:client.acme@x"), ("x", "DNS:acme")):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await asked_with_certificate(service, tmp_path, subject, alternative)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert tenants == ["acme", "acme", "globex"]


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
        ({"key_file": str(TLS / "encrypted_key.pem")}, r"server\.tls\.key_file: is encrypted"),
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
        ({"routes": {"fast": "FAST", "slow": "SLOW"}}, r"routes: .*route\(s\) tool"),
        (
            {"routes": {"fast": "TOOL", "slow": "TOOL", "tool": "TOOL"}},
            "routes: at least one route of the encoder must be fast or slow",
        ),
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
        await Service.load(Settings(encoder={"artifact": "/no/such/folder"}))


async def test_routes_may_have_other_names_and_tiers() -> None:
    routes = {"fast": "SLOW", "slow": "SLOW", "tool": "TOOL"}
    async with (
        running_service(FixedEncoder(), routes=routes) as service,
        channel(service) as open_channel,
    ):
        response = await pb_grpc.RouterServiceStub(open_channel).Route(pb.RouteRequest(prompt="x"))
    assert (response.decision.tier, response.decision.route) == (pb.TIER_SLOW, "fast")


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
