"""Show what a labelling run came to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from router.cli.console import print_json, printable
from router.labelling.report import Report
from router.labelling.saving import Estimate

_SHOWN_FAILURES = 20
# From here on the judge's word is mostly about order.
_UNSTEADY_SHARE = 0.3


def print_report_json(report: Report, *, rows_file: str | None) -> None:
    """Print a report for machines."""
    content: dict[str, Any] = asdict(report)
    content["failures"] = [str(failure) for failure in report.failures]
    content["labelled"], content["unasked"] = report.labelled, report.unasked
    content["rows_file"] = rows_file
    print_json(content)


def print_report(report: Report, *, rows_file: str | None) -> None:
    """Print a report for people."""
    console = Console(highlight=False, markup=False)
    for line in _lines(report, rows_file):
        console.print(printable(line), soft_wrap=True)
    if report.savings:
        console.print(_savings(report))


def _lines(report: Report, rows_file: str | None) -> Iterator[str]:
    routes = ", ".join(f"{name} {count}" for name, count in report.routes.items())
    yield f"{report.labelled} of {report.prompts} prompts labelled: {routes or 'none'}"
    if rows_file is not None:
        yield f"rows are in {rows_file}"
    gradings = ", ".join(f"{name} {count}" for name, count in report.gradings.items())
    if gradings:
        yield f"graded by: {gradings}"
        yield f"mean score: fast {report.fast_score:.3f}, slow {report.slow_score:.3f}"
    if report.judged:
        share = report.contradictions / report.judged
        # A tie costs no quality, so a judge that sees no difference makes routing look free.
        advice = (
            "; the savings below are too high, judge with a stronger model"
            if share >= _UNSTEADY_SHARE
            else ""
        )
        yield (
            f"the judge contradicted itself when the order was swapped on "
            f"{report.contradictions} of {report.judged}{advice}"
        )
    for name, count in report.cut.items():
        if count:
            yield f"{count} answers of {name} were cut at --max-output-tokens"
    if report.repeated:
        yield f"{report.repeated} rows repeat an earlier one and were left out"
    if report.reused:
        yield f"{report.reused} answers were known from an earlier run"
    if report.uncounted:
        yield f"{report.uncounted} answers without token counts got their model's mean cost"
    yield from _failures(report)
    if report.unasked:
        yield f"{report.unasked} prompts are left; run the same command again to go on"


def _failures(report: Report) -> Iterator[str]:
    if not report.failures:
        return
    yield f"{len(report.failures)} prompts failed; run the same command again to retry them:"
    for failure in report.failures[:_SHOWN_FAILURES]:
        yield f"  {failure}"
    if len(report.failures) > _SHOWN_FAILURES:
        yield f"  ... and {len(report.failures) - _SHOWN_FAILURES} more, see --json"


def _savings(report: Report) -> Table:
    table = Table(
        "rule",
        "sent fast",
        "saving",
        "quality change, points",
        title=f"Saving over sending all {report.labelled} prompts slow ({report.price}), "
        "with 95 % intervals",
        title_justify="left",
    )
    for each in report.savings:
        result = each.result
        table.add_row(
            each.rule,
            f"{result.fast_share.value:.1%}",
            _shown(result.saving, "{:.1%}"),
            _shown(result.quality_change, "{:+.1f}", scale=100.0),
        )
    return table


def _shown(estimate: Estimate, form: str, *, scale: float = 1.0) -> str:
    value = form.format(estimate.value * scale)
    if estimate.low is None or estimate.high is None:
        return value
    low, high = (form.format(end * scale) for end in (estimate.low, estimate.high))
    return f"{value} ({low} to {high})"
