"""Answer every Route and Decide call with one message made beforehand: the bare baseline.

It is what grpc.aio under uvloop costs with the same messages on the wire, with nothing decided.

    python tests/bench/echo_server.py --responses FILE --ports-file FILE
"""

# ruff: noqa: N802 - method names are given by the contract

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import signal
from pathlib import Path
from typing import Any

import grpc
import uvloop

from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc


class EchoServicer(pb_grpc.RouterServiceServicer):
    """Gives the same two messages to everybody."""

    def __init__(self, route: pb.RouteResponse, decide: pb.DecideResponse) -> None:
        self._route = route
        self._decide = decide

    async def Route(self, request: pb.RouteRequest, context: Any) -> pb.RouteResponse:
        """Return the message."""
        return self._route

    async def Decide(self, request: pb.DecideRequest, context: Any) -> pb.DecideResponse:
        """Return the message."""
        return self._decide


async def serve(servicer: EchoServicer, ports_file: Path) -> None:
    """Serve on a free port of 127.0.0.1 until SIGTERM."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    pb_grpc.add_RouterServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    partial = ports_file.with_suffix(".partial")
    partial.write_text(json.dumps({"port": port}))
    partial.replace(ports_file)
    await stopped.wait()
    await server.stop(0.5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--responses", type=Path, required=True)
    parser.add_argument("--ports-file", type=Path, required=True)
    arguments = parser.parse_args()
    encoded = json.loads(arguments.responses.read_text())
    echo = EchoServicer(
        pb.RouteResponse.FromString(base64.b64decode(encoded["route"])),
        pb.DecideResponse.FromString(base64.b64decode(encoded["decide"])),
    )
    uvloop.run(serve(echo, arguments.ports_file))
