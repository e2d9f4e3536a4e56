"""Put an open-loop load on a gRPC server with k6, then compute latencies from intended starts.

k6's executor ``constant-arrival-rate`` starts a call every 1 / rate seconds whether or not
earlier calls have returned; when all its users are busy it drops the call and counts that. Its
own latency, ``grpc_req_duration``, runs from the moment the call is sent (``BeginTime`` of
grpc-go's stats) to the moment the status has arrived (``EndTime``), so a call that k6 sends late
looks as quick as one sent in time. k6's JSON output has every call with its end time and that
duration, from which the latency from the intended start is computed here: the n-th call sent
belongs to the n-th tick of the schedule, and the schedule starts where no call was sent early,
at the least of (sent - n / rate). That is exact up to the delay of the most punctual call, and
holds only where no call was dropped; a run with a dropped call is invalid anyway.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
USERS = 32  # calls that can be under way at once; each has a connection of its own
_LIMIT_S = 60.0  # for start, warm-up, and the last calls, beyond the load itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What to send and what has to come back.

    Attributes:
        name: Stands in the report.
        method: ``package.Service/Method``.
        requests: Request messages as JSON values, sent in turn.
        expect: Path of a field of the response with its value; ``None`` = any but empty.
    """

    name: str
    method: str
    requests: Sequence[dict[str, Any]]
    expect: tuple[tuple[str, ...], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many calls a second, for how many seconds."""

    rate_per_s: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What one run of k6 saw; latencies in milliseconds.

    Attributes:
        calls: Calls that ended in the measured part; k6 makes one more than intended.
        calls_in_all: The same with the calls before it, for the server's CPU time.
        achieved_per_s: Calls that ended well a second, from the first call's start to the
            last one's end.
        missing: Calls that were neither dropped nor ended.
        dropped: Calls never sent because all users were busy.
        errors: Calls with a status other than OK.
        wrong: Calls whose response was not the expected one.
        late_connections: Users that had to connect inside the measured part.
        latency_ms: Percentiles from the intended start to the status.
        k6_duration_ms: Percentiles from the actual start to the status, k6's own figure.
        start_delay_p99_ms: How late k6 sent calls.
        k6_cpu_s: CPU time of k6.
    """

    calls: int
    calls_in_all: int
    achieved_per_s: float
    missing: int
    dropped: int
    errors: int
    wrong: int
    late_connections: int
    latency_ms: dict[str, float]
    k6_duration_ms: dict[str, float]
    start_delay_p99_ms: float
    k6_cpu_s: float

    @property
    def valid(self) -> bool:
        """Whether every intended call was made, answered as expected, on a warm connection."""
        return not (
            self.missing or self.dropped or self.errors or self.wrong or self.late_connections
        )


async def run_k6(scenario: Scenario, load: Load, *, address: str, folder: Path) -> LoadResult:
    """Run the load in a process of its own.

    Args:
        scenario: What to send.
        load: How often.
        address: ``host:port`` of the server, plain text.
        folder: For k6's input and output.

    Raises:
        RuntimeError: If k6 is not installed or failed.
    """
    k6 = Path(sys.executable).with_name("k6")
    if not k6.exists():
        msg = f"{k6} is missing: install the bench extra (make bench does)"
        raise RuntimeError(msg)
    plan, points = folder / "plan.json", folder / "points.json"
    described = {
        "address": address,
        "proto_dir": str(HERE.parents[1] / "proto"),
        "method": scenario.method,
        "requests": list(scenario.requests),
        "expect": scenario.expect,
        "rate_per_s": load.rate_per_s,
        "seconds": load.seconds,
        "users": USERS,
    }
    plan.write_text(json.dumps(described))
    points.unlink(missing_ok=True)
    before_s = _children_cpu_s()
    process = await asyncio.create_subprocess_exec(
        *(k6, "run", "--quiet", "--no-color", "--no-usage-report", "--no-summary"),
        # Any free port for the control interface, so that two runs never meet there.
        *("--address", "127.0.0.1:0", "--out", f"json={points}", HERE / "load.js"),
        env={**os.environ, "PLAN": str(plan)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(load.seconds + _LIMIT_S):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        msg = f"k6 ended with {process.returncode}:\n{output.decode()[-2000:]}"
        raise RuntimeError(msg)
    try:
        with points.open() as lines:
            return summarise(lines, load, k6_cpu_s=_children_cpu_s() - before_s)
    except NoCallError as error:
        msg = f"k6 made no call:\n{output.decode()[-2000:]}"
        raise RuntimeError(msg) from error


class NoCallError(Exception):
    """Not one call of the measured part ended."""


def summarise(lines: Iterable[str], load: Load, *, k6_cpu_s: float) -> LoadResult:
    """Return the result of a run from k6's JSON output, one JSON object a line.

    Raises:
        NoCallError: If there is no call to speak of.
    """
    sent_s: list[float] = []
    duration_s: list[float] = []
    counts = dict.fromkeys(("dropped_iterations", "wrong_answers", "late_connections"), 0)
    errors = before = 0
    for line in lines:
        record = json.loads(line)
        if record["type"] != "Point":
            continue
        metric, data = record["metric"], record["data"]
        if metric in counts:
            counts[metric] += round(data["value"])
        elif metric != "grpc_req_duration":
            continue
        elif data["tags"]["scenario"] != "measured":
            before += 1
        else:
            took_s = data["value"] / 1e3
            duration_s.append(took_s)
            sent_s.append(datetime.fromisoformat(data["time"]).timestamp() - took_s)
            errors += data["tags"]["status"] != "0"
    if not sent_s:
        raise NoCallError
    ended_s = max(sent + took for sent, took in zip(sent_s, duration_s, strict=True))
    dropped = counts["dropped_iterations"]
    latency_s, delay_s = latencies_from_intended_start(sent_s, duration_s, load.rate_per_s)
    return LoadResult(
        calls=len(duration_s),
        calls_in_all=len(duration_s) + before,
        achieved_per_s=(len(duration_s) - errors) / (ended_s - min(sent_s)),
        missing=max(0, load.rate_per_s * load.seconds - len(duration_s) - dropped),
        dropped=dropped,
        errors=errors,
        wrong=counts["wrong_answers"],
        late_connections=counts["late_connections"],
        latency_ms=percentiles_ms(latency_s),
        k6_duration_ms=percentiles_ms(np.asarray(duration_s)),
        start_delay_p99_ms=percentiles_ms(delay_s)["p99"],
        k6_cpu_s=k6_cpu_s,
    )


def latencies_from_intended_start(
    sent_s: Sequence[float], duration_s: Sequence[float], rate_per_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return latency and delay of the start of each call, seconds, in order of sending.

    Args:
        sent_s: When each call was sent, seconds since any epoch, in any order; not empty.
        duration_s: How long it took from there, seconds.
        rate_per_s: Ticks of the schedule a second.
    """
    order = np.argsort(np.asarray(sent_s), kind="stable")
    offset_s = np.asarray(sent_s)[order] - np.arange(len(order)) / rate_per_s
    delay_s = offset_s - offset_s.min()
    return delay_s + np.asarray(duration_s)[order], delay_s


def percentiles_ms(values_s: np.ndarray) -> dict[str, float]:
    """Return p50, p95, p99 and the maximum, each one of the values; there must be some."""
    found = np.percentile(values_s * 1e3, [50, 95, 99, 100], method="inverted_cdf")
    return dict(zip(("p50", "p95", "p99", "max"), found.tolist(), strict=True))


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
