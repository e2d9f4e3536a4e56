"""RouterService over a real gRPC server and channel."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from pydantic import SecretStr
from structlog.testing import capture_logs

from router.admission import Admission
from router.auth import Authenticator
from router.config import LimitsConfig
from router.errors import DeadlinePassed, InvalidRequest, TierUnavailable
from router.service import RouterServicer
from router.testing import DECISION_ID, ScriptedRouter, loopback_channel
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc

HELLO = pb.RouteRequest(prompt="Hello")
LIMITS = LimitsConfig(prompt_bytes=1_000)


class Service:
    """A served ScriptedRouter with a client."""

    def __init__(self, channel: grpc.aio.Channel, router: ScriptedRouter, admission: Admission):
        self.channel = channel
        self.stub = pb_grpc.RouterServiceStub(channel)
        self.router = router
        self.admission = admission

    async def refuses(self, call, code: grpc.StatusCode, *words: str) -> grpc.aio.AioRpcError:
        """Expect a status, and that the permit came back."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is code
        for word in words:
            assert word in caught.value.details()
        assert self.admission.in_flight == 0
        return caught.value

    async def raw(self, method: str, payload: bytes) -> bytes:
        call = self.channel.unary_unary(f"/router.v1.RouterService/{method}")
        return await call(payload)


@asynccontextmanager
async def serving(
    router: ScriptedRouter | None = None,
    *,
    authenticator: Authenticator | None = None,
    limit: int = 4,
    limits: LimitsConfig = LIMITS,
) -> AsyncIterator[Service]:
    router = router or ScriptedRouter()
    admission = Admission(limit=limit, retry_after_s=2.5)
    servicer = RouterServicer(
        router,
        authenticator=authenticator or Authenticator(),
        admission=admission,
        limits=limits,
    )
    async with loopback_channel(
        lambda server: pb_grpc.add_RouterServiceServicer_to_server(servicer, server)
    ) as channel:
        yield Service(channel, router, admission)


async def until(condition) -> None:
    """Let the event loop turn until the condition holds; the test's timeout bounds it."""
    while not condition():  # noqa: ASYNC110 - the counter offers no event
        await asyncio.sleep(0.001)


async def test_route_returns_the_decision() -> None:
    async with serving() as service:
        response = await service.stub.Route(HELLO)
        assert response.decision.decision_id == DECISION_ID
        assert response.timings.encode_ns == 7
        assert service.router.requests[0].tenant == "default"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (pb.RouteRequest(), ["prompt:", "exactly one"]),
        (pb.RouteRequest(prompt=""), ["prompt: is empty"]),
        (pb.RouteRequest(prompt=" \t "), ["prompt: is only white space"]),
        (pb.RouteRequest(prompt="a\0b"), ["prompt: holds a NUL"]),
        (pb.RouteRequest(prompt="x" * 1_000_000), ["prompt: has 1000000 bytes", "1000"]),
        (
            pb.RouteRequest(messages=[pb.Message(role=pb.ROLE_SYSTEM, content="Be brief.")]),
            ["messages: needs at least one user turn"],
        ),
        (pb.RouteRequest(prompt="Hi", decision_key="k" * 257), ["decision_key: has 257 bytes"]),
        (
            pb.RouteRequest(
                prompt="Hi",
                tools=pb.ToolSet(tools=[pb.Tool(name="t", parameters_json_schema='{"type": 1}')]),
            ),
            ["tools.tools[0].parameters_json_schema: is not a valid JSON Schema"],
        ),
    ],
)
async def test_bad_input_names_the_field_and_the_service_keeps_serving(request_, words) -> None:
    async with serving() as service:
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        error = await service.refuses(service.stub.Route(request_), invalid, *words)
        status = rpc_status.from_call(error)
        detail = error_details_pb2.BadRequest()
        assert status.details[0].Unpack(detail)
        assert words[0].startswith(detail.field_violations[0].field)
        assert service.router.requests == []
        await service.stub.Route(HELLO)


async def test_a_temperature_out_of_range_is_refused_by_decide() -> None:
    async with serving() as service:
        await service.refuses(
            service.stub.Decide(pb.DecideRequest(prompt="Hi", temperature=2.5)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "temperature:",
            "at most 2",
        )
        await service.stub.Decide(pb.DecideRequest(prompt="Hi", temperature=2.0))
        assert service.router.requests[0].temperature == 2.0


@pytest.mark.parametrize(
    ("method", "payload", "field"),
    [
        ("Route", b"\x0a\x03\xed\xa0\x80", "prompt:"),
        (
            "Route",
            b"\x12\x04\x08\x02\x12\x00\x12\x07\x08\x02\x12\x03\xed\xa0\x80",
            "messages[1].content:",
        ),
        ("RouteBatch", b"\x0a\x05\x0a\x03\xed\xa0\x80", "items[0].prompt:"),
        ("Route", b"\x0a\xff", "no router.v1.RouteRequest: cut short"),
        ("Route", b"\x12\x00" * 10_000 + b"\x0a\x01\xff", "a string in it is not UTF-8"),
    ],
)
async def test_what_protobuf_refuses_is_invalid_not_unknown(method, payload, field) -> None:
    """ED A0 80 is the lone surrogate U+D800 in UTF-8's scheme."""
    async with serving() as service:
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        await service.refuses(service.raw(method, payload), invalid, field)
        await service.stub.Route(HELLO)


async def test_a_lone_surrogate_in_a_stream_request_is_named_too() -> None:
    async with serving() as service:
        call = service.channel.unary_stream("/router.v1.RouterService/DecideStream")(
            b"\x0a\x05\x0a\x03\xed\xa0\x80"
        )
        with pytest.raises(grpc.aio.AioRpcError, match=r"request\.prompt: is not UTF-8"):
            await call.read()
        parts = service.stub.DecideStream(pb.DecideStreamRequest(request={"prompt": "Hi"}))
        assert [part.WhichOneof("part") async for part in parts] == [
            "decision",
            "text",
            "text",
            "outcome",
        ]


async def test_a_batch_gives_each_item_its_own_status_in_order() -> None:
    async with serving() as service:
        batch = pb.RouteBatchRequest(items=[HELLO, pb.RouteRequest(prompt=" "), HELLO])
        items = (await service.stub.RouteBatch(batch)).items
        assert [item.code for item in items] == [0, grpc.StatusCode.INVALID_ARGUMENT.value[0], 0]
        assert items[1].message == "prompt: is only white space"
        assert not items[1].HasField("response")
        assert items[2].response.decision.decision_id == DECISION_ID
        assert len(service.router.requests) == 2


async def test_errors_of_the_router_stay_with_their_items() -> None:
    router = ScriptedRouter(error=TierUnavailable("nobody", setting="fast_tier.text"))
    async with serving(router) as service:
        items = (await service.stub.RouteBatch(pb.RouteBatchRequest(items=[HELLO]))).items
        assert items[0].code == grpc.StatusCode.UNAVAILABLE.value[0]
        assert "fast_tier.text" in items[0].message


async def test_a_bug_in_one_item_is_internal_without_its_message() -> None:
    async with serving(ScriptedRouter(error=ValueError("secret"))) as service:
        with capture_logs() as logs:
            items = (await service.stub.RouteBatch(pb.RouteBatchRequest(items=[HELLO]))).items
        assert items[0].code == grpc.StatusCode.INTERNAL.value[0]
        assert "secret" not in items[0].message
        assert logs[0]["error_id"] in items[0].message


@pytest.mark.parametrize("count", [0, 257])
async def test_a_batch_of_the_wrong_size_names_items(count: int) -> None:
    async with serving() as service:
        batch = pb.RouteBatchRequest(items=[HELLO] * count)
        await service.refuses(
            service.stub.RouteBatch(batch),
            grpc.StatusCode.INVALID_ARGUMENT,
            f"items: has {count} requests, must be 1 to 256",
        )
        assert (
            len((await service.stub.RouteBatch(pb.RouteBatchRequest(items=[HELLO] * 256))).items)
            == 256
        )


async def test_a_stream_carries_decision_text_and_outcome_in_order() -> None:
    async with serving() as service:
        request = pb.DecideStreamRequest(request=pb.DecideRequest(prompt="6 times 7?"))
        parts = [part async for part in service.stub.DecideStream(request)]
        assert parts[0].decision.decision_id == DECISION_ID
        assert [part.text for part in parts[1:-1]] == ["four", "ty-two"]
        assert parts[-1].outcome.usage.output_tokens == 3
        assert parts[-1].outcome.text == ""
        assert service.admission.in_flight == 0


async def test_an_error_after_text_ends_the_stream_with_its_status() -> None:
    router = ScriptedRouter(error=DeadlinePassed("too late"))
    async with serving(router) as service:
        call = service.stub.DecideStream(pb.DecideStreamRequest(request={"prompt": "Hi"}))
        assert [(await call.read()).text for _ in range(3)] == ["", "four", "ty-two"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_without_a_request_the_stream_is_refused() -> None:
    async with serving() as service:
        call = service.stub.DecideStream(pb.DecideStreamRequest())
        await service.refuses(call.read(), grpc.StatusCode.INVALID_ARGUMENT, "request: is required")


async def test_overload_refuses_before_any_work_and_says_when_to_retry() -> None:
    router = ScriptedRouter(gate=asyncio.Event())
    async with serving(router, limit=1) as service:
        first = asyncio.ensure_future(service.stub.Route(HELLO))
        await router.started.wait()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            # Over the limit even an invalid request is not looked at.
            await service.stub.Route(pb.RouteRequest())
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        retry = error_details_pb2.RetryInfo()
        assert rpc_status.from_call(caught.value).details[0].Unpack(retry)
        assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (2, 500_000_000)
        assert len(router.requests) == 1
        router.gate.set()
        await first
        await service.stub.Route(HELLO)


async def test_a_caller_that_goes_away_cancels_the_router_and_frees_its_permit() -> None:
    router = ScriptedRouter(gate=asyncio.Event())
    async with serving(router) as service:
        call = service.stub.Decide(pb.DecideRequest(prompt="Hi"))
        pending = asyncio.ensure_future(call.code())
        await router.started.wait()
        call.cancel()
        await pending
        await until(lambda: service.admission.in_flight == 0)
        assert router.cancelled == 1


async def test_a_caller_that_leaves_a_stream_cancels_the_generation() -> None:
    router = ScriptedRouter(gate=asyncio.Event())
    async with serving(router) as service:
        call = service.stub.DecideStream(pb.DecideStreamRequest(request={"prompt": "Hi"}))
        assert (await call.read()).HasField("decision")
        assert (await call.read()).text == "four"
        call.cancel()
        await until(lambda: service.admission.in_flight == 0)
        assert router.cancelled == 1


class Endless(ScriptedRouter):
    """Generates more than a caller reads."""

    async def decide_stream(self, request):
        try:
            while True:
                yield "x" * 1_000_000
        finally:
            self.cancelled += 1


async def _read_to_the_end(call) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_a_caller_that_does_not_read_its_stream_is_held_to_the_deadline(monkeypatch) -> None:
    monkeypatch.setattr("router.status._ABORT_S", 0.01)
    router = Endless()
    limits = LimitsConfig(default_deadline_s=0.05)
    async with serving(router, limits=limits) as service:
        call = service.stub.DecideStream(pb.DecideStreamRequest(request={"prompt": "Hi"}))
        await call.read()
        await until(lambda: router.cancelled)
        await until(lambda: service.admission.in_flight == 0)
        # The server has dropped the call, status included, so it ends once read.
        with pytest.raises(grpc.aio.AioRpcError):
            await _read_to_the_end(call)


async def test_checks_that_wait_for_a_thread_end_with_their_callers(monkeypatch) -> None:
    gate, began = threading.Event(), []

    def blocked(message, **_):
        began.append(message)
        gate.wait(5.0)
        msg = "is a test's"
        raise InvalidRequest(msg, field="prompt")

    monkeypatch.setattr("router.service.request_from_route", blocked)
    async with serving(limits=LimitsConfig(default_deadline_s=0.05), limit=8) as service:
        large = pb.RouteRequest(prompt="x" * 10_000)
        calls = [asyncio.ensure_future(service.stub.Route(large).code()) for _ in range(8)]
        late = grpc.StatusCode.DEADLINE_EXCEEDED
        assert await asyncio.gather(*calls) == [late] * 8
        assert service.admission.in_flight == 0
        gate.set()
        await service.refuses(service.stub.Route(large), grpc.StatusCode.INVALID_ARGUMENT)
    # Those that ran when their callers left, then the last one: no other was begun.
    assert len(began) == 3


async def test_without_a_deadline_the_default_one_ends_the_call_and_the_work() -> None:
    router = ScriptedRouter(gate=asyncio.Event())
    limits = LimitsConfig(default_deadline_s=0.02)
    async with serving(router, limits=limits) as service:
        error = await service.refuses(
            service.stub.Decide(pb.DecideRequest(prompt="Hi")), grpc.StatusCode.DEADLINE_EXCEEDED
        )
        assert "deadline passed" in error.details()
        assert router.cancelled == 1


async def test_the_default_deadline_ends_a_stream_between_two_pieces() -> None:
    router = ScriptedRouter(gate=asyncio.Event())
    async with serving(router, limits=LimitsConfig(default_deadline_s=0.03)) as service:
        call = service.stub.DecideStream(pb.DecideStreamRequest(request={"prompt": "Hi"}))
        assert (await call.read()).HasField("decision")
        assert (await call.read()).text == "four"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert router.cancelled == 1


async def test_the_callers_deadline_is_handed_down_as_monotonic_time() -> None:
    async with serving() as service:
        before_s = time.monotonic()
        await service.stub.Route(HELLO, timeout=30.0)
        # gRPC may round a timeout up to its next coarser unit.
        assert before_s + 29.0 < service.router.requests[0].deadline_s < time.monotonic() + 31.0


async def test_a_deadline_already_past_does_no_work() -> None:
    async with serving() as service:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await service.stub.Route(HELLO, timeout=-1.0)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert service.router.requests == []
        await service.stub.Route(HELLO)


async def test_a_call_that_arrives_after_its_deadline_does_no_work() -> None:
    """The client library refuses such calls itself, so the servicer is called directly."""

    class LateContext:
        def invocation_metadata(self):
            return ()

        def auth_context(self):
            return {}

        def time_remaining(self) -> float:
            return 0.0

        async def abort(self, code, details, trailing_metadata):
            raise grpc.aio.AbortError(code)

    router = ScriptedRouter()
    servicer = RouterServicer(
        router,
        authenticator=Authenticator(),
        admission=Admission(limit=1, retry_after_s=1.0),
        limits=LIMITS,
    )
    with pytest.raises(grpc.aio.AbortError, match="DEADLINE_EXCEEDED"):
        await servicer.Route(HELLO, LateContext())
    assert router.requests == []


async def test_a_token_decides_whose_request_it_is() -> None:
    authenticator = Authenticator([("acme", SecretStr("token-a"))])
    async with serving(authenticator=authenticator) as service:
        await service.refuses(
            service.stub.Route(HELLO, metadata=(("tenant", "acme"),)),
            grpc.StatusCode.UNAUTHENTICATED,
            "Bearer",
        )
        await service.stub.Route(HELLO, metadata=(("authorization", "Bearer token-a"),))
        assert [request.tenant for request in service.router.requests] == ["acme"]


async def test_tenant_metadata_counts_only_when_trusted() -> None:
    for trusted, tenant in ((False, "default"), (True, "acme")):
        async with serving(authenticator=Authenticator(trust_tenant_metadata=trusted)) as service:
            await service.stub.Route(HELLO, metadata=(("tenant", "acme"),))
            assert service.router.requests[0].tenant == tenant


async def test_a_missing_tier_names_its_setting_in_the_details() -> None:
    error = TierUnavailable("no tier can answer", setting="slow_tier.upstreams")
    async with serving(ScriptedRouter(error=error)) as service:
        refused = await service.refuses(
            service.stub.Decide(pb.DecideRequest(prompt="Hi")),
            grpc.StatusCode.UNAVAILABLE,
            "slow_tier.upstreams",
        )
        info = error_details_pb2.ErrorInfo()
        assert rpc_status.from_call(refused).details[0].Unpack(info)
        assert info.metadata == {"setting": "slow_tier.upstreams"}


async def test_a_bug_is_internal_and_tells_nothing_but_an_error_id() -> None:
    async with serving(ScriptedRouter(error=RuntimeError("secret"))) as service:
        with capture_logs() as logs:
            error = await service.refuses(service.stub.Route(HELLO), grpc.StatusCode.INTERNAL)
        assert error.details() == f"internal error {logs[0]['error_id']}"
        assert "secret" not in repr(logs)


async def test_a_rejected_answer_is_reported_and_evicted() -> None:
    async with serving() as service:
        rejected = pb.RecordOutcomeRequest(
            decision_id=DECISION_ID, verdict=pb.VERDICT_REJECTED, score=0.0
        )
        assert (await service.stub.RecordOutcome(rejected)).evicted
        assert service.router.reports == [{"accepted": False, "score": 0.0, "cost_usd": None}]


async def test_another_tenants_decision_is_not_found() -> None:
    async with serving(authenticator=Authenticator(trust_tenant_metadata=True)) as service:
        report = pb.RecordOutcomeRequest(decision_id=DECISION_ID, verdict=pb.VERDICT_REJECTED)
        await service.refuses(
            service.stub.RecordOutcome(report, metadata=(("tenant", "acme"),)),
            grpc.StatusCode.NOT_FOUND,
            "decision_id",
        )
        assert service.router.reports == []


async def test_a_report_that_says_nothing_is_refused() -> None:
    async with serving() as service:
        await service.refuses(
            service.stub.RecordOutcome(pb.RecordOutcomeRequest(decision_id=DECISION_ID)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "verdict:",
        )


async def test_a_large_request_is_checked_off_the_event_loop_with_the_same_result() -> None:
    async with serving(limits=LimitsConfig()) as service:
        await service.stub.Route(pb.RouteRequest(prompt="x" * 10_000))
        assert len(service.router.requests[0].messages[0].content) == 10_000
        await service.refuses(
            service.stub.Route(pb.RouteRequest(prompt="x" * 10_000 + "\0")),
            grpc.StatusCode.INVALID_ARGUMENT,
            "prompt: holds a NUL character at position 10000",
        )
