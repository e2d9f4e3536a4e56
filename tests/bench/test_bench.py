"""The arithmetic of the benchmark, then the whole of it in short; never its figures."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def k6_load(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    return importlib.import_module("k6_load")


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    return importlib.import_module("report")


def point(metric: str, *, ended_s: float = 0.0, value: float = 1.0, **tags: str) -> str:
    """Return a line of k6's JSON output."""
    ended = datetime.fromtimestamp(ended_s, UTC).isoformat()
    data = {"time": ended, "value": value, "tags": {"scenario": "measured", **tags}}
    return json.dumps({"type": "Point", "metric": metric, "data": data})


def call(*, sent_s: float, took_s: float, status: str = "0", scenario: str = "measured") -> str:
    return point(
        "grpc_req_duration",
        ended_s=sent_s + took_s,
        value=took_s * 1e3,
        status=status,
        scenario=scenario,
    )


def test_a_call_sent_late_is_charged_with_its_delay(k6_load) -> None:
    # Ten ticks a second from t = 100.0; the third call was held back by 0.25 s, then the fourth
    # was sent with it, 0.15 s late.
    latency_s, delay_s = k6_load.latencies_from_intended_start(
        [100.0, 100.1, 100.45, 100.45], [0.01, 0.01, 0.02, 0.01], 10
    )
    assert delay_s.tolist() == pytest.approx([0.0, 0.0, 0.25, 0.15])
    assert latency_s.tolist() == pytest.approx([0.01, 0.01, 0.27, 0.16])


def test_calls_are_matched_to_ticks_in_the_order_they_were_sent(k6_load) -> None:
    # k6 reports calls when they end: the slow first one comes last.
    latency_s, _ = k6_load.latencies_from_intended_start([5.5, 5.0], [0.1, 2.0], 2)
    assert latency_s.tolist() == pytest.approx([2.0, 0.1])


def test_the_schedule_starts_where_no_call_was_sent_early(k6_load) -> None:
    # The first call is the late one: its tick was at 0.0, told by the second, sent at 1.0.
    _, delay_s = k6_load.latencies_from_intended_start([0.4, 1.0], [0.1, 0.1], 1)
    assert delay_s.tolist() == pytest.approx([0.4, 0.0])


def test_calls_before_the_load_count_for_cpu_time_alone(k6_load) -> None:
    lines = [
        json.dumps({"type": "Metric", "metric": "grpc_req_duration", "data": {}}),
        call(sent_s=0.0, took_s=9.0, scenario="connect"),
        call(sent_s=10.0, took_s=0.25),
        call(sent_s=11.0, took_s=0.5),
    ]
    result = k6_load.summarise(lines, k6_load.Load(rate_per_s=1, seconds=2), k6_cpu_s=0.5)
    assert (result.calls, result.calls_in_all) == (2, 3)
    assert result.latency_ms["max"] == pytest.approx(500.0)
    assert result.achieved_per_s == pytest.approx(2 / 1.5)
    assert result.valid


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("dropped", [call(sent_s=0, took_s=1), point("dropped_iterations")]),
        ("missing", [call(sent_s=0, took_s=1)]),
        ("errors", [call(sent_s=0, took_s=1), call(sent_s=1, took_s=1, status="14")]),
        (
            "wrong",
            [call(sent_s=0, took_s=1), call(sent_s=1, took_s=1), point("wrong_answers")],
        ),
        (
            "late_connections",
            [call(sent_s=0, took_s=1), call(sent_s=1, took_s=1), point("late_connections")],
        ),
    ],
)
def test_a_run_with_any_blemish_is_invalid_and_counts_it(k6_load, name, lines) -> None:
    result = k6_load.summarise(lines, k6_load.Load(rate_per_s=1, seconds=2), k6_cpu_s=0.0)
    assert not result.valid
    blemishes = ("dropped", "missing", "errors", "wrong", "late_connections")
    assert {key: getattr(result, key) for key in blemishes} == {
        **dict.fromkeys(blemishes, 0),
        name: 1,
    }


def test_a_run_without_a_call_has_no_result(k6_load) -> None:
    with pytest.raises(k6_load.NoCallError):
        k6_load.summarise([], k6_load.Load(rate_per_s=1, seconds=1), k6_cpu_s=0.0)


def test_ratios_are_taken_inside_a_round_and_skip_invalid_ones(k6_load, report) -> None:
    def run(number: int, server: str, latency_ms: float, *, errors: int = 0):
        figures = {"p50": latency_ms, "p95": latency_ms, "p99": latency_ms, "max": latency_ms}
        result = k6_load.LoadResult(
            calls=10,
            calls_in_all=10,
            achieved_per_s=1.0,
            missing=0,
            dropped=0,
            errors=errors,
            wrong=0,
            late_connections=0,
            latency_ms=figures,
            k6_duration_ms=figures,
            start_delay_p99_ms=0.0,
            k6_cpu_s=0.0,
        )
        return report.Run(
            round=number, scenario="route", server=server, result=result, server_cpu_ms_per_call=0.0
        )

    # Ratios by round: 4, 2, 3; ratio of the medians would be 8 / 4 = 2. The fourth is invalid.
    runs = [
        *(run(1, "echo", 1.0), run(1, "service", 4.0)),
        *(run(2, "echo", 4.0), run(2, "service", 8.0)),
        *(run(3, "echo", 5.0), run(3, "service", 15.0)),
        *(run(4, "echo", 1.0), run(4, "service", 99.0, errors=1)),
    ]
    row = report.summarise(runs)["route"]
    assert row["ratio"]["p50_ms"] == pytest.approx(3.0)
    assert row["ratio"]["server_cpu_ms_per_call"] is None  # the echo's CPU time was too short
    assert (row["rounds"], row["valid_rounds"]) == (4, 3)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_quick_run_writes_a_whole_report(tmp_path) -> None:
    out = tmp_path / "bench.json"
    command = [sys.executable, HERE / "run.py", "--quick", "--rate", "20", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(out.read_text())
    assert document["machine"]["cores"] >= 1
    assert document["load"] == {"rate_per_s": 20, "seconds": 3, "runs": 1, "users": 32}
    assert [(run["scenario"], run["server"]) for run in document["runs"]] == [
        ("route", "echo"),
        ("route", "service"),
        ("decide_exact_hit", "echo"),
        ("decide_exact_hit", "service"),
    ]
    for run in document["runs"]:
        # How quick it was is the machine's business, whether it was answered is ours.
        assert run["result"]["errors"] == run["result"]["wrong"] == 0
        assert all(math.isfinite(v) and v > 0 for v in run["result"]["latency_ms"].values())
    assert set(document["summary"]) == {"route", "decide_exact_hit"}
    assert set(document["forward_pass_ms"]) == {"8", "16", "32", "128"}
    assert "| route | service / echo |" in done.stdout
