"""Measure the service against a bare gRPC echo, interleaved in one run.

    make bench ARGS='--rate 50 --seconds 8 --runs 3'

Figures from two machines, or from one machine under different load, do not compare; the ratios
of one run do. Nothing here passes or fails by a figure. A run with dropped calls, errors,
unexpected answers or connections made under load is marked invalid and left out of the medians.
"""

# ruff: noqa: T201 - its output is for whoever called it

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from encoder_pass import forward_pass_ms
from k6_load import USERS, Load, Scenario, run_k6
from machine import load_average, machine_facts
from report import Run, markdown, summarise
from scenarios import prepare
from servers import ROOT, Server, running_echo, running_service

from slow_tier.testing import ScriptedReply, ScriptedUpstream


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=_positive, default=50, help="calls a second (50)")
    parser.add_argument("--seconds", type=_positive, default=6, help="length of one load (6)")
    parser.add_argument("--runs", type=_positive, default=3, help="rounds of all scenarios (3)")
    parser.add_argument("--quick", action="store_true", help="one round of 3 s: does it work?")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench" / "bench.json")
    parsed = parser.parse_args(arguments)
    if parsed.quick:
        parsed.seconds, parsed.runs = 3, 1
    return parsed


async def measure(load: Load, *, runs: int, folder: Path) -> dict[str, Any]:
    """Return the whole report as JSON values.

    Args:
        load: Of each run.
        runs: Rounds; each has every scenario on the baseline, then on the service.
        folder: For the servers' files.
    """
    machine = machine_facts()
    async with ScriptedUpstream(then=ScriptedReply(text="A scripted answer.")) as upstream:
        config = {
            "server": {"port": 0, "metrics_port": 0},
            "slow_tier": {"upstreams": [{"url": upstream.url, "model": "scripted"}]},
        }
        async with running_service(folder, config) as service:
            scenarios, responses, input_facts = await prepare(service.address)
            async with running_echo(folder, responses) as echo:
                done = [
                    await _run(number, scenario, load, server=server, folder=folder)
                    for number in range(1, runs + 1)
                    for scenario in scenarios
                    for server in (echo, service)
                ]
    return {
        "machine": machine,
        "load_average_after": load_average(),
        "inputs": input_facts,
        "load": {**asdict(load), "runs": runs, "users": USERS},
        "summary": summarise(done),
        "runs": [run.as_json() for run in done],
        "forward_pass_ms": forward_pass_ms(seconds_each=0.5),
    }


async def _run(number: int, scenario: Scenario, load: Load, *, server: Server, folder: Path) -> Run:
    before_s = server.cpu_s()
    result = await run_k6(scenario, load, address=server.address, folder=folder)
    used_s = server.cpu_s() - before_s
    run = Run(
        round=number,
        scenario=scenario.name,
        server=server.name,
        result=result,
        server_cpu_ms_per_call=1e3 * used_s / max(1, result.calls_in_all),
    )
    print(
        f"round {number}: {scenario.name} on {server.name}: p50 {result.latency_ms['p50']:.2f} ms"
        f"{'' if result.valid else ' (invalid)'}",
        file=sys.stderr,
    )
    return run


def main() -> None:
    """Measure, write the JSON file, print the table."""
    arguments = parse()
    load = Load(rate_per_s=arguments.rate, seconds=arguments.seconds)
    with tempfile.TemporaryDirectory(prefix="fastslow-bench-") as folder:
        document = asyncio.run(measure(load, runs=arguments.runs, folder=Path(folder)))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n")
    print(markdown(document))
    print(f"written to {arguments.out}")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        msg = f"must be at least 1, got {value}"
        raise argparse.ArgumentTypeError(msg)
    return value


if __name__ == "__main__":
    main()
