"""An operator's own policy is tried at start and held to its word afterwards."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from router.domain import Reason, Tier
from router.errors import ConfigError, PolicyFailed
from router.pipeline_testing import FixedEncoder, encoding, running_service
from router.policy import Signals, ThresholdPolicy, Verdict
from router.policy_loading import CustomPolicy, load_policy
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc

TIERS = {"fast": Tier.FAST, "slow": Tier.SLOW, "tool": Tier.TOOL}
SIGNALS = Signals(probabilities={"fast": 0.5, "slow": 0.5}, tiers=TIERS, threshold=0.5)
GOOD = Verdict(tier=Tier.SLOW, reason=Reason.OVERRIDE, route="slow", threshold=1.0)


class AlwaysSlow:
    """A custom policy, as an operator would write one."""

    def decide(self, signals: Signals) -> Verdict:
        return GOOD


class NeedsArguments:
    def __init__(self, _needed: int) -> None: ...

    def decide(self, signals: Signals) -> Verdict: ...


class ReturnsNothing:
    def decide(self, signals: Signals) -> Any:
        return None


class IsAsync:
    async def decide(self, signals: Signals) -> Verdict:
        return GOOD


class TakesNoSignals:
    def decide(self) -> Verdict:
        return GOOD


class EndsTheProcess:
    def decide(self, signals: Signals) -> Verdict:
        raise SystemExit(3)


class UnknownRoute:
    def decide(self, signals: Signals) -> Verdict:
        return replace(GOOD, route="nowhere")


class WantsToolsAlways:
    def decide(self, signals: Signals) -> Verdict:
        return Verdict(tier=Tier.TOOL, reason=Reason.TOOL_FITS, route="fast", threshold=0.5)


class WordsForTiers:
    def decide(self, signals: Signals) -> Any:
        return Verdict(tier="SLOW", reason=Reason.OVERRIDE, route="slow", threshold=0.5)


class ThresholdOfFive:
    def decide(self, signals: Signals) -> Verdict:
        return replace(GOOD, threshold=5.0)


class FailsOnSlowRoutes:
    """Fails where the encoder is surer of slow than any signals at start are."""

    def decide(self, signals: Signals) -> Verdict:
        if signals.probabilities["slow"] > 0.95:
            raise KeyError(next(iter(signals.probabilities)))
        return ThresholdPolicy().decide(signals)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def test_a_policy_is_loaded_by_its_name() -> None:
    assert load_policy("test_policy_loading:AlwaysSlow", tiers=TIERS).decide(SIGNALS) == GOOD
    assert load_policy("router.policy:ThresholdPolicy", tiers=TIERS).decide(SIGNALS).route == "fast"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("router.policy:NoSuchThing", "AttributeError"),
        ("router.policy:_by_threshold", r"has no method decide\(signals\)"),
        ("router.domain:Tier", "TypeError"),
        ("test_policy_loading:NeedsArguments", "TypeError"),
        ("test_policy_loading:ReturnsNothing", "returned a NoneType, not a Verdict"),
        ("test_policy_loading:IsAsync", "returned a coroutine, not a Verdict"),
        ("test_policy_loading:TakesNoSignals", "TypeError"),
        ("test_policy_loading:EndsTheProcess", "SystemExit"),
        ("test_policy_loading:UnknownRoute", "route is none of"),
        ("test_policy_loading:WantsToolsAlways", "TOOL where no route is one"),
        ("test_policy_loading:WordsForTiers", "TypeError"),
        ("test_policy_loading:ThresholdOfFive", "ValueError"),
    ],
)
def test_what_is_no_policy_is_refused_at_start(name, message) -> None:
    with pytest.raises(ConfigError, match=rf"policy\.implementation: {name} .*{message}"):
        load_policy(name, tiers=TIERS)


def test_a_policy_that_ends_the_process_ends_one_decision_and_is_not_quoted() -> None:
    with capture_logs() as logs, pytest.raises(PolicyFailed, match=r"policy\.implementation"):
        CustomPolicy(EndsTheProcess()).decide(SIGNALS)
    assert logs[0]["event"] == "policy_failed"
    assert [entry["type"] for entry in logs[0]["exceptions"]] == ["_Failed", "SystemExit"]


async def test_where_the_policy_fails_only_that_item_of_a_batch_does() -> None:
    encoder = FixedEncoder(
        default=encoding(fast=0.9, slow=0.05), by_text={"bad": encoding(fast=0.01, slow=0.98)}
    )
    policy = {"implementation": "test_policy_loading:FailsOnSlowRoutes"}
    async with (
        running_service(encoder, policy=policy) as service,
        grpc.aio.insecure_channel(f"127.0.0.1:{service.port}") as channel,
    ):
        stub = pb_grpc.RouterServiceStub(channel)
        items = [pb.RouteRequest(prompt=prompt) for prompt in ("good", "bad", "good")]
        answer = await stub.RouteBatch(pb.RouteBatchRequest(items=items))
        assert [item.code for item in answer.items] == [0, grpc.StatusCode.INTERNAL.value[0], 0]
        with pytest.raises(grpc.aio.AioRpcError, match=r"policy\.implementation") as caught:
            await stub.Route(pb.RouteRequest(prompt="bad"))
        assert caught.value.code() is grpc.StatusCode.INTERNAL
