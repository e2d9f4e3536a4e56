"""The gRPC servicer of ``CacheAdminService``; a caller sees its own tenant's entries only."""

# ruff: noqa: N802 - method names are given by the contract

from __future__ import annotations

from typing import Any, Protocol

import grpc

from cache.statistics import CacheStats
from router.auth import Authenticator
from router.errors import InvalidRequest, TierUnavailable
from router.field_checks import short_text
from router.status import translated
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc
from router.wire_out import stats_response

MAX_FIELD_BYTES = 256

Context = grpc.aio.ServicerContext[Any, Any]


class CacheAdmin(Protocol):
    """What this service needs of the answer cache."""

    def stats(self, tenant: str) -> CacheStats:
        """Return the tenant's counts."""
        ...

    def invalidate(
        self, tenant: str, *, namespace: str | None, key: str | None, revision: str | None
    ) -> int:
        """Remove the tenant's entries that match every given field; return how many."""
        ...


class CacheDisabled(TierUnavailable):
    """There is no cache to look into."""


class CacheAdminServicer(pb_grpc.CacheAdminServiceServicer):
    """Serves ``CacheAdminService`` on grpc.aio.

    Takes no permit: looking into the cache has to work under load.

    Args:
        cache: The answer cache; ``None`` = switched off.
        authenticator: Names the tenant of a call.
    """

    def __init__(self, cache: CacheAdmin | None, *, authenticator: Authenticator) -> None:
        self._cache = cache
        self._authenticator = authenticator

    async def GetStats(self, request: pb.GetStatsRequest, context: Context) -> pb.GetStatsResponse:
        """Return the counts of the caller's tenant."""
        del request  # it has no fields
        async with translated(context):
            tenant = self._authenticator.tenant_of(
                context.invocation_metadata(), context.auth_context()
            )
            return stats_response(self._enabled().stats(tenant))

    async def Invalidate(
        self, request: pb.InvalidateRequest, context: Context
    ) -> pb.InvalidateResponse:
        """Remove entries of the caller's tenant."""
        async with translated(context):
            tenant = self._authenticator.tenant_of(
                context.invocation_metadata(), context.auth_context()
            )
            conditions = _conditions(request)
            removed = self._enabled().invalidate(
                tenant,
                namespace=conditions["namespace"],
                key=conditions["key"],
                revision=conditions["revision"],
            )
            return pb.InvalidateResponse(removed=removed)

    def _enabled(self) -> CacheAdmin:
        if self._cache is None:
            msg = "the answer cache is switched off"
            raise CacheDisabled(msg, setting="cache.enabled")
        return self._cache


def _conditions(request: pb.InvalidateRequest) -> dict[str, str | None]:
    conditions = {
        name: short_text(value, field=name, limit_bytes=MAX_FIELD_BYTES) or None
        for name, value in (
            ("namespace", request.namespace),
            ("key", request.key),
            ("revision", request.revision),
        )
    }
    given = [name for name, value in conditions.items() if value is not None]
    if request.all and given:
        msg = f"excludes the other fields, got {' and '.join(given)} as well"
        raise InvalidRequest(msg, field="all")
    if not request.all and not given:
        msg = "give at least one of namespace, key, revision and all"
        raise InvalidRequest(msg, field="all")
    return conditions
