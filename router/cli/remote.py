"""Ask a running service over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc


class RemoteRouter:
    """``Route`` and ``Decide`` of a running service; they raise ``grpc.aio.AioRpcError``.

    Args:
        channel: An open channel.
        token: Bearer token; ``None`` sends none.
    """

    def __init__(self, channel: grpc.aio.Channel, *, token: str | None) -> None:
        self._stub = pb_grpc.RouterServiceStub(channel)
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)

    async def route(self, request: pb.RouteRequest, *, timeout_s: float) -> pb.RouteResponse:
        """Return where ``request`` should go."""
        return await self._stub.Route(request, timeout=timeout_s, metadata=self._metadata)

    async def decide(self, request: pb.DecideRequest, *, timeout_s: float) -> pb.DecideResponse:
        """Return the answer to ``request``."""
        return await self._stub.Decide(request, timeout=timeout_s, metadata=self._metadata)


@asynccontextmanager
async def remote_router(
    address: str, *, token: str | None, ca_pem: bytes | None
) -> AsyncIterator[RemoteRouter]:
    """Connect to ``host:port``; with ``ca_pem`` over TLS, verified against its certificates."""
    if ca_pem is None:
        channel = grpc.aio.insecure_channel(address)
    else:
        credentials = grpc.ssl_channel_credentials(ca_pem)
        channel = grpc.aio.secure_channel(address, credentials)
    async with channel:
        yield RemoteRouter(channel, token=token)
