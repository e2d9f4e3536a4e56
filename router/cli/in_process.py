"""Answer inside this process, with the whole service but its ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from router.auth import DEFAULT_TENANT
from router.clock import Clock
from router.config import LogConfig, Settings
from router.logs import configure_logs
from router.server import Service
from router.v1 import router_pb2 as pb
from router.wire_in import request_from_decide, request_from_route
from router.wire_out import decide_response, route_response


class InProcessRouter:
    """``Route`` and ``Decide`` without a network, validated as a servicer would.

    Args:
        service: Built, not started.
        settings: What it was built from.
        clock: The service's own.
    """

    def __init__(self, service: Service, settings: Settings, clock: Clock) -> None:
        self._service = service
        self._limits = settings.limits
        self._clock = clock

    async def route(self, request: pb.RouteRequest, *, timeout_s: float) -> pb.RouteResponse:
        """Return where ``request`` should go.

        Raises:
            RouterError: As `router.errors` says.
        """
        checked = request_from_route(
            request,
            tenant=DEFAULT_TENANT,
            deadline_s=self._clock.monotonic_s() + timeout_s,
            limits=self._limits,
        )
        return route_response(await self._service.router.route(checked))

    async def decide(self, request: pb.DecideRequest, *, timeout_s: float) -> pb.DecideResponse:
        """Return the answer to ``request``.

        Raises:
            RouterError: As `router.errors` says.
        """
        checked = request_from_decide(
            request,
            tenant=DEFAULT_TENANT,
            deadline_s=self._clock.monotonic_s() + timeout_s,
            limits=self._limits,
        )
        return decide_response(await self._service.router.decide(checked))


@asynccontextmanager
async def in_process_router(settings: Settings) -> AsyncIterator[InProcessRouter]:
    """Load models, make clients; free them at the end.

    Raises:
        ConfigError: Naming the setting.
        ArtifactError: Naming the file of the artifact.
    """
    # Results go to standard output, so only what matters to a person goes beside them.
    configure_logs(LogConfig(level="warning", format="console"))
    clock = Clock()
    service = await Service.load(settings, clock=clock)
    try:
        yield InProcessRouter(service, settings, clock)
    finally:
        await service.stop(0.0)
