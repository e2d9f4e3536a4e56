"""Stand in for llama.cpp in tests that have no model.

``ScriptedLlamaServer`` takes the place of ``xllamacpp.Server`` behind a real ``TextEngine``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


def content_chunk(text: str) -> dict[str, Any]:
    """Return the chunk of one generated token."""
    return {"choices": [{"index": 0, "finish_reason": None, "delta": {"content": text}}]}


def final_chunks(
    *, finish_reason: str = "stop", prompt_tokens: int = 30, completion_tokens: int = 8
) -> list[dict[str, Any]]:
    """Return the chunks that end a generation: the finish reason, then the usage."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return [
        {"choices": [{"index": 0, "finish_reason": finish_reason, "delta": {}}]},
        {"choices": [], "usage": usage},
    ]


class ScriptedLlamaServer:
    """Play the same chunks for every request.

    Attributes:
        bodies: The requests received, oldest first.
        stopped_at: For each request, how many chunks were played before the caller's callback
            asked to stop, ``None`` where it never did.
    """

    def __init__(
        self,
        chunks: Sequence[dict[str, Any]],
        *,
        error: Exception | None = None,
        gate: threading.Event | None = None,
    ) -> None:
        """Keep the script.

        Args:
            chunks: Played in order.
            error: Raised after the chunks.
            gate: Waited for, at most 5 s, between the first chunk and the second.
        """
        self.bodies: list[dict[str, Any]] = []
        self.stopped_at: list[int | None] = []
        self._chunks = chunks
        self._error = error
        self._gate = gate

    def handle_chat_completions(
        self, body: dict[str, Any], callback: Callable[[dict[str, Any]], bool]
    ) -> None:
        """Call back with one chunk after another until the callback returns true."""
        self.bodies.append(body)
        for count, chunk in enumerate(self._chunks):
            if count == 1 and self._gate is not None:
                self._gate.wait(timeout=5.0)
            if callback(chunk):
                self.stopped_at.append(count)
                return
        self.stopped_at.append(None)
        if self._error is not None:
            raise self._error
