"""What `train` writes is served, whatever the routes are called and however many there are."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
from typer.testing import CliRunner

from router.artifact import load_artifact, verify_all
from router.cli.app import app
from router.config import Settings
from router.domain import Reason, Tier
from router.errors import ConfigError
from router.policy import Signals, Verdict
from router.server import Service
from router.training.user_rows import UserRow
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc
from router.wiring import load_encoder

pytestmark = [pytest.mark.train, pytest.mark.timeout(300)]

TUNED = ("--epochs", "25", "--head-lr", "3e-3", "--regression-lr", "3e-3")


class CodeAlwaysFast:
    """A custom policy over routes of an operator's own."""

    def decide(self, signals: Signals) -> Verdict:
        route = max(signals.probabilities, key=lambda name: signals.probabilities[name])
        tier = Tier.FAST if route == "code" else Tier.SLOW
        return Verdict(tier=tier, reason=Reason.OVERRIDE, route=route, threshold=0.25)


def trained(folder: Path, made_up: ModuleType, base: Path, *routes: str) -> Path:
    rows = made_up.write_rows(folder / "rows.jsonl", made_up.made_up_rows(*routes))
    out = folder / "mine"
    arguments = ["train", str(rows), "--base", str(base), "--out", str(out), *TUNED]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def two(made_up: ModuleType, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("two"), made_up, tiny_encoder, "fast", "slow")


@pytest.fixture(scope="module")
def four(made_up: ModuleType, two: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Start from the artifact of two routes, so that two are known and two are new."""
    return trained(tmp_path_factory.mktemp("four"), made_up, two, "fast", "slow", "code", "law")


@asynccontextmanager
async def serving(artifact: Path, **sections: Any) -> AsyncIterator[pb_grpc.RouterServiceStub]:
    settings = Settings(
        encoder={"artifact": str(artifact)}, server={"port": 0, "metrics_port": None}, **sections
    )
    encoder = load_encoder(settings)
    try:
        service = Service.build(settings, encoder=encoder)
        await service.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{service.port}") as channel:
                yield pb_grpc.RouterServiceStub(channel)
        finally:
            await service.stop(1.0)
    finally:
        encoder.close()


async def routed(stub: pb_grpc.RouterServiceStub, rows: list[dict[str, Any]]) -> list[pb.Decision]:
    return [(await stub.Route(pb.RouteRequest(prompt=row["text"]))).decision for row in rows]


def held_out(made_up: ModuleType, *routes: str) -> list[dict[str, Any]]:
    rows = made_up.made_up_rows(*routes)
    return [r for r in rows if UserRow(text=r["text"], route=r["route"]).split == "test"]


def likeliest(decision: pb.Decision) -> str:
    return max(decision.probabilities, key=lambda name: decision.probabilities[name])


async def test_two_routes_are_served_as_the_rows_say(made_up: ModuleType, two: Path) -> None:
    rows = held_out(made_up, "fast", "slow")
    async with serving(two, routes={"fast": "FAST", "slow": "SLOW"}) as stub:
        decisions = await routed(stub, rows)
    assert len(rows) >= 15
    right = [likeliest(d) == row["route"] for d, row in zip(decisions, rows, strict=True)]
    assert sum(right) >= 0.9 * len(rows)
    sent_fast = [
        row["route"] for d, row in zip(decisions, rows, strict=True) if d.tier == pb.TIER_FAST
    ]
    assert set(sent_fast) == {"fast"}


async def test_four_routes_go_where_the_configuration_maps_them(
    made_up: ModuleType, four: Path
) -> None:
    rows = held_out(made_up, "fast", "slow", "code", "law")
    tiers = {"fast": "FAST", "slow": "SLOW", "code": "FAST", "law": "SLOW"}
    async with serving(four, routes=tiers, policy={"threshold": 0.5}) as stub:
        decisions = await routed(stub, rows)
    assert set(decisions[0].probabilities) == set(tiers)
    right = [likeliest(d) == row["route"] for d, row in zip(decisions, rows, strict=True)]
    assert sum(right) >= 0.8 * len(rows)
    sent_fast = {likeliest(d) for d in decisions if d.tier == pb.TIER_FAST}
    assert sent_fast == {"fast", "code"}


async def test_a_custom_policy_decides_over_the_trained_routes(
    made_up: ModuleType, four: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    tiers = {"fast": "FAST", "slow": "SLOW", "code": "FAST", "law": "SLOW"}
    policy = {"implementation": "test_train_serving:CodeAlwaysFast"}
    async with serving(four, routes=tiers, policy=policy) as stub:
        decisions = await routed(stub, made_up.made_up_rows("code", "fast", each=8))
    assert {likeliest(d) for d in decisions if d.tier == pb.TIER_FAST} == {"code"}
    assert {d.reason for d in decisions} == {pb.REASON_OVERRIDE}


async def test_a_route_without_a_tier_keeps_the_service_from_starting(four: Path) -> None:
    with pytest.raises(ConfigError, match=r"routes: the encoder has route\(s\) code, law"):
        async with serving(four, routes={"fast": "FAST", "slow": "SLOW"}):
            pass


def test_the_artifact_is_whole_and_says_how_it_was_made(two: Path, four: Path) -> None:
    assert "encoder.json" in verify_all(two)
    config = load_artifact(four).config
    assert config.routes == ("fast", "slow", "code", "law")
    assert config.training["base"] == "mine"
    assert config.training["heads"]["temperature"] == "trained"
    assert config.training["recipe"]["batch_rows"] == 16
    assert load_artifact(two).config.threshold_search is not None
    # A bare encoder's cosines mean nothing known, so only equal embeddings may hit.
    assert config.semantic_threshold == 1.0


def test_the_report_compares_float32_with_int8_on_dev_and_test(two: Path) -> None:
    report = json.loads((two / "report.json").read_text(encoding="utf-8"))
    assert report["quantisation"] in {"dynamic", "static"}
    assert max(report["auc_loss"].values()) <= 0.005 or report["quantisation"] == "static"
    for precision in ("fp32", "shipped"):
        for split in ("dev", "test"):
            figures = report[precision][split]
            assert figures["rows"] == report["rows"][split]
            assert sum(r["rows"] for r in figures["routes"].values()) == figures["rows"]
            assert figures["routes"]["fast"]["auc"] > 0.9
    assert report["temperature"]["mean_absolute_error"] < 0.2
    assert not report["temperature"]["collapsed"]
