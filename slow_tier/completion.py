"""The values that go into a chat completion, then those that come out of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from slow_tier.json_schema import JsonSchema

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_TEMPERATURE = 2.0  # OpenAI API reference, chat completions, `temperature`


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One turn of a conversation.

    Attributes:
        role: Who speaks.
        content: What is said; may be empty for a turn that only called tools.
    """

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            msg = f"role: must be one of {', '.join(get_args(Role))}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A function that the model may ask to have called.

    Attributes:
        name: 1 to 64 ASCII letters, digits, ``_``, ``-`` or ``.``; servers that know no dot see
            another name, see `slow_tier.tool_names`.
        description: When to use it, in words for the model.
        parameters: JSON schema (draft 2020-12) of its arguments; whoever makes the definition
            answers for its validity, since it is only passed on.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not _TOOL_NAME.fullmatch(self.name):
            msg = "tool name: must be 1 to 64 letters, digits, '_', '-' or '.'"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """What to generate, independent of the server that does it.

    Attributes:
        messages: The conversation, at least one turn.
        temperature: Sampling temperature, 0 to 2.
        max_output_tokens: Most tokens to generate, >= 1.
        tools: Functions on offer, names unique.
        response_schema: What the text must satisfy, or None.
        seed: For servers that sample reproducibly, or None.
        want_logprobs: Ask for log-probabilities; a server may not give any.
    """

    messages: tuple[ChatMessage, ...]
    temperature: float
    max_output_tokens: int
    tools: tuple[ToolDefinition, ...] = ()
    response_schema: JsonSchema | None = None
    seed: int | None = None
    want_logprobs: bool = False

    def __post_init__(self) -> None:
        if not self.messages:
            msg = "messages: must hold at least one message"
            raise ValueError(msg)
        if not (math.isfinite(self.temperature) and 0.0 <= self.temperature <= _MAX_TEMPERATURE):
            msg = f"temperature: must be in [0, {_MAX_TEMPERATURE:g}], got {self.temperature}"
            raise ValueError(msg)
        if self.max_output_tokens < 1:
            msg = f"max_output_tokens: must be >= 1, got {self.max_output_tokens}"
            raise ValueError(msg)
        names = [tool.name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                msg = f"tools: two tools are named {name!r}"
                raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call the model asks for.

    Attributes:
        id: The server's id of the call, possibly empty.
        name: Name of an offered tool.
        arguments_json: JSON text of the arguments; complete unless the completion's
            finish reason is ``length``.
    """

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens counted by the server, each 0 to 10**9."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One generated token beside the tokens that could have stood there.

    Attributes:
        token: Text of the token.
        logprob: Natural logarithm of its probability, <= 0.
        alternatives: Log-probability by token text, ``token`` included.
    """

    token: str
    logprob: float
    alternatives: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A whole answer of one upstream.

    Attributes:
        text: Generated text; empty when the model only called tools.
        tool_calls: Calls in the order of the answer.
        finish_reason: Why generation ended.
        usage: Token counts, or None when the server does not count.
        model: The model that the server says answered.
        upstream: Name of the upstream that answered.
        connect_ns: TCP and TLS set-up; 0 on a connection that was already open.
        first_token_ns: From the start of the answering attempt to its first token; to the
            first byte of the body when the answer is not streamed.
        total_ns: From the start to the end of the answering attempt, earlier ones excluded.
        token_logprobs: One entry a token of ``text``, or None when the server gives none.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage | None
    model: str
    upstream: str
    connect_ns: int
    first_token_ns: int
    total_ns: int
    token_logprobs: tuple[TokenLogprob, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a streamed answer.

    Attributes:
        text: What is new since the last delta; empty in the last one.
        completion: The whole answer, in the last delta only.
    """

    text: str
    completion: Completion | None
