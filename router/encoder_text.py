"""Render a request as the text the encoder reads.

System turns are left out: they are constant for an application, say nothing about this
request's difficulty, and are part of the cache namespace instead.
"""

from __future__ import annotations

import json

from router.domain import EncoderInput, Message, Request, Role, Tool


def encoder_input(request: Request) -> EncoderInput:
    """Return what the encoder reads of ``request``.

    A single user turn is read as it is. In a conversation the last user turn is the text;
    the other turns, with role marks, are the context that fills what room is left. A state is
    its text, or its JSON made compact, followed by the questions' instructions.
    """
    tools = None if request.tools is None else tool_text(request.tools)
    if request.state is not None:
        state = _compact(request.state.text) if request.state.is_json else request.state.text
        asked = "\n".join(q.instructions for q in request.questions.values())
        return EncoderInput(text=f"{state}\n{asked}" if asked else state, tools=tools)
    turns = [message for message in request.messages if message.role is not Role.SYSTEM]
    last = max(i for i, message in enumerate(turns) if message.role is Role.USER)
    others = [*turns[:last], *turns[last + 1 :]]
    return EncoderInput(
        text=turns[last].content, context="\n".join(map(_marked, others)), tools=tools
    )


def tool_text(tools: tuple[Tool, ...]) -> str:
    """Return the tools as the encoder reads them, one ``name: description`` a line."""
    return "\n".join(
        " ".join(f"{tool.name}: {tool.description}".split()).removesuffix(":") for tool in tools
    )


def _marked(message: Message) -> str:
    return f"{message.role.value}: {message.content}"


def _compact(document: str) -> str:
    return json.dumps(json.loads(document), ensure_ascii=False, separators=(",", ":"))
