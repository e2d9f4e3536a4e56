"""Generate text with a GGUF model inside this process.

Runs llama.cpp through the ``xllamacpp`` package (extra ``llm``), so that a simple question is
answered without a network hop. Two habits of that library shape this module:

* It stops only when a streaming callback says so, hence every generation streams, and one that
  nobody waits for ends at its next token. Reading the prompt cannot be interrupted; the caller
  does not wait for it, its slot does.
* Its threads meet in spinning barriers: with more threads than idle cores it is slower by one
  or two orders of magnitude, so count ``threads`` low.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fast_tier.chat_completion import ChunkCollector, TextCompletion, request_body
from fast_tier.errors import DeadlineExceeded, GenerationFailed, ModelUnavailable
from fast_tier.llama_server import gguf_revision, start_server

__all__ = ["TextCompletion", "TextDelta", "TextEngine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """One step of a stream.

    Attributes:
        text: What this step adds; empty in the last one.
        completion: The whole answer, in the last step only.
    """

    text: str
    completion: TextCompletion | None = None


class TextEngine:
    """A loaded model; safe to call from many tasks at once.

    Build it with `load`. At most ``slots`` generations run, the rest wait in order.

    Attributes:
        model: Name of the model, the file's stem.
        revision: ``"sha256:"`` and the digest of the whole file, so any other weights are
            another revision. About 1 s for each GB, once, at load.
        context_tokens: What one request may use, prompt plus answer.
    """

    def __init__(
        self,
        *,
        server: Any,
        model: str,
        revision: str,
        context_tokens: int,
        slots: int,
        system_prompt: str,
        clock_ns: Callable[[], int],
    ) -> None:
        self.model = model
        self.revision = revision
        self.context_tokens = context_tokens
        self._server = server
        self._system_prompt = system_prompt
        self._clock_ns = clock_ns
        self._executor = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="text-engine")
        self._closing = threading.Event()

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        context_tokens: int,
        threads: int,
        system_prompt: str,
        slots: int = 2,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> Self:
        """Load a GGUF file; blocks for seconds.

        Args:
            path: The model, with its chat template inside.
            context_tokens: What one request may use, prompt plus answer, > 0.
            threads: CPU threads of one step, >= 1; never more than there are idle cores.
            system_prompt: Sent where the messages bring none. Must not be blank: small models
                answer in another language or style without one.
            slots: Generations at once, >= 1; each has memory for its own context.
            clock_ns: Monotonic time in ns; the deadlines of the calls are on the same clock.

        Raises:
            ValueError: If a number or the system prompt is out of range.
            ModelUnavailable: If the file is missing, is not a GGUF or cannot be loaded, or if the
                library is not installed.
        """
        sizes = {"context_tokens": context_tokens, "threads": threads, "slots": slots}
        for name, value in sizes.items():
            if value < 1:
                msg = f"{name}: must be >= 1, got {value}"
                raise ValueError(msg)
        if not system_prompt.strip():
            msg = "system_prompt: must not be blank"
            raise ValueError(msg)
        revision = gguf_revision(path)
        server = start_server(path, context_tokens=context_tokens, threads=threads, slots=slots)
        return cls(
            server=server,
            model=path.stem,
            revision=revision,
            context_tokens=context_tokens,
            slots=slots,
            system_prompt=system_prompt,
            clock_ns=clock_ns,
        )

    async def generate(
        self,
        messages: Sequence[tuple[str, str]],
        *,
        temperature: float,
        max_output_tokens: int,
        deadline_s: float,
        seed: int | None = None,
    ) -> TextCompletion:
        """Return the whole answer; arguments and errors are those of `stream`."""
        deltas = self.stream(
            messages,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            deadline_s=deadline_s,
            seed=seed,
        )
        async with aclosing(deltas):
            async for delta in deltas:
                if delta.completion is not None:
                    return delta.completion
        msg = f"{self.model}: the stream ended without a completion"
        raise GenerationFailed(msg)

    async def stream(
        self,
        messages: Sequence[tuple[str, str]],
        *,
        temperature: float,
        max_output_tokens: int,
        deadline_s: float,
        seed: int | None = None,
    ) -> AsyncGenerator[TextDelta, None]:
        """Yield the answer as it is generated; the last delta carries the completion.

        Closing the iterator or cancelling the task stops the generation at its next token.

        Args:
            messages: Pairs of role (system, user, assistant) and content, oldest first.
            temperature: Sampling temperature in [0, 2]; 0 is greedy.
            max_output_tokens: Limit of the answer, >= 1.
            deadline_s: Absolute time on the engine's clock, in seconds.
            seed: The same seed gives the same answer while no other request runs; ``None`` draws
                one. A seeded call reads its whole prompt anew.

        Raises:
            InvalidRequest: If a field is out of range or the messages exceed the context.
            DeadlineExceeded: If the deadline passes, before or during the generation.
            ModelUnavailable: If the engine is closed.
            GenerationFailed: If the model breaks off.
        """
        started_ns = self._clock_ns()
        body = request_body(
            messages,
            system_prompt=self._system_prompt,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            seed=seed,
        )
        self._require_time(deadline_s)
        if self._closing.is_set():
            raise self._closed()
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        abandoned = threading.Event()

        def publish(piece: str) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        worker = loop.run_in_executor(
            self._executor, self._run, body, started_ns, deadline_s, abandoned, publish
        )
        worker.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while True:
                try:
                    async with asyncio.timeout(deadline_s - self._clock_ns() / 1e9):
                        piece = await pieces.get()
                except TimeoutError:
                    raise self._late() from None
                if piece is None:
                    break
                yield TextDelta(text=piece)
            if worker.cancelled():
                raise self._closed()
            yield TextDelta(text="", completion=worker.result())
        finally:
            abandoned.set()
            worker.cancel()

    def close(self) -> None:
        """Stop what runs, then free the model; blocks until the current token is done."""
        self._closing.set()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._server = None

    def _run(
        self,
        body: dict[str, Any],
        started_ns: int,
        deadline_s: float,
        abandoned: threading.Event,
        publish: Callable[[str], None],
    ) -> TextCompletion:
        """Generate in a thread of the executor."""
        collector = ChunkCollector(started_ns=started_ns)

        def stops(chunk: dict[str, Any]) -> bool:
            # An exception in here is swallowed by the library, which then stops.
            if abandoned.is_set() or self._closing.is_set() or self._is_late(deadline_s):
                return True
            if piece := collector.add(chunk, now_ns=self._clock_ns()):
                publish(piece)
            return False

        self._require_time(deadline_s)
        if not abandoned.is_set():
            try:
                self._server.handle_chat_completions(body, stops)
            except (RuntimeError, ValueError) as error:
                # Without its cause: the library's parse errors quote the prompt.
                msg = f"{self.model}: llama.cpp raised {type(error).__name__}"
                raise GenerationFailed(msg) from None
        if not collector.usage and collector.error is None:
            self._require_time(deadline_s)
            if self._closing.is_set():
                raise self._closed()
        return collector.completion(
            model=self.model, context_tokens=self.context_tokens, now_ns=self._clock_ns()
        )

    def _is_late(self, deadline_s: float) -> bool:
        return self._clock_ns() / 1e9 >= deadline_s

    def _require_time(self, deadline_s: float) -> None:
        if self._is_late(deadline_s):
            raise self._late()

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"{self.model}: the deadline passed before the answer was complete")

    def _closed(self) -> ModelUnavailable:
        return ModelUnavailable(f"{self.model}: the engine is closed")
