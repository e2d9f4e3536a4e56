"""Score routing rows with what one would use instead of this project.

Every baseline that learns is fitted on the train and dev rows of all sources, with the target
"the weak model fails" and, for the strong model's expected gain, a regression on the gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from router.evaluation.bootstrap import Floats
from router.evaluation.heuristic import complexity
from router.evaluation.progress import say
from router.evaluation.ranking import auc
from router.evaluation.routing_curve import apgr
from router.evaluation.routing_set import RoutingSet
from router.evaluation.settings import Settings
from router.evaluation.teacher_vectors import teacher_vectors
from router.evaluation.text_models import TfidfTexts, probability_of, standardised, value_of

_PRIOR_ROWS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """How a router orders rows, each of shape ``(rows,)``.

    Attributes:
        hardness: Higher = the weak model is more likely to fail.
        gain: Higher = the strong model is expected to gain more.
    """

    hardness: Floats
    gain: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A baseline that could not run, with the reason."""

    reason: str


Baseline: TypeAlias = Callable[[RoutingSet, RoutingSet, Settings], Scores]


def random_order(train: RoutingSet, test: RoutingSet, settings: Settings) -> Scores:
    """Order at random, with a fixed seed."""
    del train
    rng = np.random.default_rng(settings.resampling.seed)
    return Scores(hardness=rng.random(len(test)), gain=rng.random(len(test)))


def prompt_length(train: RoutingSet, test: RoutingSet, settings: Settings) -> Scores:
    """Order by characters, longest or shortest first, whichever is better on the train rows."""
    del settings
    seen, wanted = (
        np.asarray([len(p) for p in s.prompts], dtype=np.float64) for s in (train, test)
    )
    by_failure = 1.0 if auc(train.weak_fails, seen)[0] >= 0.5 else -1.0
    by_gain = 1.0 if apgr(train.gain, seen)[0] >= apgr(train.gain, -seen)[0] else -1.0
    return Scores(hardness=by_failure * wanted, gain=by_gain * wanted)


def subject_prior(train: RoutingSet, test: RoutingSet, settings: Settings) -> Scores:
    """Order by the task's rate in training, smoothed; no prompt carries its task in service.

    The rate is drawn towards the global one by as much as ten rows would; an unseen task has
    the global rate.
    """
    del settings

    def rates(values: Floats) -> Floats:
        overall = float(values.mean())
        totals: dict[tuple[str, str], tuple[float, float]] = {}
        for source, task, value in zip(train.source, train.task, values, strict=True):
            total, rows = totals.get((source, task), (overall * _PRIOR_ROWS, _PRIOR_ROWS))
            totals[source, task] = (total + value, rows + 1.0)
        found = [
            totals.get((source, task), (overall, 1.0))
            for source, task in zip(test.source, test.task, strict=True)
        ]
        return np.asarray([total / rows for total, rows in found])

    return Scores(hardness=rates(train.weak_fails.astype(np.float64)), gain=rates(train.gain))


def tfidf(train: RoutingSet, test: RoutingSet, settings: Settings) -> Scores:
    """Logistic regression, and ridge regression on the gain, over TF-IDF of 1 to 2 grams."""
    del settings
    texts = TfidfTexts.fit(train.prompts)
    wanted = texts.of(test.prompts)
    return Scores(
        hardness=probability_of(texts.vectors, train.weak_fails, wanted),
        gain=value_of(texts.vectors, train.gain, wanted),
    )


def teacher(train: RoutingSet, test: RoutingSet, settings: Settings) -> Scores:
    """Logistic regression, and ridge regression on the gain, over MiniLM's embeddings."""
    vectors = teacher_vectors(
        [*train.prompts, *test.prompts],
        cache=settings.work,
        device=settings.device,
        name="routing prompts",
    )
    seen, wanted = standardised(vectors[: len(train)], vectors[len(train) :])
    return Scores(
        hardness=probability_of(seen, train.weak_fails, wanted),
        gain=value_of(seen, train.gain, wanted),
    )


def litellm_heuristic(train: RoutingSet, test: RoutingSet, settings: Settings) -> Scores:
    """Order by the complexity score of litellm's rules."""
    del train, settings
    scores, _ = complexity(test.prompts)
    return Scores(hardness=scores, gain=scores)


def oracle(train: RoutingSet, test: RoutingSet, settings: Settings) -> Scores:
    """Order by the scores themselves: the best any router could do."""
    del train, settings
    return Scores(hardness=test.weak_fails.astype(np.float64), gain=test.gain)


BASELINES: dict[str, Baseline] = {
    "random": random_order,
    "length": prompt_length,
    "subject_prior": subject_prior,
    "tfidf": tfidf,
    "minilm": teacher,
    "litellm_heuristic": litellm_heuristic,
    "oracle": oracle,
}
# What a comparison "against the best baseline" leaves out: neither can be had in service.
UNATTAINABLE = ("subject_prior", "oracle")


def score_baselines(
    train: RoutingSet, test: RoutingSet, settings: Settings
) -> dict[str, Scores | Missing]:
    """Return every baseline's scores of the test rows, or why it could not run."""
    found: dict[str, Scores | Missing] = {}
    for name, baseline in BASELINES.items():
        say(f"baseline {name}")
        try:
            found[name] = baseline(train, test, settings)
        except ImportError as error:
            found[name] = Missing(reason=str(error))
    return found
