"""What is written to the log, above all what is not."""

import asyncio
import gc
import io
import json
import logging

import grpc
import pytest
import structlog

from router.config import LogConfig
from router.logs import configure_logs, exception_chain, log_loop_error
from router.pipeline_testing import FixedEncoder, running_service
from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc
from slow_tier.testing import ScriptedReply, ScriptedUpstream

SECRET = "swordfish"


@pytest.fixture
def lines():
    """Configure logs with the given settings; afterwards put everything back."""
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()

    def configure(**config):
        configure_logs(LogConfig(**config), stream=stream)
        return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]

    yield configure
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def fail() -> None:
    raise ValueError(SECRET)


def test_a_line_is_one_json_object_with_level_and_time(lines) -> None:
    written = lines()
    structlog.get_logger().info("serving", port=1)
    (line,) = written()
    assert (line["event"], line["level"], line["port"]) == ("serving", "info", 1)
    assert line["timestamp"].endswith("Z")


def test_lines_below_the_level_are_not_written(lines) -> None:
    written = lines(level="warning")
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [line["event"] for line in written()] == ["loud"]


def test_an_exception_is_logged_by_type_and_place_without_its_message(lines) -> None:
    written = lines()
    try:
        fail()
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = written()
    assert line["exceptions"][0]["type"] == "ValueError"
    assert line["exceptions"][0]["frames"][-1].endswith(" fail")
    assert SECRET not in json.dumps(line)


def test_a_library_that_logs_an_exception_does_not_get_its_message_through(lines) -> None:
    written = lines()
    try:
        fail()
    except ValueError:
        logging.getLogger("somewhere").exception("Unexpected error with %s", SECRET)
    (line,) = written()
    assert line["logger"] == "somewhere"
    assert line["event"] == "Unexpected error with %s"
    assert line["exceptions"][0]["type"] == "ValueError"
    assert SECRET not in json.dumps(line)


async def test_a_task_that_dies_unseen_is_logged_without_what_it_held(lines) -> None:
    """The event loop writes the repr of the task, its exception's message included."""
    written = lines()

    async def doomed() -> None:
        fail()

    task = asyncio.create_task(doomed())
    await asyncio.wait([task])
    del task
    gc.collect()
    (line,) = written()
    assert line["event"] == "Task exception was never retrieved"
    assert SECRET not in json.dumps(line)


def test_a_record_whose_arguments_do_not_fit_is_logged_and_they_are_not(lines, capsys) -> None:
    """The standard library prints them on standard error when it cannot format a record."""
    written = lines()
    logging.getLogger("somewhere").warning("wrong %d", SECRET)
    (line,) = written()
    assert line["event"] == "wrong %d"
    assert SECRET not in capsys.readouterr().err


def test_an_exception_logged_in_place_of_a_message_is_its_type(lines) -> None:
    written = lines()
    logging.getLogger("somewhere").error(ValueError(SECRET))
    (line,) = written()
    assert line["event"] == "ValueError"


async def test_a_callback_that_fails_is_logged_without_its_arguments(lines) -> None:
    """The event loop's own handler quotes them in the first line."""
    written = lines()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    loop.call_soon(lambda _: fail(), SECRET)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (line,) = written()
    assert (line["event"], line["exceptions"][0]["type"]) == ("event_loop_error", "ValueError")
    assert SECRET not in json.dumps(line)


async def test_an_exception_no_servicer_caught_is_logged_by_grpc_without_its_text(lines) -> None:
    written = lines()

    async def broken(_request, _context) -> None:
        fail()

    handler = grpc.unary_unary_rpc_method_handler(broken)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("s", {"m": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary("/s/m")(SECRET.encode())
    await server.stop(None)
    assert [line["exceptions"][0]["type"] for line in written()] == ["ValueError"]
    assert SECRET not in json.dumps(written())


async def test_a_refused_name_stands_in_the_reply_escaped_and_in_no_log(lines) -> None:
    written = lines(level="debug")
    question = pb.Question(instructions=" ", noul=pb.Noul())
    request = pb.DecideRequest(state=pb.State(text="x"), questions={f"{SECRET}\x1b[2J\n": question})
    async with running_service(FixedEncoder()) as service:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await calls(service, request)
    assert caught.value.details().isprintable()
    assert SECRET not in json.dumps(written())


def test_the_chain_of_causes_is_kept_and_bounded() -> None:
    error: Exception = ValueError("0")
    for number in range(20):
        new = KeyError(str(number))
        new.__cause__ = error
        error = new
    chain = exception_chain(error)
    assert [entry["type"] for entry in chain] == ["KeyError"] * 8


async def calls(service, request=None) -> pb.DecideResponse:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{service.port}") as channel:
        stub = pb_grpc.RouterServiceStub(channel)
        return await stub.Decide(request or pb.DecideRequest(prompt=f"Tell me about {SECRET}"))


async def test_a_call_is_one_line_that_tells_everything_but_the_text(lines) -> None:
    written = lines(level="debug")
    async with (
        ScriptedUpstream(ScriptedReply(text=f"A {SECRET} is a fish")) as upstream,
        running_service(FixedEncoder(), fast=upstream.url) as service,
    ):
        response = await calls(service)
    (line,) = written()
    assert line["rpc"] == "Decide"
    assert line["code"] == "OK"
    assert line["decision_id"] == response.decision.decision_id
    assert (line["tier"], line["reason"]) == ("FAST", "CONFIDENT")
    assert line["answered_by"] == "FAST_TIER"
    assert line["path"] == ["fast:ANSWERED"]
    assert line["input_bytes"] == len(f"Tell me about {SECRET}")
    assert line["output_bytes"] == len(f"A {SECRET} is a fish")
    assert line["timings"]["encode_ns"] == 5
    assert line["tenant"] == "default"
    assert SECRET not in json.dumps(line)


async def test_what_a_server_says_its_model_is_goes_to_no_log(lines) -> None:
    """It may be the prompt, and megabytes of it."""
    written = lines(level="debug")
    choice = {"message": {"content": "A fish"}, "finish_reason": "stop"}
    answers = [
        json.dumps({"choices": [choice], "model": model}).encode()
        for model in (SECRET, f"Tell me about {SECRET}")
    ]
    async with (
        ScriptedUpstream(*(ScriptedReply(chunks=[answer]) for answer in answers)) as upstream,
        running_service(FixedEncoder(), fast=upstream.url, cache={"enabled": False}) as service,
    ):
        assert (await calls(service)).model_revision == SECRET
        assert (await calls(service)).model_revision == "small"
    assert SECRET not in json.dumps(written())


async def test_user_text_is_written_only_where_the_operator_asks_for_it(lines) -> None:
    written = lines(level="debug", user_text=True)
    async with (
        ScriptedUpstream(ScriptedReply(text="A fish")) as upstream,
        running_service(
            FixedEncoder(), fast=upstream.url, log={"level": "debug", "user_text": True}
        ) as service,
    ):
        await calls(service)
    asked, answered, _ = written()
    assert asked["texts"] == [f"Tell me about {SECRET}"]
    assert answered["text"] == "A fish"
    assert asked["level"] == "debug"


async def test_a_failed_call_is_one_line_with_its_code(lines) -> None:
    written = lines()
    async with running_service(FixedEncoder()) as service:
        with pytest.raises(grpc.aio.AioRpcError):
            await calls(service, pb.DecideRequest(prompt=f"{SECRET}\x00"))
    (line,) = written()
    assert (line["rpc"], line["code"], line["level"]) == ("Decide", "INVALID_ARGUMENT", "warning")
    assert SECRET not in json.dumps(line)


async def test_a_bug_is_told_to_the_operator_without_the_users_text(lines) -> None:
    written = lines()
    async with running_service(FixedEncoder(error=RuntimeError(SECRET))) as service:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await calls(service)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert SECRET not in str(caught.value.details())
    bug, call = written()
    assert bug["exceptions"][0]["type"] == "RuntimeError"
    assert bug["error_id"] in caught.value.details()
    assert call["code"] == "INTERNAL"
    assert SECRET not in json.dumps([bug, call])


async def test_what_one_call_says_does_not_show_in_the_next(lines) -> None:
    written = lines()
    async with (
        ScriptedUpstream(ScriptedReply(text="x")) as upstream,
        running_service(FixedEncoder(), fast=upstream.url) as service,
    ):
        await calls(service)
        with pytest.raises(grpc.aio.AioRpcError):
            await calls(service, pb.DecideRequest(prompt=" "))
    _, line = written()
    assert "decision_id" not in line
