"""Put every text model behind one shape: the fast tier, whatever runs it, the slow tier too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from router.errors import DeadlinePassed
from slow_tier.client import Attempt, ChatClient
from slow_tier.completion import Completion, CompletionRequest, Delta
from slow_tier.errors import DeadlineExceeded, InvalidAnswer, SlowTierError, UpstreamRejected
from slow_tier.upstream import Upstream

__all__ = ["Attempt", "ChatTier", "InvalidTierAnswer", "TextTier", "TierFailed", "TierRefused"]


class TierFailed(Exception):  # noqa: N818 - reads as what happened
    """A tier gave no answer.

    Attributes:
        upstream: Name of the server that failed last; empty for a model in process.
        detail: A technical word, never any user text.
    """

    def __init__(self, *, upstream: str, detail: str) -> None:
        super().__init__(f"{upstream or 'in process'}: {detail}")
        self.upstream = upstream
        self.detail = detail


class InvalidTierAnswer(TierFailed):
    """A tier answered, but not what was asked for."""


class TierRefused(TierFailed):
    """A server found fault with the request itself."""


class TextTier(Protocol):
    """A model, or several that stand in for each other, that writes text."""

    @property
    def models(self) -> tuple[str, ...]:
        """Name, model and revision of every model that may answer."""
        ...

    @property
    def system_prompts(self) -> tuple[str, ...]:
        """What each of them is told where the caller gives no system message."""
        ...

    def generate(
        self,
        request: CompletionRequest,
        *,
        deadline_s: float,
        start_by_s: float,
        stream: bool,
        on_attempt: Callable[[Attempt], None],
    ) -> AsyncGenerator[Delta, None]:
        """Yield an answer; the last delta carries the completion.

        Args:
            request: What to generate.
            deadline_s: Absolute monotonic time; nothing is generated after it.
            start_by_s: Absolute monotonic time; an answer that has not begun by then (one that
                is not streamed: that is not whole) fails, before the deadline passes.
            stream: Yield text as it is generated; else the completion alone.
            on_attempt: Called once after each attempt at a model.

        Raises:
            TierFailed: No model answered; `InvalidTierAnswer` where one broke the schema,
                `TierRefused` where one wants another request.
            DeadlinePassed: The deadline passed first.
        """
        ...

    def model_revision(self, completion: Completion) -> str:
        """Return model and revision that wrote ``completion``."""
        ...


class ChatTier:
    """Chat-completion servers in order of preference.

    Args:
        client: Asks them.
        upstreams: Those the client asks.
    """

    def __init__(self, client: ChatClient, upstreams: Sequence[Upstream]) -> None:
        self._client = client
        self._revisions = {upstream.name: upstream.revision for upstream in upstreams}
        self._models = tuple(
            f"{upstream.name}:{model_revision(upstream.model, upstream.revision)}"
            for upstream in upstreams
        )
        self._system_prompts = tuple(upstream.system_prompt or "" for upstream in upstreams)

    @property
    def models(self) -> tuple[str, ...]:
        """Name, model and revision of every server."""
        return self._models

    @property
    def system_prompts(self) -> tuple[str, ...]:
        """System prompt of every server, empty where it has none."""
        return self._system_prompts

    async def generate(
        self,
        request: CompletionRequest,
        *,
        deadline_s: float,
        start_by_s: float,
        stream: bool,
        on_attempt: Callable[[Attempt], None],
    ) -> AsyncGenerator[Delta, None]:
        """Yield an answer as `TextTier.generate` says."""
        try:
            if not stream:
                completion = await self._client.complete(
                    request, deadline_s=deadline_s, start_by_s=start_by_s, on_attempt=on_attempt
                )
                yield Delta(text="", completion=completion)
                return
            deltas = self._client.stream(
                request, deadline_s=deadline_s, start_by_s=start_by_s, on_attempt=on_attempt
            )
            async with aclosing(deltas):
                async for delta in deltas:
                    yield delta
        except DeadlineExceeded:
            msg = "the deadline passed while an answer was being generated"
            raise DeadlinePassed(msg) from None
        except InvalidAnswer as error:
            raise InvalidTierAnswer(upstream=error.upstream, detail=error.reason) from error
        except SlowTierError as error:
            refused = isinstance(error, UpstreamRejected) and not error.elsewhere
            failure = TierRefused if refused else TierFailed
            raise failure(upstream=error.upstream, detail=error.outcome) from error

    def model_revision(self, completion: Completion) -> str:
        """Return the model as the server names it with the revision as configured."""
        return model_revision(completion.model, self._revisions.get(completion.upstream, ""))


def model_revision(model: str, revision: str) -> str:
    """Return ``model@revision``, or the model alone where no revision is configured."""
    return f"{model}@{revision}" if revision else model
