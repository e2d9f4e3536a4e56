"""Run a labelling from its first question to its last."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from router.errors import ConfigError
from router.labelling.asking import Respondent
from router.labelling.journal import Journal
from router.labelling.labeller import Failure, Label, Pair, label_prompts
from router.labelling.prompts import Prompt
from slow_tier.client import ChatClient
from slow_tier.errors import InvalidAnswer, SlowTierError, UpstreamRejected
from slow_tier.upstream import Upstream

# With fewer failures a run goes on to its end, so that all of them are told.
_TOLERATED_FAILURES = 20
_SHOWN_MODELS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a pair is asked.

    Attributes:
        fast: Server of the fast model, named ``fast``.
        slow: Server of the slow model, named ``slow``.
        ask_for_models: Names of those of the two whose model is the only one they list.
        concurrency: Prompts at a time, >= 1.
        timeout_s: Longest time for one answer, retries included, seconds > 0.
        max_output_tokens: Most tokens of an answer, >= 1.
        seed: Sent to the servers.
        max_failed_share: Share of the prompts that may fail, in [0, 1].
    """

    fast: Upstream
    slow: Upstream
    ask_for_models: frozenset[str]
    concurrency: int
    timeout_s: float
    max_output_tokens: int
    seed: int
    max_failed_share: float


class Results:
    """What is known so far, readable at any time, an interruption included.

    Args:
        prompts: All that are to be labelled.
        max_failed_share: Share of them that may fail, in [0, 1].
    """

    def __init__(self, prompts: Sequence[Prompt], *, max_failed_share: float) -> None:
        self._order = {prompt.place: index for index, prompt in enumerate(prompts)}
        # .29 * 100 is 28.999999999999996, and 29 may fail.
        self._allowed = math.floor(max_failed_share * len(prompts) + 1e-9)
        self._labels: list[Label] = []
        self._failures: list[Failure] = []

    def add(self, result: Label | Failure) -> None:
        """Note one result."""
        if isinstance(result, Label):
            self._labels.append(result)
        else:
            self._failures.append(result)

    @property
    def labels(self) -> list[Label]:
        """In the order of the prompts."""
        return sorted(self._labels, key=lambda label: self._order[label.prompt.place])

    @property
    def failures(self) -> list[Failure]:
        """In the order of the prompts."""
        return sorted(self._failures, key=lambda failure: self._order[failure.place])

    @property
    def too_many_failed(self) -> bool:
        """More failed than may, or everything did."""
        all_failed = bool(self._failures) and not self._labels
        return all_failed or len(self._failures) > self._allowed

    def worth_going_on(self) -> bool:
        """Return False once so much failed that whoever is to blame should be looked at."""
        return len(self._failures) <= max(self._allowed, _TOLERATED_FAILURES)


async def run(
    prompts: Sequence[Prompt],
    settings: RunSettings,
    *,
    journal: Journal,
    results: Results,
    on_progress: Callable[[], None],
) -> None:
    """Label prompts; stop early once too many fail.

    Args:
        prompts: What to ask.
        settings: Whom to ask, and how.
        journal: Answers given before; gets the new ones.
        results: Gets every result as soon as it is known.
        on_progress: Called after each.

    Raises:
        ConfigError: If a model's name cannot be found out or the journal cannot be written.
    """

    def note(result: Label | Failure) -> None:
        results.add(result)
        on_progress()

    async with AsyncExitStack() as stack:
        pair = Pair(
            fast=await _respondent(settings.fast, settings, journal, stack),
            slow=await _respondent(settings.slow, settings, journal, stack),
            max_output_tokens=settings.max_output_tokens,
            seed=settings.seed,
        )
        await label_prompts(
            prompts,
            pair,
            concurrency=settings.concurrency,
            on_result=note,
            going_on=results.worth_going_on,
        )


async def _respondent(
    upstream: Upstream, settings: RunSettings, journal: Journal, stack: AsyncExitStack
) -> Respondent:
    jitter = random.Random(settings.seed)  # noqa: S311 - spreads retries, guards nothing
    client = ChatClient([upstream], clock=time.monotonic, random=jitter)
    stack.push_async_callback(client.aclose)
    if upstream.name in settings.ask_for_models:
        model = await _only_model(client, upstream.name, timeout_s=settings.timeout_s)
        upstream = replace(upstream, model=model)
        client = ChatClient([upstream], clock=time.monotonic, random=jitter)
        stack.push_async_callback(client.aclose)
    return Respondent(
        client,
        upstream,
        journal=journal,
        clock=time.monotonic,
        timeout_s=settings.timeout_s,
    )


async def _only_model(client: ChatClient, name: str, *, timeout_s: float) -> str:
    """Return the one model that a server lists."""
    option = f"--{name}-model"
    try:
        models = (await client.probe(name, time.monotonic() + timeout_s)).models
    except (UpstreamRejected, InvalidAnswer) as error:
        msg = f"{option}: name one; the server does not list its models ({error.reason})"
        raise ConfigError(msg) from error
    except SlowTierError as error:
        msg = f"--{name}: {error.reason}"
        raise ConfigError(msg) from error
    if len(models) != 1:
        listed = ", ".join(models[:_SHOWN_MODELS]) or "none"
        msg = f"{option}: name one; the server lists {listed}"
        raise ConfigError(msg)
    return models[0]
