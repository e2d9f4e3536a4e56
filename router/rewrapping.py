"""Replace what a gRPC handler does, keeping the kind of handler it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

# How the method of every call of ours begins.
SERVICES = "/router.v1."

Behavior = Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Any]


def rewrapped(
    handler: Any, wrap: Callable[[Behavior], Behavior], *, parse: Callable[[bytes], Any] | None
) -> Any:
    """Return a handler that does what ``wrap`` makes of what ``handler`` does.

    Args:
        handler: Takes one request; its response may be a stream.
        wrap: Takes and returns a coroutine function of request and context.
        parse: Makes a request of its bytes; ``None`` = as ``handler`` does.
    """
    streams = handler.response_streaming
    make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
    return make(
        wrap(handler.unary_stream if streams else handler.unary_unary),
        request_deserializer=handler.request_deserializer if parse is None else parse,
        response_serializer=handler.response_serializer,
    )
