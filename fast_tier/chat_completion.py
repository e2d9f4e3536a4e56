"""Translate between plain values and the chat-completions JSON that llama.cpp speaks.

The format is that of OpenAI's chat-completions API, with llama.cpp's own ``cache_prompt`` field
and error types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fast_tier.errors import ContextOverflow, GenerationFailed, InvalidRequest

FinishReason = Literal["stop", "length"]

_ROLES = ("system", "user", "assistant")
_MAX_TEMPERATURE = 2.0
# llama.cpp reads the largest uint32 as "draw a seed".
_MAX_SEED = 2**32 - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCompletion:
    """One finished answer.

    Attributes:
        text: What the model wrote; may be empty.
        finish_reason: ``"stop"`` when the model ended by itself, ``"length"`` at a limit.
        prompt_tokens: Tokens of the rendered messages, >= 1.
        completion_tokens: Tokens generated, >= 0.
        model: Name of the model, the file's stem.
        first_token_ns: From the call to the model's first token, waiting for a slot included.
        total_ns: From the call to the last token.
    """

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    model: str
    first_token_ns: int
    total_ns: int


@dataclass(slots=True, kw_only=True)
class ChunkCollector:
    """Adds up the chunks of one generation (OpenAI ``chat.completion.chunk`` objects)."""

    started_ns: int
    first_token_ns: int | None = None
    pieces: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    error: dict[str, Any] | None = None

    def add(self, chunk: dict[str, Any], *, now_ns: int) -> str:
        """Return the text this chunk adds, ``""`` for one without text."""
        if "error" in chunk:
            self.error = chunk["error"]
            return ""
        if self.first_token_ns is None:
            self.first_token_ns = now_ns - self.started_ns
        self.usage = chunk.get("usage") or self.usage
        text = ""
        for choice in chunk["choices"]:
            self.finish_reason = choice["finish_reason"] or self.finish_reason
            text += choice["delta"].get("content") or ""
        if text:
            self.pieces.append(text)
        return text

    def completion(self, *, model: str, context_tokens: int, now_ns: int) -> TextCompletion:
        """Return the answer after the last chunk.

        Raises:
            ContextOverflow: If the messages are longer than the context.
            GenerationFailed: If the model reported an error or broke off.
        """
        if self.error is not None:
            kind = str(self.error.get("type", "unknown"))
            if kind == "exceed_context_size_error":
                raise ContextOverflow(
                    prompt_tokens=self.error.get("n_prompt_tokens"),
                    context_tokens=self.error.get("n_ctx", context_tokens),
                )
            # The library's own message may quote the prompt.
            msg = f"{model}: llama.cpp reports {kind}, code {self.error.get('code')}"
            raise GenerationFailed(msg)
        if self.finish_reason not in ("stop", "length") or not self.usage:
            msg = f"{model}: the generation ended without finish reason or usage"
            raise GenerationFailed(msg)
        total_ns = now_ns - self.started_ns
        return TextCompletion(
            text="".join(self.pieces),
            finish_reason="stop" if self.finish_reason == "stop" else "length",
            prompt_tokens=self.usage["prompt_tokens"],
            completion_tokens=self.usage["completion_tokens"],
            model=model,
            first_token_ns=total_ns if self.first_token_ns is None else self.first_token_ns,
            total_ns=total_ns,
        )


def request_body(
    messages: Sequence[tuple[str, str]],
    *,
    system_prompt: str,
    temperature: float,
    max_output_tokens: int,
    seed: int | None,
) -> dict[str, Any]:
    """Return the body of a streamed chat completion.

    Args:
        messages: Pairs of role (system, user, assistant) and content; one is a user turn.
        system_prompt: Put first where the messages hold no system turn.
        temperature: In [0, 2].
        max_output_tokens: At least 1.
        seed: In [0, 2**32 - 2], or ``None`` for a drawn one.

    Raises:
        InvalidRequest: Naming the field and its limit.
    """
    return {
        "messages": _chat(messages, system_prompt=system_prompt),
        **_sampling(temperature=temperature, max_output_tokens=max_output_tokens, seed=seed),
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _chat(messages: Sequence[tuple[str, str]], *, system_prompt: str) -> list[dict[str, str]]:
    chat: list[dict[str, str]] = []
    for index, (role, content) in enumerate(messages):
        if role not in _ROLES:
            msg = f"messages[{index}].role: must be one of {', '.join(_ROLES)}"
            raise InvalidRequest(msg)
        # A lone surrogate is no Unicode text; without a cause, which would quote the content.
        if any("\ud800" <= character <= "\udfff" for character in content):
            msg = f"messages[{index}].content: holds a lone surrogate"
            raise InvalidRequest(msg)
        chat.append({"role": role, "content": content})
    if not any(message["role"] == "user" for message in chat):
        msg = "messages: needs a user turn"
        raise InvalidRequest(msg)
    if not any(message["role"] == "system" for message in chat):
        chat.insert(0, {"role": "system", "content": system_prompt})
    return chat


def _sampling(*, temperature: float, max_output_tokens: int, seed: int | None) -> dict[str, Any]:
    if not 0.0 <= temperature <= _MAX_TEMPERATURE:
        msg = f"temperature: must be in [0, {_MAX_TEMPERATURE}], got {temperature}"
        raise InvalidRequest(msg)
    if max_output_tokens < 1:
        msg = f"max_output_tokens: must be >= 1, got {max_output_tokens}"
        raise InvalidRequest(msg)
    sampling: dict[str, Any] = {"temperature": temperature, "max_tokens": max_output_tokens}
    if seed is not None:
        if not 0 <= seed <= _MAX_SEED:
            msg = f"seed: must be in [0, {_MAX_SEED}], got {seed}"
            raise InvalidRequest(msg)
        # Reused state is rounded differently, which can change a sampled token.
        sampling |= {"seed": seed, "cache_prompt": False}
    return sampling
