"""Start the real service for foreign clients, as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from slow_tier.testing import ScriptedReply, ScriptedUpstream

ROOT = Path(__file__).parents[2]
NODE_FOLDER = Path(__file__).parent / "node"
START_S = 60.0
CLIENT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """The service on a free port of 127.0.0.1 with the slow tier behind it.

    Attributes:
        address: ``host:port`` for gRPC clients.
        upstream: The slow tier; says "Paris" unless scripted otherwise.
    """

    address: str
    upstream: ScriptedUpstream


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stand]:
    folder = tmp_path_factory.mktemp("service")
    ports_file, log = folder / "ports.json", folder / "service.log"
    async with ScriptedUpstream(then=ScriptedReply(text="Paris")) as upstream:
        config = {
            "server": {"port": 0, "metrics_port": None},
            "slow_tier": {"upstreams": [{"url": upstream.url, "model": "scripted"}]},
        }
        (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FASTSLOW_")}
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "router", "serve"),
                *("--config", folder / "config.yaml", "--ports-file", ports_file),
                cwd=ROOT,
                env=environment,
                stderr=stderr,
            )
        try:
            async with asyncio.timeout(START_S):
                while not ports_file.exists():
                    assert process.returncode is None, log.read_text()
                    await asyncio.sleep(0.05)
            port = json.loads(ports_file.read_text())["port"]
            yield Stand(address=f"127.0.0.1:{port}", upstream=upstream)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
    assert process.returncode == 0, log.read_text()


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Install what the Node client needs, exactly as locked, once a checkout."""
    if missing := [name for name in ("node", "npm") if shutil.which(name) is None]:
        pytest.fail(
            f"not installed: {', '.join(missing)}; on Debian: apt-get install nodejs npm",
            pytrace=False,
        )
    installed = NODE_FOLDER / "node_modules" / ".package-lock.json"
    locked = NODE_FOLDER / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < locked.stat().st_mtime:
        done = subprocess.run(
            ["npm", "ci"], cwd=NODE_FOLDER, capture_output=True, text=True, timeout=100, check=False
        )
        if done.returncode != 0:
            pytest.fail(f"npm ci failed:\n{done.stdout}{done.stderr}", pytrace=False)
    return installed.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What one call gave Node: its messages, and the status when that was not OK."""

    messages: list[dict[str, Any]]
    error: dict[str, Any] | None

    @property
    def message(self) -> dict[str, Any]:
        """The only message of a call that went well."""
        assert self.error is None, self.error
        assert len(self.messages) == 1, self.messages
        return self.messages[0]


CallFromNode = Callable[..., Awaitable[list[NodeResult]]]


@pytest.fixture
def call_from_node(stand: Stand, node_modules: Path) -> CallFromNode:
    """Make calls one after the other from one Node process; see `node/client.mjs`."""

    async def call(*calls: dict[str, Any]) -> list[NodeResult]:
        done = await run(
            ("node", NODE_FOLDER / "client.mjs", ROOT / "proto", stand.address),
            stdin=json.dumps([{"deadline_ms": 20_000, **description} for description in calls]),
        )
        assert done.returncode == 0, done.stderr
        return [NodeResult(**result) for result in json.loads(done.stdout)]

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a process ended."""

    returncode: int
    stdout: str
    stderr: str


async def run(command: tuple[str | Path, ...], *, stdin: str = "") -> Done:
    """Run a client to its end; killed after `CLIENT_S` seconds."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(CLIENT_S):
            stdout, stderr = await process.communicate(stdin.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Done(returncode=process.returncode, stdout=stdout.decode(), stderr=stderr.decode())


@pytest.fixture
def buf_curl(stand: Stand) -> Callable[..., Awaitable[Done]]:
    """Call a method with `buf curl`, which knows the schema by reflection alone."""
    buf = Path(sys.executable).with_name("buf")
    if not buf.exists():
        pytest.fail("buf is not installed; it comes with the dev extra (buf-bin)", pytrace=False)

    async def call(method: str, request: dict[str, Any]) -> Done:
        return await run(
            (
                *(buf, "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--emit-defaults"),
                *("--data", json.dumps(request), f"http://{stand.address}/{method}"),
            )
        )

    return call
