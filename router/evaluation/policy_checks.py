"""Check what must hold of every decision, whatever the weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from router.domain import EncoderInput, Encoding, Tier
from router.evaluation.first_look import SMALL_TALK
from router.evaluation.settings import Settings
from router.evaluation.subject import Subject, abstaining, sent_to
from router.training.sources import chatterbot_turns, routing_rows

_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
_REPEATED = 50
_COMPANY = 8
_ROWS = 1000


def measure_policy_checks(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return how often each invariant is violated, with the rows it was checked on.

    ``batch_shift`` is no invariant: int8 activations are scaled per pass, so company in a
    batch moves a probability a little; it is the largest move seen.
    """
    prompts = [row["prompt"] for row in routing_rows(settings.data, "test", "ood")]
    talk = chatterbot_turns(settings.data, "english", SMALL_TALK)
    step = max(1, len(prompts) // _ROWS)
    texts = settings.thin([*prompts[::step], *talk])
    encodings = subject.encode([EncoderInput(text=t) for t in texts], "encode policy checks")
    return {
        "n": len(texts),
        "violations": {
            "probabilities_sum_to_one": _sums(subject, encodings),
            "abstaining_or_truncated_goes_slow": _abstentions(subject, encodings),
            "a_higher_threshold_never_sends_more_fast": _monotone(subject, encodings),
            "below_the_threshold_goes_slow": _below(subject, encodings),
            "the_same_text_gets_the_same_outputs": _repeats(subject, texts[:_REPEATED]),
        },
        "batch_shift": _batch_shift(subject, texts[: _REPEATED // _COMPANY * _COMPANY]),
    }


def _sums(subject: Subject, encodings: Sequence[Encoding]) -> int:
    total = sum(subject.probability(encodings, tier, mask_tools=False) for tier in Tier)
    return int((np.abs(total - 1.0) > 1e-6).sum())


def _abstentions(subject: Subject, encodings: Sequence[Encoding]) -> int:
    slow = sent_to(subject.decide(encodings, mask_tools=False), Tier.SLOW)
    return int((abstaining(encodings) & ~slow).sum())


def _monotone(subject: Subject, encodings: Sequence[Encoding]) -> int:
    fast = [
        sent_to(subject.decide(encodings, mask_tools=True, threshold=t), Tier.FAST)
        for t in _THRESHOLDS
    ]
    return sum(int((after & ~before).sum()) for before, after in itertools.pairwise(fast))


def _below(subject: Subject, encodings: Sequence[Encoding]) -> int:
    verdicts = subject.decide(encodings, mask_tools=True)
    p_fast = subject.probability(encodings, Tier.FAST, mask_tools=True)
    fast = sent_to(verdicts, Tier.FAST)
    return int((fast & (p_fast < subject.artifact.threshold)).sum())


def _repeats(subject: Subject, texts: Sequence[str]) -> int:
    differing = 0
    for text in texts:
        once, again = (subject.encoder.run([EncoderInput(text=text)])[0] for _ in range(2))
        same = np.array_equal(once.route_logits, again.route_logits)
        differing += not (same and np.array_equal(once.embedding, again.embedding))
    return differing


def _batch_shift(subject: Subject, texts: Sequence[str]) -> float:
    """Return the largest change of P(fast) between a text alone and beside seven others."""
    alone = subject.encode([EncoderInput(text=text) for text in texts], "encode alone")
    beside: list[Encoding] = []
    for start in range(0, len(texts), _COMPANY):
        batch = [EncoderInput(text=text) for text in texts[start : start + _COMPANY]]
        beside += subject.encoder.run(batch)
    if not beside:
        return 0.0
    apart, together = (
        subject.probability(encodings, Tier.FAST, mask_tools=True) for encodings in (alone, beside)
    )
    return float(np.abs(apart - together).max())
