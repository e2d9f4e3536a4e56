"""CacheAdminService over a real gRPC server and channel."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from cache.statistics import CacheStats
from router.admin_service import CacheAdmin, CacheAdminServicer
from router.auth import Authenticator
from router.testing import FixedCacheAdmin, loopback_channel
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc

COUNTS = CacheStats(
    entries=3,
    size_bytes=40,
    exact_hits=0,
    semantic_hits=0,
    misses={},
    evictions=0,
    expirations=0,
    namespaces=(),
)


@asynccontextmanager
async def admin(cache: CacheAdmin | None) -> AsyncIterator[pb_grpc.CacheAdminServiceStub]:
    servicer = CacheAdminServicer(cache, authenticator=Authenticator(trust_tenant_metadata=True))
    async with loopback_channel(
        lambda server: pb_grpc.add_CacheAdminServiceServicer_to_server(servicer, server)
    ) as channel:
        yield pb_grpc.CacheAdminServiceStub(channel)


async def test_stats_are_the_caches() -> None:
    async with admin(FixedCacheAdmin(counts=COUNTS)) as stub:
        assert await stub.GetStats(pb.GetStatsRequest()) == pb.GetStatsResponse(entries=3, bytes=40)


@pytest.mark.parametrize(
    ("fields", "conditions"),
    [
        ({"all": True}, (None, None, None)),
        ({"key": "k"}, (None, "k", None)),
        ({"namespace": "n", "revision": "r"}, ("n", None, "r")),
    ],
)
async def test_given_fields_must_all_match_within_the_callers_tenant(fields, conditions) -> None:
    cache = FixedCacheAdmin(counts=COUNTS)
    async with admin(cache) as stub:
        response = await stub.Invalidate(
            pb.InvalidateRequest(**fields), metadata=(("tenant", "acme"),)
        )
        assert response.removed == 1
        assert cache.removals == [("acme", *conditions)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "all: give at least one"),
        ({"all": True, "key": "k"}, "all: excludes the other fields, got key"),
        ({"key": "k" * 257}, "key: has 257 bytes"),
        ({"namespace": "\0"}, "namespace: holds a NUL"),
    ],
)
async def test_a_request_that_could_remove_too_much_is_refused(fields, words) -> None:
    cache = FixedCacheAdmin(counts=COUNTS)
    async with admin(cache) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Invalidate(pb.InvalidateRequest(**fields))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in caught.value.details()
        assert cache.removals == []


async def test_without_a_cache_both_calls_name_the_setting() -> None:
    async with admin(None) as stub:
        for call in (
            stub.GetStats(pb.GetStatsRequest()),
            stub.Invalidate(pb.InvalidateRequest(all=True)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            info = error_details_pb2.ErrorInfo()
            assert rpc_status.from_call(caught.value).details[0].Unpack(info)
            assert (info.reason, info.metadata["setting"]) == ("CACHE_DISABLED", "cache.enabled")
