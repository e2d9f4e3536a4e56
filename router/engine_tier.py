"""Let a language model inside this process answer as a text tier."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from fast_tier.errors import DeadlineExceeded, FastTierError
from fast_tier.text_engine import TextCompletion, TextEngine
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
        perf_ns: Nanoseconds, for durations.
    """

    def __init__(
        self, engine: TextEngine, *, system_prompt: str, perf_ns: Callable[[], int]
    ) -> None:
        self._engine = engine
        self._system_prompt = system_prompt
        self._perf_ns = perf_ns

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
        stream: bool,
        on_attempt: Callable[[Attempt], None],
    ) -> AsyncGenerator[Delta, None]:
        """Yield an answer as `router.tiers.TextTier.generate` says."""
        started_ns = self._perf_ns()

        def failed(outcome: str, detail: str) -> None:
            elapsed_ns = self._perf_ns() - started_ns
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
        except InvalidAnswer as error:
            failed(error.outcome, error.reason)
            raise InvalidTierAnswer(upstream=_IN_PROCESS, detail=error.reason) from error
        except FastTierError as error:
            failed(type(error).__name__, "")
            raise TierFailed(upstream=_IN_PROCESS, detail=type(error).__name__) from error

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
