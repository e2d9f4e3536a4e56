"""Label prompts for a user's own pair of models: the command ``label``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from router.cli.console import ExitCode, JsonOption, fail, mistakes_reported

if TYPE_CHECKING:
    from router.labelling.journal import Journal
    from router.labelling.prompts import Prompts
    from router.labelling.run import Results, RunSettings
    from slow_tier.upstream import Upstream
    from slow_tier.wire import Dialect

# As a shell reports a command that SIGINT ended.
_INTERRUPTED = 130

FastUrl = Annotated[
    str, typer.Option("--fast", metavar="URL", help="OpenAI-compatible server, up to the version.")
]
SlowUrl = Annotated[
    str, typer.Option("--slow", metavar="URL", help="The same; judges where a judge is needed.")
]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="Default: the only one it lists.")]
KeyEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment variable that holds the API key.")
]
DialectOption = Annotated[
    Literal["chat", "reasoning"],
    typer.Option(help="reasoning: max_completion_tokens, no temperature."),
]
TokenUsd = Annotated[
    str | None,
    typer.Option(metavar="IN:OUT", help="US dollars a million tokens; cost from token counts."),
]


def label(
    prompts: Annotated[
        Path, typer.Argument(metavar="PROMPTS", help="JSON array or JSONL of prompts.")
    ],
    *,
    fast: FastUrl,
    slow: SlowUrl,
    fast_model: Model = None,
    slow_model: Model = None,
    fast_key_env: KeyEnv = None,
    slow_key_env: KeyEnv = None,
    fast_dialect: DialectOption = "chat",
    slow_dialect: DialectOption = "chat",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Training rows, JSONL. Default: PROMPTS' .rows.jsonl."),
    ] = None,
    judge: Annotated[
        Literal["exact", "schema", "model"] | None,
        typer.Option(help="Grade all prompts this way. Default: by what a row carries."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Prompts at a time.")] = 4,
    timeout_s: Annotated[
        float, typer.Option(min=0.001, max=86_400.0, help="Deadline of one answer, seconds.")
    ] = 120.0,
    max_output_tokens: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Most tokens of one answer.")
    ] = 1024,
    max_failed_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="More failures than this: exit code 1.")
    ] = 0.1,
    fast_cost: Annotated[
        float | None, typer.Option(help="Cost of one fast answer, any unit. Default: 1.")
    ] = None,
    slow_cost: Annotated[
        float | None, typer.Option(help="Cost of one slow answer, same unit. Default: 10.")
    ] = None,
    fast_token_usd: TokenUsd = None,
    slow_token_usd: TokenUsd = None,
    artifact: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also show what this trained artifact would save."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Sent to the servers; of the intervals.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Ask both models of a pair, grade their answers, write rows to train a router on.

    A row of PROMPTS is {"text", "answer"?, "response_schema"?}. Graded by exact match where it
    carries the answer (text, or a list of right ones; ask for the bare answer in the prompt),
    by schema where it carries a JSON Schema, else by the slow model as judge: asked twice with
    the answers in both orders, and a verdict counts only when both agree. A tie scores .5 each,
    and half the weight when it comes from a contradiction; an empty answer scores 0. A judge
    likes its own answers better, so judged labels lean slow.

    The route is fast where the fast model's answer scores .5 or more. Answers are kept in
    OUT.journal as they arrive: after Ctrl-C or failures, the same command goes on from there.

    The saving is the share of the cost of sending everything slow. A perfect router knows the
    scores beforehand, so its saving is an upper bound; a random share is what no router at all
    achieves; with --artifact, what the artifact does with its own threshold, and with the best
    one for these prompts, is shown beside them. Judging costs are not counted.

    Example: python -m router label --fast http://127.0.0.1:8080/v1
    --slow https://models.example.com/v1 --slow-model large --slow-key-env MODEL_KEY prompts.jsonl
    """
    from router.labelling.journal import Journal
    from router.labelling.pricing import parse_prices
    from router.labelling.prompts import Grading, read_prompts
    from router.labelling.run import Results, RunSettings
    from router.training.row_problems import RowsError

    with mistakes_reported():
        prices = parse_prices(
            fast_cost=fast_cost,
            slow_cost=slow_cost,
            fast_tokens=fast_token_usd,
            slow_tokens=slow_token_usd,
        )
    settings = RunSettings(
        fast=_upstream("fast", fast, fast_model, fast_key_env, fast_dialect),
        slow=_upstream("slow", slow, slow_model, slow_key_env, slow_dialect),
        ask_for_models=frozenset(
            name for name, model in (("fast", fast_model), ("slow", slow_model)) if model is None
        ),
        concurrency=concurrency,
        timeout_s=timeout_s,
        max_output_tokens=max_output_tokens,
        seed=seed,
        max_failed_share=max_failed_share,
    )
    try:
        found = read_prompts(prompts, grading=None if judge is None else Grading(judge))
    except RowsError as error:
        fail(str(error), ExitCode.USAGE)
    out = out or prompts.with_name(f"{prompts.stem}.rows.jsonl")
    journal_file = out.with_name(f"{out.name}.journal")
    if out.is_dir():
        fail(f"--out {out}: is a folder", ExitCode.USAGE)
    if out.exists() and not journal_file.exists():
        # It may be the prompts themselves, or rows that someone wrote by hand.
        fail(f"--out {out}: exists and was not written by label", ExitCode.USAGE)
    results = Results(found.prompts, max_failed_share=max_failed_share)
    with mistakes_reported():
        router = None
        if artifact is not None:
            # Loaded before anything is paid for, so that a wrong name costs nothing.
            from router.laya_router import LayaRouter

            try:
                router = LayaRouter.from_pretrained(artifact)
            except ValueError as error:
                fail(f"--artifact: {error}", ExitCode.USAGE)
        with Journal(journal_file) as journal:
            interrupted = _interrupted(found, settings, journal, results)
        from router.labelling.report import summarise
        from router.labelling.routed import route_prompts

        labels = results.labels
        unasked = len(found.prompts) - len(labels) - len(results.failures)
        # Before the report, whose prices may turn out not to fit: the rows need none.
        written = _write([label.row().to_json() for label in labels], out, whole=not unasked)
        routed = None
        if router is not None and labels:
            routed = route_prompts(router, [label.prompt.text for label in labels])
        report = summarise(
            labels,
            results.failures,
            prompts=len(found.prompts),
            repeated=found.repeated,
            reused=journal.reused,
            prices=prices,
            routed=routed,
            seed=seed,
        )
    from router.cli.label_report import print_report, print_report_json

    show = print_report_json if as_json else print_report
    show(report, rows_file=str(out) if written else None)
    if interrupted:
        raise typer.Exit(_INTERRUPTED)
    if results.too_many_failed:
        raise typer.Exit(ExitCode.FAILED)


def _upstream(
    name: str, url: str, model: str | None, key_env: str | None, dialect: Dialect
) -> Upstream:
    from slow_tier.upstream import Upstream

    key = None
    if key_env is not None:
        key = os.environ.get(key_env, "").strip()
        if not key:
            fail(f"--{name}-key-env: {key_env} is empty or not set", ExitCode.USAGE)
    try:
        # A model that is to be found out needs a name until then.
        return Upstream(
            name=name,
            url=url,
            model="unknown" if model is None else model,
            api_key=key,
            dialect=dialect,
        )
    except ValueError as error:
        fail(f"--{name}: {error}", ExitCode.USAGE)


def _interrupted(found: Prompts, settings: RunSettings, journal: Journal, results: Results) -> bool:
    """Label with a progress bar; return whether Ctrl-C ended it."""
    import asyncio

    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    from router.labelling.run import run

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:-1], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("labelling", total=len(found.prompts))
        try:
            asyncio.run(
                run(
                    found.prompts,
                    settings,
                    journal=journal,
                    results=results,
                    on_progress=lambda: progress.advance(task),
                )
            )
        except KeyboardInterrupt:
            return True
    return False


def _write(rows: list[dict[str, object]], out: Path, *, whole: bool) -> bool:
    """Write the rows, unless there are none or an unfinished run has fewer than the file."""
    from router.cli.jsonl_output import write_rows

    if not rows:
        return False
    if not whole and out.exists() and out.read_bytes().count(b"\n") > len(rows):
        return False
    write_rows(out, rows)
    return True
