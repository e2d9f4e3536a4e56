"""Ask for one decision: the commands ``route`` and ``decide``."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer

from router.cli.console import ConfigOption, ExitCode, JsonOption, fail, mistakes_reported

if TYPE_CHECKING:
    from router.v1 import router_pb2 as pb

ResponseT = TypeVar("ResponseT")

Text = Annotated[str, typer.Argument(help="What a user would ask; - reads standard input.")]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Ask a running service instead of this process."),
]
TokenEnv = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="With --address: variable that holds the bearer token."),
]
CaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --address: TLS, trusting the certificates in FILE."),
]
TimeoutS = Annotated[
    float,
    typer.Option(min=0.001, max=3600.0, help="Deadline of the call, seconds."),
]


class Router(Protocol):
    """Whatever answers the two calls, in this process or another."""

    async def route(self, request: pb.RouteRequest, *, timeout_s: float) -> pb.RouteResponse:
        """Return where ``request`` should go."""
        ...

    async def decide(self, request: pb.DecideRequest, *, timeout_s: float) -> pb.DecideResponse:
        """Return the answer to ``request``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Who is asked: a configuration, or the address of a running service."""

    config: Path | None
    address: str | None
    token_env: str | None
    ca_file: Path | None


def route(
    text: Text,
    config: ConfigOption = None,
    *,
    address: Address = None,
    token_env: TokenEnv = None,
    ca_file: CaFile = None,
    timeout_s: TimeoutS = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Say where a text would go; no tier is called.

    Example: python -m router route "What is the capital of France?"
    """
    target = _Target(config=config, address=address, token_env=token_env, ca_file=ca_file)
    prompt = _prompt(text)
    from router.v1 import router_pb2 as pb

    request = pb.RouteRequest(prompt=prompt)
    response = _ask(target, lambda router: router.route(request, timeout_s=timeout_s))
    from router.cli.report import print_message, print_route

    print_message(response) if as_json else print_route(response)


def decide(
    text: Text,
    config: ConfigOption = None,
    *,
    address: Address = None,
    token_env: TokenEnv = None,
    ca_file: CaFile = None,
    timeout_s: TimeoutS = 60.0,
    max_output_tokens: Annotated[
        int | None, typer.Option(min=1, max=2**32 - 1, help="Most tokens to generate.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, max=2.0, help="Instead of the temperature predicted."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a text from the cache, the fast tier or the slow tier.

    Example: python -m router decide --config fastslow.yaml "What is the capital of France?"
    """
    target = _Target(config=config, address=address, token_env=token_env, ca_file=ca_file)
    prompt = _prompt(text)
    from router.v1 import router_pb2 as pb

    request = pb.DecideRequest(
        prompt=prompt, max_output_tokens=max_output_tokens, temperature=temperature
    )
    response = _ask(target, lambda router: router.decide(request, timeout_s=timeout_s))
    from router.cli.report import print_decide, print_message

    print_message(response) if as_json else print_decide(response)


def _prompt(text: str) -> str:
    try:
        if text == "-":
            # The line end belongs to the shell's pipe, not to what is asked.
            return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
        text.encode("utf-8")
    except UnicodeError:
        fail("TEXT: not valid UTF-8", ExitCode.USAGE)
    return text


def _ask(target: _Target, question: Callable[[Router], Awaitable[ResponseT]]) -> ResponseT:
    import asyncio

    import grpc

    async def run() -> ResponseT:
        async with _connected(target) as router:
            return await question(router)

    with mistakes_reported():
        try:
            return asyncio.run(run())
        except grpc.aio.AioRpcError as error:
            wrong_usage = error.code() is grpc.StatusCode.INVALID_ARGUMENT
            fail(
                f"{target.address}: {error.code().name}: {error.details()}",
                ExitCode.USAGE if wrong_usage else ExitCode.FAILED,
            )


def _connected(target: _Target) -> AbstractAsyncContextManager[Router]:
    """Return the way to whom is asked, once the options fit together."""
    if target.address is None:
        if target.token_env is not None or target.ca_file is not None:
            fail("--token-env and --ca-file go with --address", ExitCode.USAGE)
        from router.cli.in_process import in_process_router
        from router.config import load_settings

        return in_process_router(load_settings(target.config))
    if target.config is not None:
        fail("--config and --address exclude each other", ExitCode.USAGE)
    token = ca_pem = None
    if target.token_env is not None:
        token = os.environ.get(target.token_env, "").strip()
        if not token:
            fail(f"--token-env: {target.token_env} is empty or not set", ExitCode.USAGE)
    if target.ca_file is not None:
        try:
            ca_pem = target.ca_file.read_bytes()
        except OSError as error:
            fail(f"--ca-file {target.ca_file}: {error.strerror}", ExitCode.USAGE)
    from router.cli.remote import remote_router

    return remote_router(target.address, token=token, ca_pem=ca_pem)
