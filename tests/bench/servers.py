"""Run the servers under test, each as a process of its own whose CPU time can be read."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_START_S = 60.0
_STOP_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that listens on 127.0.0.1."""

    name: str
    port: int
    pid: int

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """Return the CPU time used so far by all threads, user and system, in steps of 10 ms."""
        # The second field is the command's name in brackets, which may hold anything.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def running_service(folder: Path, config: dict[str, Any]) -> AsyncIterator[Server]:
    """Run the real service with ``config`` and nothing from the environment."""
    path = folder / "config.yaml"
    path.write_text(json.dumps(config))  # JSON is YAML
    command = ("-m", "router", "serve", "--config", str(path))
    async with _running("service", command, folder) as server:
        yield server


@asynccontextmanager
async def running_echo(folder: Path, responses: dict[str, str]) -> AsyncIterator[Server]:
    """Run the baseline; ``responses`` holds its two messages in base64."""
    path = folder / "responses.json"
    path.write_text(json.dumps(responses))
    command = (str(Path(__file__).with_name("echo_server.py")), "--responses", str(path))
    async with _running("echo", command, folder) as server:
        yield server


@asynccontextmanager
async def _running(name: str, command: tuple[str, ...], folder: Path) -> AsyncIterator[Server]:
    ports_file, log = folder / f"{name}.ports.json", folder / f"{name}.log"
    ports_file.unlink(missing_ok=True)
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *command, "--ports-file", str(ports_file)),
            cwd=ROOT,
            env={k: v for k, v in os.environ.items() if not k.startswith("FASTSLOW_")},
            stderr=stderr,
        )
    try:
        async with asyncio.timeout(_START_S):
            while not ports_file.exists():
                if process.returncode is not None:
                    msg = f"{name} ended at its start; its log:\n{log.read_text()[-2000:]}"
                    raise RuntimeError(msg)
                await asyncio.sleep(0.05)
        port = json.loads(ports_file.read_text())["port"]
        yield Server(name=name, port=port, pid=process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
