"""Assemble the command line: ``python -m router``, also installed as ``fastslow``.

``--help`` has to answer at once, so a command imports what it needs in its body; importing
this package costs typer and nothing else.
"""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli.ask import decide, route
from router.cli.check_config import check_config
from router.cli.doctor import doctor
from router.cli.evaluate import evaluate
from router.cli.label import label
from router.cli.merge_annotators import merge_annotators
from router.cli.serve import serve
from router.cli.train import train

app = typer.Typer(
    name="fastslow",
    epilog="Exit codes: 0 done, 1 it failed, 2 wrong usage or configuration.",
    no_args_is_help=True,
    add_completion=False,
    # A traceback is for bugs, and then it must not show local variables: they hold user text.
    pretty_exceptions_enable=False,
)


@app.callback()
def common(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Two-tier routing: answer from the cache, the fast tier or the slow tier."""
    if version:
        from importlib.metadata import version as version_of

        typer.echo(version_of("fastslow"))
        raise typer.Exit


app.command("serve")(serve)
app.command("check-config")(check_config)
app.command("route")(route)
app.command("decide")(decide)
app.command("doctor")(doctor)
app.command("evaluate")(evaluate)
app.command("train")(train)
app.command("label")(label)
app.command("merge-annotators")(merge_annotators)


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    app()
