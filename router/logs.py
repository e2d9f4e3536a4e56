"""Write structured logs that hold nothing a user typed.

Exceptions are logged as types with the places they came through: their messages often quote
their input. That holds for the libraries' own records, too.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

from router.config import LogConfig

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_MOST_CAUSES = 8


def configure_logs(config: LogConfig, *, stream: TextIO | None = None) -> None:
    """Set structlog and the standard library's logging up, once a process.

    Args:
        config: Level and form.
        stream: Where lines go; ``None`` = standard error.
    """
    stream = stream or sys.stderr
    level = _LEVELS[config.level]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        without_exception_text,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if config.format == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared, _library_record],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            # Formatting could fail, and the standard library would print the arguments then.
            use_get_message=False,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # A library's debug records may quote what passes through it.
    root.setLevel(max(level, logging.WARNING))


def without_exception_text(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace ``exc_info`` by types and frames."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exceptions"] = exception_chain(error)
    return event


def exception_chain(error: BaseException) -> list[dict[str, Any]]:
    """Return type and frames of an exception and its causes, outermost first, no messages."""
    chain: list[dict[str, Any]] = []
    current: BaseException | None = error
    while current is not None and len(chain) < _MOST_CAUSES:
        frames = [
            f"{frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(current.__traceback__)
        ]
        chain.append({"type": type(current).__qualname__, "frames": frames})
        suppressed = current.__suppress_context__
        current = current.__cause__ or (None if suppressed else current.__context__)
    return chain


def _library_record(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Keep the first line of a library's template, without the arguments.

    Arguments, and the ``repr`` of tasks that asyncio writes into the further lines, may quote
    what passes through. So does a message that is no template but, for instance, an exception.
    """
    message = event["_record"].msg
    event["event"] = (
        message.partition("\n")[0] if isinstance(message, str) else type(message).__qualname__
    )
    return event


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle what no task of the event loop did: its own handler quotes callbacks' arguments."""
    error = context.get("exception")
    exceptions = exception_chain(error) if isinstance(error, BaseException) else []
    structlog.get_logger(__name__).error("event_loop_error", exceptions=exceptions)
