"""Find out whether the service would run here: the command ``doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from router.cli.console import (
    ConfigOption,
    ExitCode,
    JsonOption,
    mistakes_reported,
    print_json,
)

if TYPE_CHECKING:
    from router.cli.checks import Check


def doctor(config: ConfigOption = None, *, as_json: JsonOption = False) -> None:
    """Check versions, checksums, a decision, the cache, the ports, the upstreams.

    Each check is ok, a warning or failed, with what to do; exit code 1 when one failed.

    Example: python -m router doctor --config fastslow.yaml
    """
    import asyncio

    from router.config import load_settings

    with mistakes_reported():
        settings = load_settings(config)

    from router.cli.checks import Status, all_checks

    async def run() -> list[Check]:
        return [check async for check in all_checks(settings)]

    found = asyncio.run(run())
    if as_json:
        print_json({"checks": [asdict(check) for check in found]})
    else:
        _print_table(found)
    if any(check.status is Status.FAILED for check in found):
        raise typer.Exit(ExitCode.FAILED)


def _print_table(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    styles = {"ok": "green", "warning": "yellow", "failed": "bold red"}
    table = Table("check", "status", "found")
    for check in checks:
        found = Text(check.detail)
        if check.remedy:
            found.append(f"\n-> {check.remedy}", style="bold")
        table.add_row(check.name, Text(check.status.value, style=styles[check.status]), found)
    Console().print(table)
