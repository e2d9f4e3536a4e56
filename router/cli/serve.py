"""Run the service: the command ``serve``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.console import ConfigOption, ExitCode, mistakes_reported
from router.errors import ConfigError

if TYPE_CHECKING:
    from router.server import Service


def serve(
    config: ConfigOption = None,
    *,
    ports_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Once serving, write the bound ports there as JSON; removed at the end.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log JSON, whatever log.format says.")
    ] = False,
) -> None:
    """Run the service until SIGTERM or SIGINT, then drain.

    It logs where it listens. With port 0 the system picks the ports, and the
    file of --ports-file tells them: {"port": 41234, "metrics_port": 41235}, the
    second one null where metrics are switched off.

    Example: python -m router serve --config fastslow.yaml
    """
    import uvloop

    from router.config import load_settings
    from router.loading import still_loading
    from router.serving import serve as run

    with mistakes_reported():
        settings = load_settings(config)
        if as_json:
            log = settings.log.model_copy(update={"format": "json"})
            settings = settings.model_copy(update={"log": log})
        with _ports_told(ports_file) as tell:
            uvloop.run(run(settings, on_serving=tell))
    if still_loading():
        # Told to stop during start. Nothing is left to free, and a model may load for a minute.
        sys.stderr.flush()
        os._exit(ExitCode.DONE)


@contextmanager
def _ports_told(file: Path | None) -> Iterator[Callable[[Service], None]]:
    """Yield what writes the ports of a started service; the file is gone before and after."""
    if file is None:
        yield lambda _: None
        return
    # Renamed into place, so that a reader never sees half of it.
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        partial.touch()
        file.unlink(missing_ok=True)
    except OSError as error:
        msg = f"--ports-file {file}: cannot be written: {error.strerror}"
        raise ConfigError(msg) from error

    def tell(service: Service) -> None:
        ports = {"port": service.port, "metrics_port": service.metrics_port}
        partial.write_text(json.dumps(ports) + "\n", encoding="ascii")
        partial.replace(file)

    try:
        yield tell
    finally:
        partial.unlink(missing_ok=True)
        file.unlink(missing_ok=True)
