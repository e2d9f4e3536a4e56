"""Conversion of a tool set from the wire into domain tools."""

from __future__ import annotations

import re
from collections.abc import Mapping

from router.config import LimitsConfig
from router.domain import Tool
from router.errors import InvalidRequest
from router.field_checks import at_most, element, input_size, text_bytes
from router.json_schema import parse_schema
from router.v1 import router_pb2 as pb

MAX_TOOLS = 128
MAX_SCHEMA_VALUES_TOGETHER = 10_000

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NO_PARAMETERS: Mapping[str, object] = {"type": "object", "properties": {}}


def tools_from(message: pb.ToolSet, limits: LimitsConfig) -> tuple[Tool, ...]:
    """Validate tools.

    Raises:
        InvalidRequest: Naming ``tools.tools[<index>]`` and what is wrong with it.
    """
    at_most(len(message.tools), MAX_TOOLS, field="tools.tools", unit="tools")
    tools: dict[str, Tool] = {}
    size_bytes = values = 0
    for index, tool in enumerate(message.tools):
        path = element("tools.tools", index)
        if _NAME.fullmatch(tool.name) is None:
            msg = "must be 1 to 64 characters of [a-zA-Z0-9_.-]"
            raise InvalidRequest(msg, field=f"{path}.name")
        if tool.name in tools:
            msg = "is the name of an earlier tool; names must be unique"
            raise InvalidRequest(msg, field=f"{path}.name")
        size_bytes += text_bytes(tool.description, field=f"{path}.description")
        parameters = _NO_PARAMETERS
        if tool.parameters_json_schema:
            checked = parse_schema(
                tool.parameters_json_schema, field=f"{path}.parameters_json_schema"
            )
            parameters = checked.compiled.document
            values += checked.values
        # Checked while counting, so that the work stops at the limit.
        at_most(
            values, MAX_SCHEMA_VALUES_TOGETHER, field="tools.tools", unit="JSON values in schemas"
        )
        tools[tool.name] = Tool(name=tool.name, description=tool.description, parameters=parameters)
    input_size(size_bytes, limits, field="tools.tools")
    return tuple(tools.values())
