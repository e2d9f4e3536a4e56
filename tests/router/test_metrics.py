"""What is counted, under which labels."""

import socket
import urllib.request
from dataclasses import replace

import grpc
import pytest

from router.domain import AnsweredBy, DecideOutcome, PathStep, StepOutcome, Tier, Timings
from router.errors import ConfigError, TierUnavailable
from router.metrics import Metrics
from router.metrics_endpoint import MetricsEndpoint
from router.pipeline_testing import FixedEncoder, asked, encoding, routing, running_service
from router.testing import sample_decision
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc
from slow_tier.testing import ScriptedReply, ScriptedUpstream


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="1.2.3", encoder_revision="e@1", config_revision="c1")


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"fastslow_{name}", labels)


def outcome(**changes) -> DecideOutcome:
    return replace(
        DecideOutcome(
            decision=sample_decision(),
            answered_by=AnsweredBy.SLOW_TIER,
            input_tokens=7,
            output_tokens=5,
            degraded=True,
            path=(
                PathStep(
                    tier=Tier.FAST,
                    upstream="",
                    outcome=StepOutcome.FAST_TIER_FAILED,
                    elapsed_ns=1,
                ),
                PathStep(
                    tier=Tier.SLOW, upstream="big", outcome=StepOutcome.ANSWERED, elapsed_ns=2
                ),
            ),
            timings=Timings(encode_ns=2_000_000, total_ns=500_000_000),
        ),
        **changes,
    )


def test_an_answer_is_counted_with_its_decision_and_its_tokens(metrics) -> None:
    metrics.answer(outcome())
    assert value(metrics, "answers_total", answered_by="SLOW_TIER") == 1
    assert value(metrics, "decisions_total", tier="FAST", reason="CONFIDENT") == 1
    assert value(metrics, "degraded_answers_total") == 1
    assert value(metrics, "tokens_total", upstream="big", direction="input") == 7
    assert value(metrics, "tokens_total", upstream="big", direction="output") == 5


def test_stages_are_in_seconds_and_those_that_did_not_run_are_not_counted(metrics) -> None:
    metrics.answer(outcome())
    assert value(metrics, "stage_seconds_sum", stage="encode") == pytest.approx(0.002)
    assert value(metrics, "stage_seconds_count", stage="total") == 1
    assert value(metrics, "stage_seconds_bucket", stage="total", le="0.5") == 1
    assert value(metrics, "stage_seconds_bucket", stage="total", le="0.25") == 0
    assert value(metrics, "stage_seconds_count", stage="fast") is None


def test_a_report_is_counted_by_verdict_score_and_cost(metrics) -> None:
    metrics.report(answered_by="FAST_TIER", accepted=False, score=0.25, cost_usd=0.5)
    metrics.report(answered_by="FAST_TIER", accepted=None, score=None, cost_usd=1.0)
    rejected = {"answered_by": "FAST_TIER", "verdict": "rejected"}
    assert value(metrics, "outcome_reports_total", **rejected) == 1
    none = {"answered_by": "FAST_TIER", "verdict": "none"}
    assert value(metrics, "outcome_reports_total", **none) == 1
    assert value(metrics, "outcome_score_sum", answered_by="FAST_TIER") == 0.25
    assert value(metrics, "outcome_score_count", answered_by="FAST_TIER") == 1
    assert value(metrics, "outcome_cost_usd_total", answered_by="FAST_TIER") == 1.5


def test_in_flight_is_read_when_it_is_asked_for(metrics) -> None:
    calls = [3, 1]
    metrics.follow_in_flight(calls.pop)
    assert value(metrics, "in_flight") == 1
    assert value(metrics, "in_flight") == 3


def test_build_info_says_what_runs(metrics) -> None:
    labels = {"version": "1.2.3", "encoder_revision": "e@1", "config_revision": "c1"}
    assert value(metrics, "build_info", **labels) == 1


def test_a_registry_is_served_over_http_until_it_is_closed(metrics) -> None:
    endpoint = MetricsEndpoint(metrics.registry, host="127.0.0.1", port=0)
    url = f"http://127.0.0.1:{endpoint.port}/metrics"
    try:
        with urllib.request.urlopen(url) as response:
            body = response.read().decode()
    finally:
        endpoint.close()
    assert 'fastslow_build_info{config_revision="c1"' in body
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url)


def test_a_port_in_use_names_the_setting(metrics) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"server\.metrics_port: .*:{port}: Address already"):
            MetricsEndpoint(metrics.registry, host="127.0.0.1", port=port)


def test_a_step_in_process_is_counted_under_that_name(metrics) -> None:
    metrics.step(outcome().path[0])
    failed = {"upstream": "in-process", "outcome": "FAST_TIER_FAILED"}
    assert value(metrics, "path_steps_total", **failed) == 1


async def test_the_upstreams_of_a_request_that_fails_are_counted_too() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(status=400)) as fast,
        ScriptedUpstream(ScriptedReply(status=503)) as slow,
        routing(FixedEncoder(), fast=fast.url, slow=[slow.url]) as router,
    ):
        with pytest.raises(TierUnavailable):
            await router.decide(asked())
    for upstream, result in (("fast", "FAST_TIER_FAILED"), ("slow-0", "SLOW_TIER_FAILED")):
        assert value(router.metrics, "path_steps_total", upstream=upstream, outcome=result) == 1


async def test_cache_operations_are_counted_by_result() -> None:
    async with (
        ScriptedUpstream(then=ScriptedReply(text="Paris")) as upstream,
        routing(FixedEncoder(), fast=upstream.url) as router,
    ):
        await router.decide(asked())
        await router.decide(asked())
        await router.decide(asked("Capital city of France?"))
        await router.decide(asked("What is the weather now?"))  # volatile: not looked up
        found = {
            (operation, result): router.metrics.registry.get_sample_value(
                "fastslow_cache_operations_total", {"operation": operation, "result": result}
            )
            for operation, result in [
                ("exact", "hit"),
                ("exact", "miss"),
                ("semantic", "empty"),
                ("semantic", "hit"),
                ("store", "stored"),
            ]
        }
    assert found == {
        ("exact", "hit"): 1,
        ("exact", "miss"): 2,
        ("semantic", "empty"): 1,
        ("semantic", "hit"): 1,
        ("store", "stored"): 1,
    }


async def test_calls_are_counted_by_status_code_and_the_tenant_is_no_label() -> None:
    async with (
        ScriptedUpstream(ScriptedReply(text="Paris")) as upstream,
        running_service(
            FixedEncoder(default=encoding()),
            fast=upstream.url,
            auth={"trust_tenant_metadata": True},
        ) as service,
        grpc.aio.insecure_channel(f"127.0.0.1:{service.port}") as channel,
    ):
        stub = pb_grpc.RouterServiceStub(channel)
        metadata = [("tenant", "somebody")]
        await stub.Decide(pb.DecideRequest(prompt="hello"), metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Route(pb.RouteRequest(), metadata=metadata)
        registry = service.router.metrics.registry
        samples = [sample for family in registry.collect() for sample in family.samples]
    counted = {
        (s.labels["rpc"], s.labels["code"]): s.value
        for s in samples
        if s.name == "fastslow_requests_total"
    }
    assert counted == {("Decide", "OK"): 1, ("Route", "INVALID_ARGUMENT"): 1}
    assert not any("somebody" in sample.labels.values() for sample in samples)
