"""Measure what an operator tries first: hard prompts go slow, small talk goes fast.

Neither source carries a route in training: arena-hard v0.1 (Li et al., arXiv:2406.11939), of
which most prompts do teach the length head, and the small-talk files of the chatterbot corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.domain import EncoderInput, Tier
from router.evaluation.bootstrap import Floats, mean_of, measured
from router.evaluation.heuristic import complexity
from router.evaluation.progress import say
from router.evaluation.ranking import auc
from router.evaluation.routing import ROUTER
from router.evaluation.routing_set import RoutingSet
from router.evaluation.settings import Settings
from router.evaluation.skipped import SectionSkipped
from router.evaluation.subject import Subject, abstaining, sent_to
from router.evaluation.text_models import TfidfTexts, probability_of
from router.evaluation.threshold import search_threshold
from router.training.sources import chatterbot_turns, read_rows

SMALL_TALK = ("conversations", "greetings", "emotion", "humor", "gossip", "botprofile")

# The whole range: a baseline need not be confident to be allowed a fast answer.
_THRESHOLDS = tuple(round(step / 100, 2) for step in range(101))


def measure_first_look(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return the share of hard prompts sent slow and of small talk sent fast.

    Prompts are read as requests without tools, and abstaining is slow. The AUC tells the two
    kinds apart by P(fast), whatever the threshold.
    """
    if not subject.has(Tier.FAST):
        msg = "the artifact has no fast route"
        raise SectionSkipped(msg)
    arena = settings.data / "kinds" / "arena_hard" / "v0.1_question.jsonl.gz"
    hard = settings.thin([row["prompt"] for row in read_rows(arena)])
    talk = settings.thin(chatterbot_turns(settings.data, "english", SMALL_TALK))
    prompts = [*hard, *talk]
    is_talk = np.repeat([False, True], [len(hard), len(talk)])
    encodings = subject.encode([EncoderInput(text=p) for p in prompts], "encode first look")
    p_fast = {ROUTER: subject.probability(encodings, Tier.FAST, mask_tools=True)}
    sent_fast = {ROUTER: sent_to(subject.decide(encodings, mask_tools=True), Tier.FAST)}
    thresholds = {ROUTER: subject.artifact.threshold}
    missing: dict[str, str] = {}
    for name, baseline in _BASELINES.items():
        say(f"first look: baseline {name}")
        try:
            thresholds[name], p_fast[name] = _fitted(baseline, prompts, settings)
        except ImportError as error:
            missing[name] = str(error)
            continue
        sent_fast[name] = p_fast[name] >= thresholds[name]
    try:
        # It has a rule instead of a threshold: what it calls simple.
        _, sent_fast["litellm_heuristic"] = complexity(prompts)
    except ImportError as error:
        missing["litellm_heuristic"] = str(error)
    declined = abstaining(encodings)
    return {
        "n": len(prompts),
        "missing": missing,
        "thresholds": thresholds,
        "arena_hard_v01_sent_slow": {
            "n": len(hard),
            "share": _shares({n: ~fast[~is_talk] for n, fast in sent_fast.items()}, settings),
            "abstaining": float(declined[~is_talk].mean()),
        },
        "small_talk_sent_fast": {
            "n": len(talk),
            "share": _shares({n: fast[is_talk] for n, fast in sent_fast.items()}, settings),
            "abstaining": float(declined[is_talk].mean()),
        },
        "auc_small_talk": measured(
            {name: partial(auc, is_talk, values) for name, values in p_fast.items()},
            rows=len(prompts),
            resampling=settings.resampling,
        ),
    }


def _shares(values: dict[str, NDArray[np.bool_]], settings: Settings) -> dict[str, Any]:
    rows = len(values[ROUTER])
    return measured(
        {name: mean_of(each) for name, each in values.items()},
        rows=rows,
        resampling=settings.resampling,
    )


def _by_length(train: RoutingSet, wanted: Sequence[str]) -> Floats:
    def logs(texts: Sequence[str]) -> Floats:
        return np.log1p([[len(text)] for text in texts])

    return probability_of(logs(train.prompts), ~train.weak_fails, logs(wanted))


def _by_words(train: RoutingSet, wanted: Sequence[str]) -> Floats:
    texts = TfidfTexts.fit(train.prompts)
    return probability_of(texts.vectors, ~train.weak_fails, texts.of(wanted))


# Each fits on the rows' "weak suffices" and returns P(fast) of the wanted texts.
_BASELINES: dict[str, Callable[[RoutingSet, Sequence[str]], Floats]] = {
    "length": _by_length,
    "tfidf": _by_words,
}


def _fitted(
    baseline: Callable[[RoutingSet, Sequence[str]], Floats],
    prompts: Sequence[str],
    settings: Settings,
) -> tuple[float, Floats]:
    """Return the threshold that costs least on dev and P(fast) of the prompts.

    The threshold comes from a fit on the train rows alone, the probabilities from one on
    train and dev.
    """
    train, dev = (RoutingSet.read(settings, split) for split in ("train", "dev"))
    search = search_threshold(
        baseline(train, dev.prompts), dev.weak_fails, settings.cost_matrix, _THRESHOLDS
    )
    return search.threshold, baseline(RoutingSet.read(settings, "train", "dev"), prompts)
