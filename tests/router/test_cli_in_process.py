"""``route``, ``decide`` and ``doctor`` on the shipped encoder, in this process."""

import asyncio
import json
import logging
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from router.artifact import REGISTERED
from router.cli.app import app
from router.config import ENV_CONFIG
from slow_tier.testing import ScriptedReply, ScriptedUpstream

QUESTION = "What is the capital of Japan?"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave neither the operator's configuration in, nor the command's log streams behind."""
    monkeypatch.delenv(ENV_CONFIG, raising=False)
    for key in ("SERVER__PORT", "SERVER__METRICS_PORT"):
        monkeypatch.setenv(f"FASTSLOW_{key}", "0")
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


async def run(*arguments: str, stdin: str | None = None):
    """Run a command, which has an event loop of its own, beside the test's."""
    return await asyncio.to_thread(CliRunner().invoke, app, list(arguments), input=stdin)


def configured(folder: Path, url: str) -> str:
    """Return a configuration that sends every text to ``url``, whichever tier it is for."""
    path = folder / "router.yaml"
    server = {"url": url, "model": "scripted"}
    tiers = {"fast_tier": {"text": server}, "slow_tier": {"upstreams": [server]}}
    path.write_text(json.dumps(tiers), encoding="utf-8")
    return str(path)


def by_name(output: str) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(output)["checks"]}


async def test_route_prints_the_messages_fields_under_the_names_of_the_contract() -> None:
    result = await run("route", QUESTION, "--json")
    assert result.exit_code == 0, result.output
    response = json.loads(result.stdout)
    decision = response["decision"]
    assert decision["tier"] in {"TIER_FAST", "TIER_SLOW", "TIER_TOOL"}
    assert sum(decision["probabilities"].values()) == pytest.approx(1.0)
    assert set(decision["probabilities"]) == {"fast", "slow", "tool"}
    assert 0.1 <= decision["sampling_temperature"] <= 1.5
    assert decision["expected_output_tokens"] <= decision["expected_output_tokens_p95"]
    assert decision["experiment"] == "", "fields at their default are printed too"
    assert int(response["timings"]["total_ns"]) >= int(response["timings"]["encode_ns"]) > 0


async def test_a_text_from_standard_input_is_decided_as_the_same_argument() -> None:
    typed = json.loads((await run("route", QUESTION, "--json")).stdout)["decision"]
    piped = json.loads((await run("route", "-", "--json", stdin=f"{QUESTION}\n")).stdout)[
        "decision"
    ]
    assert piped["probabilities"] == typed["probabilities"]
    assert piped["input_tokens"] == typed["input_tokens"]


async def test_route_shows_a_person_every_route_with_its_probability() -> None:
    result = await run("route", QUESTION)
    assert result.exit_code == 0, result.output
    for word in ("reason", "threshold", "temperature", "fast 0.", "slow 0.", "tool 0."):
        assert word in result.stdout


async def test_decide_prints_the_answer_and_who_gave_it(tmp_path: Path) -> None:
    async with ScriptedUpstream(ScriptedReply(text="Tokyo.")) as server:
        config = configured(tmp_path, server.url)
        arguments = ["--max-output-tokens", "7", "--temperature", "0.25"]
        result = await run("decide", QUESTION, "--json", "--config", config, *arguments)
    assert result.exit_code == 0, result.output
    response = json.loads(result.stdout)
    assert response["text"] == "Tokyo."
    assert response["answered_by"] in {"ANSWERED_BY_FAST_TIER", "ANSWERED_BY_SLOW_TIER"}
    assert response["path"][-1]["outcome"] == "STEP_OUTCOME_ANSWERED"
    assert response["decision"]["sampling_temperature"] == 0.25
    [request] = server.requests
    assert request.body["max_tokens"] == 7


async def test_escape_codes_of_a_model_do_not_reach_the_terminal(tmp_path: Path) -> None:
    async with ScriptedUpstream(
        ScriptedReply(text="\x1b]0;owned\x07 [bold]Tokyo[/bold]")
    ) as server:
        result = await run("decide", QUESTION, "--config", configured(tmp_path, server.url))
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    assert "[bold]Tokyo[/bold]" in result.stdout, "an answer is no markup either"


async def test_decide_without_any_tier_names_the_setting() -> None:
    result = await run("decide", QUESTION)
    assert result.exit_code == 1
    assert "slow_tier.upstreams" in result.stderr
    assert "Traceback" not in result.output


async def test_a_blank_text_is_wrong_usage() -> None:
    result = await run("decide", "  \n ")
    assert result.exit_code == 2
    assert result.stderr.strip() == "prompt: is only white space"


async def test_a_damaged_artifact_is_named_and_is_no_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = shutil.copytree(REGISTERED["laya-base"], tmp_path / "damaged")
    graph = next(damaged.glob("*.onnx"))
    graph.write_bytes(graph.read_bytes()[:-1])
    monkeypatch.setenv("FASTSLOW_ENCODER__ARTIFACT", str(damaged))
    result = await run("route", QUESTION)
    assert result.exit_code == 1
    assert str(graph) in result.stderr

    found = await run("doctor", "--json")
    assert found.exit_code == 1
    check = by_name(found.stdout)["artifact"]
    assert check["status"] == "failed"
    assert str(graph) in check["detail"]
    assert "encoder.artifact" in check["remedy"]


async def test_doctor_passes_with_warnings_where_no_tier_is_configured() -> None:
    result = await run("doctor", "--json")
    checks = by_name(result.stdout)
    assert result.exit_code == 0, checks
    for name in ("versions", "artifact", "decision", "cache", "server.port"):
        assert checks[name]["status"] == "ok"
        assert checks[name]["remedy"] == ""
    for name in ("fast_tier.text", "slow_tier.upstreams"):
        assert checks[name]["status"] == "warning"
        assert name in checks[name]["remedy"]


async def test_doctor_asks_each_upstream(tmp_path: Path) -> None:
    async with ScriptedUpstream() as server:
        result = await run("doctor", "--json", "--config", configured(tmp_path, server.url))
    checks = by_name(result.stdout)
    assert result.exit_code == 0, checks
    assert checks["fast_tier.text"]["status"] == "ok"
    assert checks["slow_tier.upstreams[0]"]["status"] == "ok"
    assert [request.path for request in server.requests] == ["/v1/models", "/v1/models"]


async def test_an_upstream_that_lists_no_models_is_reachable(tmp_path: Path) -> None:
    async with ScriptedUpstream(models_status=404) as server:
        result = await run("doctor", "--json", "--config", configured(tmp_path, server.url))
    check = by_name(result.stdout)["slow_tier.upstreams[0]"]
    assert (result.exit_code, check["status"]) == (0, "warning")
    assert "status 404" in check["detail"]


async def test_doctor_fails_for_a_port_in_use_and_an_upstream_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as closed:
        port = taken.getsockname()[1]
        closed.bind(("127.0.0.1", 0))  # bound, but nobody listens
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        monkeypatch.setenv("FASTSLOW_SERVER__PORT", str(port))
        result = await run("doctor", "--config", configured(tmp_path, url), "--json")
    assert result.exit_code == 1
    checks = by_name(result.stdout)
    assert checks["server.port"]["status"] == "failed"
    assert str(port) in checks["server.port"]["detail"]
    assert checks["slow_tier.upstreams[0]"]["status"] == "failed"
    assert "slow_tier.upstreams[0].url" in checks["slow_tier.upstreams[0]"]["remedy"]


async def test_doctor_shows_a_person_what_to_do() -> None:
    result = await run("doctor")
    assert result.exit_code == 0
    assert "warning" in result.stdout
    assert "-> set slow_tier.upstreams" in result.stdout
