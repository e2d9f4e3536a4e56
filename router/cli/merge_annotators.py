"""Join several people's labels: the command ``merge-annotators``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.cli.console import ExitCode, JsonOption, fail, print_json

if TYPE_CHECKING:
    from router.training.annotators import Merge

_SHOWN_PLACES = 20


def merge_annotators(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Each one person's rows, JSON array or JSONL."),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the merged rows go, as JSONL; else to stdout."),
    ] = None,
    routes: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME", help="Allowed routes, so that a typing error makes no new one."
        ),
    ] = None,
    tie_route: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Route of a tie that includes it. Default: slow."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Average several people's labels of the same texts into training rows.

    A row is {"text", "route", "temperature"?, "weight"?, "tools"?}. The majority names the
    route, temperatures are averaged, and the weight becomes the share of the people who
    labelled the text and chose that route: 2 of 3 give 0.667. A text that one person labelled
    keeps its own weight. A tie between routes that include --tie-route becomes that route with
    its share as weight; any other tie is left out and named.

    The report says how far people agree: Krippendorff's alpha, 1 = always, 0 = as by chance;
    from .8 up labels are called reliable, under .667 they are not. It goes to standard error
    where the rows go to standard output.

    Example: python -m router merge-annotators anna.jsonl ben.jsonl carla.jsonl --out rows.jsonl
    """
    from router.cli.jsonl_output import jsonl, write_rows
    from router.training.annotators import TIE_ROUTE, merge_files
    from router.training.row_problems import RowsError

    allowed = None if routes is None else [name.strip() for name in routes.split(",")]
    if allowed is not None and not all(allowed):
        fail("--routes: must be names with commas between them", ExitCode.USAGE)
    if tie_route is not None and allowed is not None and tie_route not in allowed:
        fail("--tie-route: is none of --routes", ExitCode.USAGE)
    if out is None and as_json:
        fail("--json prints the report, so the rows need --out FILE", ExitCode.USAGE)
    if out is not None and any(file.resolve() == out.resolve() for file in files):
        fail(f"--out {out}: is one of the files to merge", ExitCode.USAGE)
    try:
        merge = merge_files(files, routes=allowed, tie_route=tie_route or TIE_ROUTE)
    except RowsError as error:
        fail(str(error), ExitCode.USAGE)
    rows = [row.to_json() for row in merge.rows]
    if out is not None:
        write_rows(out, rows)
    else:
        typer.echo(jsonl(rows), nl=False)
    if as_json:
        print_json(_as_json(merge))
    else:
        _print_report(merge, to_stderr=out is None)


def _as_json(merge: Merge) -> dict[str, Any]:
    return {
        "rows": len(merge.rows),
        "routes": _routes(merge),
        "texts": merge.texts,
        "labelled_twice": merge.labelled_twice,
        "unanimous": merge.unanimous,
        "ties_to_tie_route": merge.ties_to_tie_route,
        "left_out": [str(place) for place in merge.left_out],
        "route_alpha": merge.route_alpha,
        "temperature_alpha": merge.temperature_alpha,
        "annotators": [
            {
                "file": str(each.file),
                "texts": each.texts,
                "shared": each.shared,
                "agreed": each.agreed,
            }
            for each in merge.annotators
        ],
    }


def _print_report(merge: Merge, *, to_stderr: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=to_stderr, highlight=False, markup=False)
    table = Table("annotator", "texts", "shared", "with the merged route")
    for each in merge.annotators:
        share = f"{each.agreed / each.shared:.1%}" if each.shared else "-"
        table.add_row(str(each.file), str(each.texts), str(each.shared), share)
    console.print(table)
    counts = ", ".join(f"{name} {count}" for name, count in _routes(merge).items())
    alphas = f"routes {_figure(merge.route_alpha)}, temperatures {_figure(merge.temperature_alpha)}"
    lines = [
        f"{len(merge.rows)} rows of {merge.texts} texts: {counts or 'none'}",
        f"{merge.labelled_twice} texts have several annotators, who agree on {merge.unanimous}",
        f"Krippendorff's alpha: {alphas}",
    ]
    if merge.ties_to_tie_route:
        lines.append(f"{merge.ties_to_tie_route} ties became the tie route")
    if merge.left_out:
        lines.append(f"{len(merge.left_out)} ties have no majority and are left out:")
        lines += [f"  {place}" for place in merge.left_out[:_SHOWN_PLACES]]
        if len(merge.left_out) > _SHOWN_PLACES:
            lines.append(f"  ... and {len(merge.left_out) - _SHOWN_PLACES} more, see --json")
    if len(_routes(merge)) == 1:
        lines.append("every row has one route; training takes at least two")
    for line in lines:
        console.print(line, soft_wrap=True)


def _routes(merge: Merge) -> dict[str, int]:
    return dict(sorted(Counter(row.route for row in merge.rows).items()))


def _figure(alpha: float | None) -> str:
    return "undefined" if alpha is None else f"{alpha:.3f}"
