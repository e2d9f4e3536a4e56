"""Ask one model, unless its answer is known already."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from router.labelling.journal import Answer, Journal
from slow_tier.client import ChatClient
from slow_tier.completion import CompletionRequest
from slow_tier.errors import InvalidAnswer
from slow_tier.upstream import Upstream
from slow_tier.wire import encode_request


class Respondent:
    """One model of the pair.

    Args:
        client: Asks ``upstream`` and nobody else.
        upstream: The server with the model.
        journal: Keeps the answers.
        clock: Monotonic seconds, the client's.
        timeout_s: Longest time for one answer, its retries included, seconds > 0.
    """

    def __init__(
        self,
        client: ChatClient,
        upstream: Upstream,
        *,
        journal: Journal,
        clock: Callable[[], float],
        timeout_s: float,
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._journal = journal
        self._clock = clock
        self._timeout_s = timeout_s

    async def ask(
        self, request: CompletionRequest, *, worth_keeping: Callable[[Answer], bool] | None = None
    ) -> Answer:
        """Return the model's answer.

        An answer that is empty or breaks the request's schema is the model's own failure, and
        comes back without text.

        Args:
            request: What is asked.
            worth_keeping: Answers it returns False for are neither kept nor used again; None
                keeps all.

        Raises:
            SlowTierError: If there is no answer: the server's failure, or ours.
        """
        key = self._key(request)
        known = self._journal.find(key, worth_keeping)
        if known is not None:
            return known
        try:
            completion = await self._client.complete(
                request, deadline_s=self._clock() + self._timeout_s
            )
        except InvalidAnswer as error:
            if not _blames_the_model(error):
                raise
            answer = Answer(
                text="", finish_reason="invalid", prompt_tokens=None, completion_tokens=None
            )
        else:
            usage = completion.usage
            answer = Answer(
                text=completion.text,
                finish_reason=completion.finish_reason,
                prompt_tokens=None if usage is None else usage.prompt_tokens,
                completion_tokens=None if usage is None else usage.completion_tokens,
            )
        if worth_keeping is None or worth_keeping(answer):
            self._journal.keep(key, answer)
        return answer

    def _key(self, request: CompletionRequest) -> str:
        """Hash server and body, which holds model, text, schema and sampling settings."""
        body = encode_request(
            request,
            model=self._upstream.model,
            system_prompt=self._upstream.system_prompt,
            dialect=self._upstream.dialect,
            stream=False,
        )
        return hashlib.sha256(self._upstream.url.encode() + b"\0" + body).hexdigest()


def _blames_the_model(error: InvalidAnswer) -> bool:
    """Tell an answer that is no good from a response that is no chat completion at all."""
    return "answer" in error.reason
