"""Turn runs into ratios and a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k6_load import LoadResult

_PERCENTILES = ("p50", "p95", "p99")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One load on one server.

    Attributes:
        round: Runs of one round lie next to each other in time, so they are compared.
        scenario: Name of the scenario.
        server: ``service`` or ``echo``.
        result: What k6 saw.
        server_cpu_ms_per_call: CPU time of the server by the calls it answered.
    """

    round: int
    scenario: str
    server: str
    result: LoadResult
    server_cpu_ms_per_call: float

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**asdict(self), "valid": self.result.valid}

    def figures(self) -> dict[str, float]:
        """Return what is compared: percentiles of the latency and CPU time, milliseconds."""
        latency_ms = self.result.latency_ms
        return {
            **{f"{name}_ms": latency_ms[name] for name in _PERCENTILES},
            "server_cpu_ms_per_call": self.server_cpu_ms_per_call,
        }


def summarise(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return, by scenario, medians of both servers and of the ratios service / echo.

    A ratio is taken inside a round; a round counts only where both its runs are valid. Without
    any such round a scenario has no figures.
    """
    summary: dict[str, dict[str, Any]] = {}
    for scenario in dict.fromkeys(run.scenario for run in runs):
        rounds: dict[int, dict[str, Run]] = {}
        for run in runs:
            if run.scenario == scenario:
                rounds.setdefault(run.round, {})[run.server] = run
        valid = [pair for pair in rounds.values() if all(run.result.valid for run in pair.values())]
        service = [pair["service"].figures() for pair in valid]
        echo = [pair["echo"].figures() for pair in valid]
        ratios = [
            {name: mine[name] / theirs[name] if theirs[name] else None for name in mine}
            for mine, theirs in zip(service, echo, strict=True)
        ]
        summary[scenario] = {
            "rounds": len(rounds),
            "valid_rounds": len(valid),
            "service": _medians(service),
            "echo": _medians(echo),
            "ratio": _medians(ratios),
        }
    return summary


def _medians(rows: Iterable[dict[str, Any]]) -> dict[str, float | None]:
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, [])
            if value is not None:
                columns[name].append(value)
    return {name: statistics.median(v) if v else None for name, v in columns.items()}


def markdown(document: dict[str, Any]) -> str:
    """Return the table for people; `document` is what the JSON file holds."""
    machine, load = document["machine"], document["load"]
    conditions = (
        f"{machine['cpu_model']}, {machine['cores']} cores, load average "
        f"{machine['load_average'][0]} before and {document['load_average_after'][0]} after; "
        f"{load['rate_per_s']} calls/s for {load['seconds']} s, {load['runs']} round(s)."
    )
    lines = [
        conditions,
        "Latency in ms from the intended start; medians over the valid rounds.",
        "",
        "| scenario | server | p50 | p95 | p99 | server CPU ms/call | valid rounds |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for scenario, row in document["summary"].items():
        for server, digits in (("service", 2), ("echo", 2), ("ratio", 1)):
            cells = [_cell(row[server].get(name), digits) for name in _COLUMNS]
            valid = f"{row['valid_rounds']}/{row['rounds']}"
            name = "service / echo" if server == "ratio" else server
            lines.append(f"| {scenario} | {name} | {' | '.join(cells)} | {valid} |")
    lines += [
        "",
        "| encoder's forward pass alone, tokens | p50 ms | p95 ms |",
        "| ---: | ---: | ---: |",
    ]
    for tokens, row in document["forward_pass_ms"].items():
        lines.append(f"| {tokens} | {_cell(row['p50'], 2)} | {_cell(row['p95'], 2)} |")
    lines += ["", *_invalid(document["runs"])]
    return "\n".join(lines).rstrip() + "\n"


_COLUMNS = ("p50_ms", "p95_ms", "p99_ms", "server_cpu_ms_per_call")


def _cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _invalid(runs: Iterable[dict[str, Any]]) -> list[str]:
    """Return a line for every invalid run."""
    return [
        f"INVALID: round {run['round']}, {run['scenario']} on {run['server']}: "
        + ", ".join(
            f"{run['result'][name]} {name}"
            for name in ("calls", "missing", "dropped", "errors", "wrong", "late_connections")
        )
        for run in runs
        if not run["valid"]
    ]
