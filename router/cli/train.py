"""Train a router on a user's own rows: the command ``train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from router.cli.console import ExitCode, JsonOption, fail, mistakes_reported, print_json

# As a shell reports a command that SIGINT ended.
_INTERRUPTED = 130


def train(
    rows: Annotated[
        list[Path], typer.Argument(metavar="ROWS...", help="JSON arrays or JSONL of labelled rows.")
    ],
    *,
    base: Annotated[
        str,
        typer.Option(metavar="BASE", help="Registered name, artifact or ModernBERT folder."),
    ] = "laya-base",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new artifact.")],
    routes: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Allowed routes, in this order. Default: the rows'."),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The artifact's. Default: that of --out.")
    ] = "",
    languages: Annotated[
        str,
        typer.Option(metavar="EN,...", help="ISO 639-1 codes. Default: the base's, else en."),
    ] = "",
    unfreeze_last: Annotated[
        int,
        typer.Option(min=0, help="Also train the encoder's last N layers; 2 from 10,000 rows on."),
    ] = 0,
    lora: Annotated[
        int,
        typer.Option(min=0, metavar="RANK", help="Also train all layers by LoRA of this rank."),
    ] = 0,
    head_lr: Annotated[
        float | None,
        typer.Option(help="Rate of the route heads. Default: 2e-5; 5e-4 when only heads train."),
    ] = None,
    regression_lr: Annotated[
        float | None,
        typer.Option(help="Of temperature and gain. Default: 1e-5; 2.5e-4 when only heads train."),
    ] = None,
    encoder_lr: Annotated[
        float | None, typer.Option(help="Of the encoder. Default: 1e-5; 2e-4 with --lora.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="At most; 3 to 5 do for most.")] = 5,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows a step.")] = 16,
    warmup_ratio: Annotated[
        float, typer.Option(help="Share of the steps with rising rates.")
    ] = 0.1,
    weight_decay: Annotated[float, typer.Option(help="Of AdamW.")] = 0.01,
    max_length: Annotated[
        int, typer.Option(min=16, help="Tokens a row; longer ones are read head and tail.")
    ] = 128,
    clip_norm: Annotated[float, typer.Option(help="Largest norm of a gradient.")] = 1.0,
    patience: Annotated[
        int, typer.Option(min=1, help="Epochs without a lower dev loss before stopping.")
    ] = 3,
    quantisation: Annotated[
        Literal["auto", "dynamic", "static", "none"],
        typer.Option(help="auto: dynamic int8, and static int8 where that loses too much."),
    ] = "auto",
    max_auc_loss: Annotated[
        float, typer.Option(help="Refuse a quantised graph that loses more of a route's AUC.")
    ] = 0.005,
    complex_to_fast: Annotated[
        float, typer.Option(min=0.0, help="For the threshold: cost of a wrong fast.")
    ] = 10.0,
    simple_to_slow: Annotated[
        float, typer.Option(min=0.0, help="For the threshold: cost of a needless slow.")
    ] = 1.0,
    device: Annotated[str, typer.Option(help="Torch device of the training.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, max=256, help="CPU threads.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of everything random.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact at --out.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train routes of your own on labelled rows; write an artifact that serves them.

    A row is {"text", "route", "temperature"?, "weight"?, "tools"?, "weak_score"?,
    "strong_score"?}; `label` and `merge-annotators` write such rows. The hash of its text puts a
    row into train (70 %), dev (10 %) or test (20 %). Routes are names of your own, two or more;
    the configuration's `routes` says which tier each leads to.

    By default the encoder stays as it is and only the heads train, which suits a few hundred to
    some thousand rows and leaves cached embeddings valid in kind. Routes, temperature and strong
    gain (strong minus weak score) are learnt from rows that carry them; answer length stays the
    base's. Then, in the same run: calibration, threshold and outlier detector on your rows,
    export, int8, AUC and accuracy of both precisions on dev and test.

    Nothing appears at --out before all of it is done; Ctrl-C leaves nothing behind.

    Example: python -m router train rows.jsonl --base laya-base --out my-router
    """
    from router.training.row_problems import RowsError
    from router.training.user_rows import read_user_rows

    order = _listed(routes)
    if order is not None and len(order) < 2:
        fail("--routes: names fewer than two routes", ExitCode.USAGE)
    if order is not None and len(set(order)) != len(order):
        fail("--routes: names a route twice", ExitCode.USAGE)
    try:
        found = read_user_rows(*rows, routes=order)
    except RowsError as error:
        fail(str(error), ExitCode.USAGE)
    try:
        import torch

        from router.evaluation.threshold import CostMatrix
        from router.training.recipe import Recipe
        from router.training.train_settings import TrainSettings
        from router.training.user_training import train as run
    except ModuleNotFoundError as error:
        msg = f"{error.name} is not installed; pip install -e '.[train]' brings it"
        fail(msg, ExitCode.USAGE)
    torch.set_num_threads(threads)
    try:
        # The device "meta" makes tensors, which hold nothing.
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, ValueError):
        fail(f"--device {device}: torch has no such device here", ExitCode.USAGE)
    try:
        settings = TrainSettings(
            base=base,
            out=out,
            recipe=Recipe(
                epochs=epochs,
                batch_rows=batch_size,
                head_lr=head_lr,
                regression_lr=regression_lr,
                encoder_lr=encoder_lr,
                unfreeze_last=unfreeze_last,
                lora_rank=lora,
                warmup_ratio=warmup_ratio,
                weight_decay=weight_decay,
                clip_norm=clip_norm,
                patience=patience,
                max_tokens=max_length,
                seed=seed,
            ),
            name=name,
            languages=tuple(_listed(languages) or ()),
            quantisation=quantisation,
            max_auc_loss=max_auc_loss,
            cost_matrix=CostMatrix(complex_to_fast=complex_to_fast, simple_to_slow=simple_to_slow),
            device=device,
            threads=threads,
            force=force,
        )
    except ValueError as error:
        fail(str(error), ExitCode.USAGE)
    try:
        with mistakes_reported():
            report = run(found, settings, routes=order)
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was written", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if as_json:
        print_json(report)
    else:
        _print_report(report, out)


def _listed(names: str | None) -> list[str] | None:
    if not names:
        return None
    return [name.strip() for name in names.split(",") if name.strip()]


def _print_report(report: dict[str, Any], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    shipped = report["quantisation"]
    precision = "fp32" if shipped == "none" else f"{shipped} int8"
    table = Table(
        "route",
        "split",
        "rows",
        "AUC fp32",
        f"AUC {precision}",
        "accuracy fp32",
        f"accuracy {precision}",
    )
    for split, full in report["fp32"].items():
        small = report["shipped"][split]
        for route, figures in full["routes"].items():
            other = small["routes"][route]
            values = (figures["auc"], other["auc"], figures["accuracy"], other["accuracy"])
            table.add_row(route, split, str(figures["rows"]), *map(_decimal, values))
        table.add_row(
            "all",
            split,
            str(full["rows"]),
            "",
            "",
            _decimal(full["accuracy"]),
            _decimal(small["accuracy"]),
        )
    console = Console(highlight=False, markup=False)
    console.print(table)
    rows = report["rows"]
    epochs = f"epoch {report['best_epoch']} kept of {len(report['dev_loss'])}"
    lines = [f"{rows['train']} training rows, {epochs}, {report['seconds']:g} s"]
    at = report["at_threshold"]
    reached = f"{_decimal(at['coverage'])} of the {at['split']} rows go {at['where']}"
    right = f"of those {_decimal(at['accuracy'])} rightly"
    lines.append(f"at threshold {report['threshold']:g}, {reached}, {right}")
    if temperature := report["temperature"]:
        lines.append(f"temperature: mean absolute error {temperature['mean_absolute_error']:.3f}")
    lines += [*report["notes"], f"artifact: {out}"]
    for line in lines:
        console.print(line, soft_wrap=True)


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
