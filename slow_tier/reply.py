"""Put together what a server said, from one JSON body or from many stream events.

What servers do differently (a tool call without an index, arguments as an object, ``stop``
beside tool calls, half a surrogate pair) is evened out here, so that the rest of the
package sees one shape. What only accompanies an answer, token counts, log-probabilities or the
model's name, counts as not told where it cannot be true.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from slow_tier.completion import FinishReason, TokenLogprob, ToolCall, Usage
from slow_tier.errors import InvalidAnswer, UpstreamUnavailable
from slow_tier.structured import load_json

MAX_TOOL_CALLS = 128
# No model reads or writes nearly as many, and every integer type further on holds them.
MAX_USAGE_TOKENS = 1_000_000_000

_DONE = "[DONE]"
# The name goes to callers, so it is no place for a server to put anything else.
_MODEL = re.compile(r"[A-Za-z0-9._:/@+-]{1,128}")
_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server said, before the client adds who it was and how long it took.

    Attributes as in `slow_tier.completion.Completion`; ``model`` is None when not told.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage | None
    model: str | None
    token_logprobs: tuple[TokenLogprob, ...] | None


class ReplyAssembler:
    """Puts the chunks of one answer together.

    Args:
        upstream: Name for error messages.
    """

    def __init__(self, *, upstream: str) -> None:
        self._upstream = upstream
        self._text: list[str] = []
        self._high_surrogate = ""
        self._calls: list[_CallFragments] = []
        self._calls_by_index: dict[int, _CallFragments] = {}
        self._logprobs: list[Any] | None = None
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._model: str | None = None
        self._saw_choice = False
        self._begun = False
        self.done = False

    @property
    def started(self) -> bool:
        """Return whether any text or tool call has arrived."""
        return bool(self._text or self._calls)

    @property
    def begun(self) -> bool:
        """Return whether the model has said anything, thoughts that are not shown included."""
        return self._begun

    @property
    def complete(self) -> bool:
        """Return whether the server said that it was finished, in either of two ways."""
        return self.done or self._finish is not None

    def add_event(self, data: str) -> str:
        """Take the data of one server-sent event, return the text it adds.

        Raises:
            InvalidAnswer: If it is no chunk of a chat completion.
            UpstreamUnavailable: If it is an error object.
        """
        if data.strip() == _DONE:
            self.done = True
            return ""
        payload = load_json(data, upstream=self._upstream, what="stream event")
        return self.add_payload(payload, part="delta")

    def add_payload(self, payload: Any, *, part: str) -> str:
        """Take one decoded object whose choice lies under ``part``, return the added text."""
        if not isinstance(payload, Mapping):
            raise InvalidAnswer(upstream=self._upstream, reason="response is not a JSON object")
        if payload.get("error") is not None:
            raise UpstreamUnavailable(upstream=self._upstream, reason="error object in a 200 reply")
        self._usage = _usage(payload.get("usage")) or self._usage
        model = payload.get("model")
        if isinstance(model, str) and _MODEL.fullmatch(model):
            self._model = model
        choices = payload.get("choices")
        if not choices:  # the last chunk carries token counts alone
            return ""
        choice = choices[0] if isinstance(choices, list) else None
        message = choice.get(part) or {} if isinstance(choice, Mapping) else None
        if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
            raise InvalidAnswer(upstream=self._upstream, reason="malformed choices")
        self._saw_choice = True
        # Servers name the thoughts of a model differently; the role alone is no answer yet.
        self._begun |= any(value for key, value in message.items() if key != "role")
        finish = choice.get("finish_reason")
        self._finish = finish if isinstance(finish, str) else self._finish
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, Mapping) and isinstance(logprobs.get("content"), list):
            self._logprobs = self._logprobs or []
            self._logprobs += logprobs["content"]
        self._add_calls(message.get("tool_calls") or ())
        return self._add_text(message.get("content"))

    def reply(self) -> Reply:
        """Return the whole answer.

        Raises:
            InvalidAnswer: If there was no choice, or a tool call cannot be made out.
        """
        if not self._saw_choice:
            raise InvalidAnswer(upstream=self._upstream, reason="response has no choices")
        if self._high_surrogate:
            self._high_surrogate = ""
            self._text.append("\N{REPLACEMENT CHARACTER}")
        finish = _FINISH_REASONS.get(self._finish or "", "other")
        if self._calls and finish == "stop":
            finish = "tool_calls"
        return Reply(
            text="".join(self._text),
            tool_calls=tuple(self._tool_call(call, cut=finish == "length") for call in self._calls),
            finish_reason=finish,
            usage=self._usage,
            model=self._model,
            token_logprobs=_token_logprobs(self._logprobs),
        )

    def _add_text(self, content: Any) -> str:
        if content is None:
            return ""
        if not isinstance(content, str):
            raise InvalidAnswer(upstream=self._upstream, reason="content is not text")
        # A stream can cut a surrogate pair in two; the first half waits for the second.
        content = self._high_surrogate + content
        self._high_surrogate = content[-1:] if "\ud800" <= content[-1:] <= "\udbff" else ""
        content = content[: len(content) - len(self._high_surrogate)]
        text = _well_formed(content)
        if text:
            self._text.append(text)
        return text

    def _add_calls(self, fragments: Any) -> None:
        if not isinstance(fragments, Iterable):
            raise InvalidAnswer(upstream=self._upstream, reason="malformed tool calls")
        for fragment in fragments:
            function = fragment.get("function") if isinstance(fragment, Mapping) else None
            if not isinstance(function, Mapping):
                raise InvalidAnswer(upstream=self._upstream, reason="malformed tool call")
            call = self._slot(fragment)
            call.id = call.id or str(fragment.get("id") or "")
            call.name.append(str(function.get("name") or ""))
            arguments = function.get("arguments") or ""
            call.arguments.append(
                arguments if isinstance(arguments, str) else json.dumps(arguments)
            )

    def _slot(self, fragment: Mapping[str, Any]) -> _CallFragments:
        """Find the call that a fragment continues; without an index, an id starts a new one."""
        index = fragment.get("index")
        if not isinstance(index, int):
            index = None
        elif index in self._calls_by_index:
            return self._calls_by_index[index]
        if index is None and self._calls and not fragment.get("id"):
            return self._calls[-1]
        if len(self._calls) == MAX_TOOL_CALLS:
            reason = f"more than {MAX_TOOL_CALLS} tool calls"
            raise InvalidAnswer(upstream=self._upstream, reason=reason)
        call = _CallFragments()
        self._calls.append(call)
        if index is not None:
            self._calls_by_index[index] = call
        return call

    def _tool_call(self, call: _CallFragments, *, cut: bool) -> ToolCall:
        name = "".join(call.name)
        arguments = "".join(call.arguments) or "{}"
        if not name:
            raise InvalidAnswer(upstream=self._upstream, reason="tool call without a name")
        if not cut:
            load_json(arguments, upstream=self._upstream, what="tool call's arguments")
        return ToolCall(
            id=_well_formed(call.id),
            name=_well_formed(name),
            arguments_json=_well_formed(arguments),
        )


@dataclass(slots=True, kw_only=True)
class _CallFragments:
    id: str = ""
    name: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


def _well_formed(text: str) -> str:
    """Join surrogate pairs, replace halves: JSON can escape them, UTF-8 cannot hold them."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _usage(raw: Any) -> Usage | None:
    if not isinstance(raw, Mapping):
        return None
    prompt, completion = raw.get("prompt_tokens"), raw.get("completion_tokens")
    if not (_is_count(prompt) and _is_count(completion)):
        return None
    return Usage(prompt_tokens=prompt, completion_tokens=completion)


def _is_count(value: Any) -> TypeGuard[int]:
    # A truth value is an int to Python.
    return type(value) is int and 0 <= value <= MAX_USAGE_TOKENS


def _token_logprobs(entries: list[Any] | None) -> tuple[TokenLogprob, ...] | None:
    """Read the entries, None unless every one is well formed: a gap would shift the rest."""
    if entries is None:
        return None
    tokens = []
    for entry in entries:
        try:
            token, logprob = _token(entry)
            alternatives = dict(map(_token, entry.get("top_logprobs") or ()))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            return None
        # A sampled token need not be among the most probable ones.
        alternatives[token] = logprob
        tokens.append(TokenLogprob(token=token, logprob=logprob, alternatives=alternatives))
    return tuple(tokens)


def _token(entry: Mapping[str, Any]) -> tuple[str, float]:
    token, logprob = entry["token"], float(entry["logprob"])
    is_number = type(entry["logprob"]) in {int, float}
    if not is_number or not isinstance(token, str) or math.isnan(logprob) or logprob > 0.0:
        raise ValueError
    return token, logprob
