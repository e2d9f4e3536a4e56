"""Translate between our values and the JSON of OpenAI's chat completions.

The dialect is the common part of OpenAI, vLLM, llama.cpp and Ollama. Nothing here does I/O.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from slow_tier.completion import ChatMessage, CompletionRequest
from slow_tier.reply import Reply, ReplyAssembler
from slow_tier.structured import load_json
from slow_tier.tool_names import names_on_the_wire

# The most that OpenAI's API reference allows, also vLLM's default limit.
TOP_LOGPROBS = 20

Dialect = Literal["chat", "reasoning"]


def encode_request(
    request: CompletionRequest,
    *,
    model: str,
    system_prompt: str | None,
    dialect: Dialect = "chat",
    stream: bool,
) -> bytes:
    """Return the request body, ASCII JSON.

    Args:
        request: What to generate.
        model: Name of the model on that server.
        system_prompt: Put first when the messages carry no system message.
        dialect: ``reasoning`` sends ``max_completion_tokens`` and asks for neither a
            temperature nor log-probabilities: OpenAI API reference, reasoning models.
        stream: Ask for server-sent events that end with token counts.
    """
    messages = list(request.messages)
    if system_prompt is not None and all(message.role != "system" for message in messages):
        messages.insert(0, ChatMessage(role="system", content=system_prompt))
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in messages],
    }
    if dialect == "reasoning":
        body["max_completion_tokens"] = request.max_output_tokens
    else:
        body |= {"temperature": request.temperature, "max_tokens": request.max_output_tokens}
        if request.want_logprobs:
            body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    if request.tools:
        names = names_on_the_wire(tool.name for tool in request.tools)
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": names[tool.name],
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in request.tools
        ]
    if request.response_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {
                "name": "answer",
                "strict": True,
                "schema": dict(request.response_schema.document),
            },
        }
    if request.seed is not None:
        body["seed"] = request.seed
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    # Escaped to ASCII, so that no text a caller typed can make the encoding fail.
    return json.dumps(body, allow_nan=False).encode("ascii")


def decode_completion(body: bytes, *, upstream: str) -> Reply:
    """Read the body of an answer that is not streamed.

    Raises:
        InvalidAnswer: If it is no chat completion.
        UpstreamUnavailable: If it is an error object in spite of its status 200.
    """
    assembler = ReplyAssembler(upstream=upstream)
    assembler.add_payload(load_json(body, upstream=upstream, what="response body"), part="message")
    return assembler.reply()
