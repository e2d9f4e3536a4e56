"""Show a response to a person, or as JSON to a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from router.cli.console import printable
from router.v1 import router_pb2 as pb

_BAR_COLUMNS = 30

Row: TypeAlias = tuple[str, RenderableType]


def print_message(message: Message) -> None:
    """Print a message as protobuf JSON with the names of the contract, zeros included."""
    typer.echo(
        MessageToJson(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            ensure_ascii=False,
        )
    )


def print_route(response: pb.RouteResponse) -> None:
    """Print where a text would go and why."""
    rows = [*_decision_rows(response.decision), ("timings", _timings(response.timings))]
    Console().print(_panel("route", rows))


def print_decide(response: pb.DecideResponse) -> None:
    """Print an answer, who gave it and why."""
    decision = response.decision
    rows: list[Row] = [
        ("answered by", _word(pb.AnsweredBy.Name(response.answered_by), "ANSWERED_BY_")),
        *_decision_rows(decision),
        ("path", "\n".join(map(_step, response.path)) or "-"),
        ("timings", _timings(response.timings)),
        ("model", printable(response.model_revision) or "-"),
        ("tokens", f"{response.usage.input_tokens} read, {response.usage.output_tokens} written"),
    ]
    if response.HasField("cache_match"):
        match = response.cache_match
        rows.append(("cached", f"{match.age_s:.1f} s ago, similarity {match.similarity:.3f}"))
    if response.degraded:
        rows.append(("degraded", "a tier that should have answered could not"))
    if response.manual_review_cause:
        rows.append(("review", printable(response.manual_review_cause)))
    answer = Text(printable(response.text) or "(no text)")
    Console().print(_panel("decide", rows), Panel(answer, title="answer", title_align="left"))


def _decision_rows(decision: pb.Decision) -> Iterator[Row]:
    yield "tier", _word(pb.Tier.Name(decision.tier), "TIER_")
    yield "reason", _word(pb.Reason.Name(decision.reason), "REASON_")
    yield "probabilities", _bars(sorted(decision.probabilities.items()))
    yield "threshold", f"{decision.threshold:.3f}"
    yield "temperature", f"{decision.sampling_temperature:.2f}"
    p50, p95 = decision.expected_output_tokens, decision.expected_output_tokens_p95
    yield "expected", f"{p50} tokens (95 %: {p95})"
    yield "revisions", f"encoder {decision.encoder_revision}, config {decision.config_revision}"


def _bars(probabilities: Iterable[tuple[str, float]]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for name, probability in probabilities:
        bar = Bar(1.0, 0.0, probability, width=_BAR_COLUMNS)
        table.add_row(name, f"{probability:.3f}", bar)
    return table


def _step(step: pb.PathStep) -> str:
    words = [
        _word(pb.Tier.Name(step.tier), "TIER_"),
        step.upstream,
        _word(pb.StepOutcome.Name(step.outcome), "STEP_OUTCOME_"),
        f"{step.elapsed_ns / 1e6:.1f} ms",
        step.detail,
    ]
    return " ".join(filter(None, words))


def _timings(timings: pb.Timings) -> str:
    spent = [
        f"{field.name.removesuffix('_ns').replace('_', ' ')} {value / 1e6:.2f}"
        for field, value in timings.ListFields()
    ]
    return ", ".join(spent) + " ms" if spent else "-"


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix)


def _panel(title: str, rows: Iterable[Row]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    for name, value in rows:
        table.add_row(name, Text(value) if isinstance(value, str) else value)
    return Panel(Group(table), title=title, title_align="left")
