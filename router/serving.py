"""Run the service until a signal stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from router.config import Settings
from router.logs import configure_logs, log_loop_error
from router.server import Service
from router.transport import is_loopback

_log = structlog.get_logger(__name__)


async def serve(
    settings: Settings, *, on_serving: Callable[[Service], None] = lambda _: None
) -> None:
    """Run the service until SIGTERM or SIGINT, then drain.

    Args:
        settings: The validated configuration.
        on_serving: Called once with the started service.

    Raises:
        ConfigError: Naming the setting that keeps it from starting.
        ArtifactError: Naming the file of the encoder that is damaged.
    """
    configure_logs(settings.log)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    service = await _unless(stopped, _started(settings))
    if service is None:
        _log.info("stopped")
        return
    drain_s = settings.server.drain_s
    try:
        if _is_open_to_the_network(settings):
            _log.warning("open_to_the_network", host=settings.server.host, setting="auth.tokens")
        _log.info(
            "serving",
            port=service.port,
            metrics_port=service.metrics_port,
            config_revision=settings.revision,
        )
        on_serving(service)
        await stopped.wait()
        _log.info("draining", drain_s=drain_s)
    finally:
        await service.stop(drain_s)
        _log.info("stopped")


async def _started(settings: Settings) -> Service:
    service = await Service.load(settings)
    await service.start()
    return service


async def _unless(stopped: asyncio.Event, work: Coroutine[Any, Any, Service]) -> Service | None:
    """Return what ``work`` returns, or ``None`` once it is cancelled because of ``stopped``."""
    working = asyncio.ensure_future(work)
    told = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait({working, told}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
        return None if working.cancelled() else working.result()
    finally:
        told.cancel()


def _is_open_to_the_network(settings: Settings) -> bool:
    """Return whether anybody who reaches the address may call."""
    tls = settings.server.tls
    clients_known = tls is not None and tls.client_ca_file is not None
    return not (is_loopback(settings.server.host) or settings.auth.tokens or clients_known)
