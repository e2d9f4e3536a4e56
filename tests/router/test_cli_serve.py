"""``python -m router serve`` as a process of its own, asked over a real port."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TOKEN = "a-token-only-this-test-knows"


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[str]
    ports_file: Path
    port: int
    metrics_port: int


def environment(**variables: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("FASTSLOW_")}
    return inherited | variables


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "router", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(**variables),
    )


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("serve")
    config, ports_file = folder / "router.yaml", folder / "ports.json"
    config.write_text(
        "server: {port: 0, metrics_port: 0}\n"
        "auth: {tokens: [{tenant: acme, token: {env: ACME_TOKEN}}]}\n"
        "log: {format: console}\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "router", "serve", "--json", "--config", str(config)]
    with subprocess.Popen(
        [*command, "--ports-file", str(ports_file)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(ACME_TOKEN=TOKEN),
    ) as process:
        try:
            ends_s = time.monotonic() + 60.0
            while not ports_file.exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < ends_s
                time.sleep(0.02)
            yield Running(process, ports_file, **json.loads(ports_file.read_text()))
        finally:
            process.kill()


def test_a_client_with_the_token_is_answered(service: Running) -> None:
    address = f"127.0.0.1:{service.port}"
    arguments = ["--address", address, "--token-env", "TOKEN", "--json"]
    result = run("route", "What is the capital of Japan?", *arguments, TOKEN=TOKEN)
    assert result.returncode == 0, result.stderr
    assert sum(json.loads(result.stdout)["decision"]["probabilities"].values()) == pytest.approx(1)


def test_a_refused_call_is_told_by_its_status(service: Running) -> None:
    result = run("route", "hello", "--address", f"127.0.0.1:{service.port}")
    assert result.returncode == 1
    assert "UNAUTHENTICATED" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_blank_text_is_wrong_usage_there_too(service: Running) -> None:
    arguments = ["--address", f"127.0.0.1:{service.port}", "--token-env", "TOKEN"]
    result = run("decide", " ", *arguments, TOKEN=TOKEN)
    assert result.returncode == 2
    assert "INVALID_ARGUMENT: prompt" in result.stderr


@pytest.mark.parametrize(("key", "variable"), [("port", "PORT"), ("metrics_port", "METRICS_PORT")])
def test_a_port_in_use_is_named_by_its_setting(service: Running, key: str, variable: str) -> None:
    ports = {"FASTSLOW_SERVER__PORT": "0", "FASTSLOW_SERVER__METRICS_PORT": "0"}
    result = run("serve", **{**ports, f"FASTSLOW_SERVER__{variable}": str(getattr(service, key))})
    assert result.returncode == 2
    assert f"server.{key}: cannot listen on" in result.stderr
    assert "Traceback" not in result.stderr


def test_it_logs_json_where_it_listens_and_ends_on_sigterm(service: Running) -> None:
    """Runs last: it ends the service."""
    service.process.send_signal(signal.SIGTERM)
    _, log = service.process.communicate(timeout=30)
    assert service.process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    [serving] = [line for line in lines if line["event"] == "serving"]
    assert (serving["port"], serving["metrics_port"]) == (service.port, service.metrics_port)
    assert TOKEN not in log
    assert not service.ports_file.exists()
