"""What a client sees that knows no schema but the one reflection tells it."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

# buf exits with the gRPC code shifted by three bits.
INVALID_ARGUMENT_EXIT = 3 << 3


async def test_route_by_reflection(buf_curl) -> None:
    request = {"prompt": "Prove that the square root of two is irrational."}
    done = await buf_curl("router.v1.RouterService/Route", request)
    assert done.returncode == 0, done.stderr
    decision = json.loads(done.stdout)["decision"]
    assert decision["tier"] in {"TIER_FAST", "TIER_SLOW", "TIER_TOOL"}
    assert decision["route"] in decision["probabilities"]
    assert decision["decidedAt"].endswith("Z")


async def test_decide_by_reflection(stand, buf_curl) -> None:
    request = {"prompt": "Which city hosts the Louvre museum?"}
    done = await buf_curl("router.v1.RouterService/Decide", request)
    assert done.returncode == 0, done.stderr
    response = json.loads(done.stdout)
    assert response["answeredBy"] == "ANSWERED_BY_SLOW_TIER"
    assert response["text"] == "Paris"
    assert response["path"][-1]["outcome"] == "STEP_OUTCOME_ANSWERED"
    assert int(response["timings"]["totalNs"]) > 0


async def test_an_error_carries_the_field_in_its_details(buf_curl) -> None:
    done = await buf_curl("router.v1.RouterService/Decide", {"prompt": "x", "temperature": 3.0})
    assert done.returncode == INVALID_ARGUMENT_EXIT, done.stderr
    error = json.loads(done.stderr)
    assert error["code"] == "invalid_argument"
    assert "temperature" in error["message"]
    [detail] = error["details"]
    assert detail["type"] == "google.rpc.BadRequest"


async def test_cache_counts_by_reflection(buf_curl) -> None:
    done = await buf_curl("router.v1.CacheAdminService/GetStats", {})
    assert done.returncode == 0, done.stderr
    assert "exactHits" in json.loads(done.stdout)


@pytest.mark.parametrize(
    "service", ["", "router.v1.RouterService", "router.v1.CacheAdminService"], ids=repr
)
async def test_health_is_serving(buf_curl, service) -> None:
    done = await buf_curl("grpc.health.v1.Health/Check", {"service": service})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"status": "SERVING"}
