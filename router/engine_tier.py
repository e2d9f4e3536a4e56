"""Let a language model inside this process answer as a text tier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from fast_tier.errors import DeadlineExceeded, FastTierError
from fast_tier.text_engine import TextCompletion, TextDelta, TextEngine
from router.clock import Clock
from router.errors import DeadlinePassed
from router.tiers import Attempt, InvalidTierAnswer, TierFailed, model_revision
from slow_tier.completion import Completion, CompletionRequest, Delta, Usage
from slow_tier.errors import InvalidAnswer
from slow_tier.structured import check_json, repair_json

_IN_PROCESS = ""


class EngineTier:
    """A loaded engine behind the shape of `router.tiers.TextTier`.

    Args:
        engine: Generates.
        system_prompt: What the engine was loaded with.
        clock: For durations and for when to give up.
    """

    def __init__(self, engine: TextEngine, *, system_prompt: str, clock: Clock) -> None:
        self._engine = engine
        self._system_prompt = system_prompt
        self._clock = clock

    @property
    def models(self) -> tuple[str, ...]:
        """Name of the model with the checksum of its file."""
        return (f"in-process:{model_revision(self._engine.model, self._engine.revision)}",)

    @property
    def system_prompts(self) -> tuple[str, ...]:
        """What the model is told where the caller gives no system message."""
        return (self._system_prompt,)

    async def generate(
        self,
        request: CompletionRequest,
        *,
        deadline_s: float,
        start_by_s: float,
        stream: bool,
        on_attempt: Callable[[Attempt], None],
    ) -> AsyncGenerator[Delta, None]:
        """Yield an answer as `router.tiers.TextTier.generate` says."""
        started_ns = self._clock.perf_ns()

        def failed(outcome: str, detail: str) -> None:
            elapsed_ns = self._clock.perf_ns() - started_ns
            on_attempt(
                Attempt(upstream=_IN_PROCESS, outcome=outcome, elapsed_ns=elapsed_ns, detail=detail)
            )

        try:
            deltas = self._engine.stream(
                [(message.role, message.content) for message in request.messages],
                temperature=request.temperature,
                max_output_tokens=request.max_output_tokens,
                deadline_s=deadline_s,
                seed=request.seed,
            )
            if start_by_s < deadline_s:
                deltas = self._started_in_time(deltas, start_by_s, streamed=stream)
            async with aclosing(deltas):
                async for delta in deltas:
                    if delta.completion is not None:
                        text = _checked(delta.completion, request)
                        yield Delta(text="", completion=_completion(delta.completion, text))
                    elif stream:
                        yield Delta(text=delta.text, completion=None)
        except DeadlineExceeded:
            msg = "the deadline passed while an answer was being generated"
            raise DeadlinePassed(msg) from None
        except TimeoutError:  # the base class of the one above
            failed("timeout", "no answer began in time")
            raise TierFailed(upstream=_IN_PROCESS, detail="timeout") from None
        except InvalidAnswer as error:
            failed(error.outcome, error.reason)
            raise InvalidTierAnswer(upstream=_IN_PROCESS, detail=error.reason) from error
        except FastTierError as error:
            failed(type(error).__name__, "")
            raise TierFailed(upstream=_IN_PROCESS, detail=type(error).__name__) from error

    async def _started_in_time(
        self, deltas: AsyncGenerator[TextDelta, None], start_by_s: float, *, streamed: bool
    ) -> AsyncGenerator[TextDelta, None]:
        """Yield the deltas, the first one, or without streaming every one, in time.

        Raises:
            TimeoutError: If ``start_by_s`` passes before.
        """
        waiting = True
        async with aclosing(deltas):
            while True:
                wait_s = start_by_s - self._clock.monotonic_s() if waiting else None
                async with asyncio.timeout(wait_s):
                    delta = await anext(deltas, None)
                if delta is None:
                    return
                yield delta
                waiting = not streamed

    def model_revision(self, completion: Completion) -> str:
        """Return the model with the checksum of its file."""
        return model_revision(completion.model, self._engine.revision)


def _checked(completion: TextCompletion, request: CompletionRequest) -> str:
    """Return the text, its JSON repaired, if it is what was asked for."""
    text = completion.text
    if not text.strip():
        raise InvalidAnswer(upstream=_IN_PROCESS, reason="empty answer")
    if request.response_schema is None or completion.finish_reason == "length":
        return text
    text = repair_json(text, upstream=_IN_PROCESS)
    check_json(text, request.response_schema, upstream=_IN_PROCESS)
    return text


def _completion(completion: TextCompletion, text: str) -> Completion:
    return Completion(
        text=text,
        tool_calls=(),
        finish_reason=completion.finish_reason,
        usage=Usage(
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
        ),
        model=completion.model,
        upstream=_IN_PROCESS,
        connect_ns=0,
        first_token_ns=completion.first_token_ns,
        total_ns=completion.total_ns,
        token_logprobs=None,
    )
