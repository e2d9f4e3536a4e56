"""Measure a router artifact against baselines: the command ``evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer

from router.cli.console import ExitCode, JsonOption, fail, mistakes_reported, print_json


def evaluate(
    artifact: Annotated[
        str, typer.Argument(metavar="ARTIFACT", help="Registered name or artifact folder.")
    ] = "laya-base",
    *,
    data: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Public data sets, laid out as router/training says."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where report.md, .json and .html go.")
    ] = Path("build/evaluation"),
    work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="What later runs reuse. Default: OUT/work."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SECTION", help="Only this section; may be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few rows of everything, to try it out.")
    ] = False,
    complex_to_fast: Annotated[
        float, typer.Option(help="Cost of sending fast what the weak model fails on.")
    ] = 10.0,
    simple_to_slow: Annotated[
        float, typer.Option(help="Cost of sending slow what the weak model masters.")
    ] = 1.0,
    resamples: Annotated[
        int | None,
        typer.Option(min=2, max=100_000, help="Bootstrap resamples. Default: 1000, quick: 50."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of everything random.")] = 0,
    device: Annotated[str, typer.Option(help="Torch device of the teacher.")] = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Measure an artifact, as shipped, on rows held out of training, beside baselines.

    Baselines are fitted in the same run; one whose library is missing is named in the report
    (the extras train and bench bring them all). Every figure has a 95 % interval, every
    difference to a baseline is paired. The report ends with the project's targets.

    Example: python -m router evaluate --data ../data
    """
    from router.evaluation.bootstrap import Resampling
    from router.evaluation.run import evaluate as run
    from router.evaluation.settings import QUICK_RESAMPLES, Settings
    from router.evaluation.subject import Subject
    from router.evaluation.threshold import CostMatrix

    try:
        settings = Settings(
            data=data,
            work=work or out / "work",
            resampling=Resampling(
                resamples=resamples or (QUICK_RESAMPLES if quick else Resampling().resamples),
                seed=seed,
            ),
            cost_matrix=CostMatrix(complex_to_fast=complex_to_fast, simple_to_slow=simple_to_slow),
            quick=quick,
            device=device,
        )
    except ValueError as error:
        fail(str(error), ExitCode.USAGE)
    for option, folder in (("--out", out), ("--work", settings.work)):
        _check_writable(option, folder)
    with mistakes_reported():
        subject = Subject.load(artifact)
    try:
        report = run(subject, settings, only=only or ())
    except (OSError, ValueError) as error:
        fail(str(error), ExitCode.USAGE)
    finally:
        subject.close()
    _write(report, out)
    if as_json:
        print_json(report["targets"])
    else:
        _print_targets(report["targets"], out)


def _check_writable(option: str, folder: Path) -> None:
    """End the command where nothing can be written, rather than after hours of measuring."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fail(f"{option} {folder}: cannot be written: {error.strerror}", ExitCode.USAGE)


def _write(report: dict[str, Any], out: Path) -> None:
    from router.evaluation.html import page
    from router.evaluation.markdown import markdown
    from router.evaluation.report_document import document

    blocks = document(report)
    texts = {
        "report.json": json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "report.md": markdown(blocks),
        "report.html": page(blocks, title=f"Evaluation of {report['artifact']['name']}"),
    }
    try:
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        fail(f"--out {out}: cannot be written: {error.strerror}", ExitCode.USAGE)


def _print_targets(targets: list[dict[str, Any]], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from router.evaluation.figures import figure_text, target_text

    table = Table("what", "target", "measured", "met")
    for row in targets:
        met = {True: "yes", False: "no", None: "-"}[row["met"]]
        table.add_row(row["what"], target_text(row), figure_text(row["measured"]), met)
    console = Console(highlight=False, markup=False)
    console.print(table)
    console.print(f"report: {out / 'report.html'}", soft_wrap=True)
