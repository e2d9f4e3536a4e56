"""An answer for requests that protobuf itself refuses to parse.

Without it such a call ends as UNKNOWN with the parser's words. A string that is not UTF-8, for
instance one with a lone surrogate, is the usual cause, so the field that holds it is named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from router.errors import InvalidRequest
from router.rewrapping import Behavior, rewrapped
from router.status import translated
from router.v1 import router_pb2 as pb

_LENGTH_DELIMITED = 2
# Listing the fields of a message made to have millions of them would hold up everybody else.
_MAX_EXAMINED_BYTES = 16_384


class MalformedRequestInterceptor(grpc.aio.ServerInterceptor):
    """Ends calls of ``router.v1`` whose request cannot be parsed with INVALID_ARGUMENT."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the deserializer of one handler; others pass as they are."""
        handler = await continuation(handler_call_details)
        request_type = _request_type(handler_call_details.method)
        if handler is None or request_type is None:
            return handler

        def parse(raw: bytes) -> Any:
            try:
                return handler.request_deserializer(raw)
            except DecodeError:
                return _explain(raw, request_type)

        def wrap(behavior: Behavior) -> Behavior:
            async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
                if isinstance(request, InvalidRequest):
                    async with translated(context):
                        raise request
                return await behavior(request, context)

            return call

        return rewrapped(handler, wrap, parse=parse)


def undecodable_field(raw: bytes, message: Descriptor) -> str:
    """Return the path of the first string in ``raw`` that is not UTF-8, or ``""``.

    Args:
        raw: A serialised ``message``.
        message: Its descriptor.

    Raises:
        DecodeError: If ``raw`` is no protobuf message at all.
    """
    # Every field is unknown to Empty, so this lists them without interpreting them.
    counts: dict[int, int] = {}
    unknowns = UnknownFieldSet(Empty.FromString(raw))
    for unknown in (unknowns[position] for position in range(len(unknowns))):
        field = message.fields_by_number.get(unknown.field_number)
        if field is None or unknown.wire_type != _LENGTH_DELIMITED:
            continue
        index = counts[unknown.field_number] = counts.get(unknown.field_number, -1) + 1
        path = f"{field.name}[{index}]" if field.is_repeated else field.name
        if field.type == FieldDescriptor.TYPE_STRING:
            try:
                unknown.data.decode()
            except UnicodeDecodeError:
                return path
        elif field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type is not None:
            inner = undecodable_field(unknown.data, field.message_type)
            if inner:
                return f"{path}.{inner}"
    return ""


def _explain(raw: bytes, message: Descriptor) -> InvalidRequest:
    field = ""
    if len(raw) <= _MAX_EXAMINED_BYTES:
        with contextlib.suppress(DecodeError):
            field = undecodable_field(raw, message)
    if field:
        return InvalidRequest("is not UTF-8 (lone surrogates are not either)", field=field)
    msg = f"the request is no {message.full_name}: cut short, or a string in it is not UTF-8"
    return InvalidRequest(msg)


def _request_type(method: str) -> Descriptor | None:
    """Return the request message of ``/router.v1.Service/Method``."""
    service_name, _, method_name = method.removeprefix(f"/{pb.DESCRIPTOR.package}.").partition("/")
    service = pb.DESCRIPTOR.services_by_name.get(service_name)
    found = service.methods_by_name.get(method_name) if service is not None else None
    return None if found is None else found.input_type
