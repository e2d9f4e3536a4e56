"""Measure what the encoder declines to judge, and what it declines for no reason."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np

from router.domain import EncoderInput, Reason
from router.evaluation.bootstrap import mean_of, measured
from router.evaluation.first_look import SMALL_TALK
from router.evaluation.out_of_scope import in_scope_texts
from router.evaluation.settings import Settings
from router.evaluation.skipped import SectionSkipped
from router.evaluation.strange_texts import base64_blobs, gibberish, log_dumps, oversize
from router.evaluation.subject import Subject, abstaining
from router.evaluation.temperature import wanted_prompts
from router.training.sources import chatterbot_turns, read_rows, routing_rows, split_of

_ROWS = 300
_CHARS_PER_TOKEN_AT_MOST = 8
# File prefix of the chatterbot corpus by ISO 639-1 code.
_LANGUAGES = {
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "ja": "japanese",
    "zh": "chinese",
}


def measure_abstention(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return the share of strange and of ordinary texts that the encoder abstains on.

    Abstaining means truncated, in an undeclared language or unlike the training rows.
    Ordinary texts count only the last two: cutting a text over the limit is no mistake.
    """
    rng = random.Random(settings.resampling.seed)  # noqa: S311 - nothing secret
    prompts = [row["prompt"] for row in routing_rows(settings.data, "test")]
    count = len(settings.thin(range(_ROWS)))
    limit_chars = subject.artifact.config.max_tokens * _CHARS_PER_TOKEN_AT_MOST
    strange = {
        "gibberish": gibberish(count, rng),
        "base64": base64_blobs(count, rng),
        "log_dumps": log_dumps(count, rng),
        "oversize": oversize(max(2, count // 10), prompts, limit_chars),
    }
    declared = set(subject.artifact.config.languages)
    languages = {
        code: _language_texts(settings, code) for code in _LANGUAGES if code not in declared
    }
    report: dict[str, Any] = {
        "strange": {name: _shares(subject, settings, name, ts) for name, ts in strange.items()}
    }
    foreign = {code: texts for code, texts in languages.items() if texts}
    report["undeclared_languages"] = {
        code: _shares(subject, settings, code, texts) for code, texts in foreign.items()
    }
    if foreign:
        together = [text for texts in foreign.values() for text in texts]
        report["strange"]["undeclared_languages"] = _shares(subject, settings, "all", together)
    ordinary = _ordinary(settings, prompts)
    report["ordinary"] = {
        name: _shares(subject, settings, name, texts) for name, texts in ordinary.items()
    }
    declared_foreign = [code for code in _LANGUAGES if code in declared and code != "en"]
    for code in declared_foreign:
        texts = _language_texts(settings, code)
        if texts:
            report["ordinary"][f"declared_{code}"] = _shares(subject, settings, code, texts)
    counted = ("routing_test", "mt_bench_vicuna", "clinc_in_scope")
    together = [t for name in counted for t in ordinary.get(name, ())]
    report["ordinary"]["in_distribution_together"] = _shares(
        subject, settings, "together", together
    )
    return report


def _ordinary(settings: Settings, prompts: list[str]) -> dict[str, list[str]]:
    arena = settings.data / "kinds" / "arena_hard" / "v0.1_question.jsonl.gz"
    ordinary = {
        "routing_test": settings.thin(prompts),
        "mt_bench_vicuna": wanted_prompts(settings),
        "arena_hard_v01": settings.thin([row["prompt"] for row in read_rows(arena)]),
        "small_talk": settings.thin(chatterbot_turns(settings.data, "english", SMALL_TALK)),
    }
    try:
        ordinary["clinc_in_scope"] = in_scope_texts(settings)
    except SectionSkipped:
        # Its own section says so.
        ordinary["clinc_in_scope"] = []
    return {name: texts for name, texts in ordinary.items() if texts}


def _language_texts(settings: Settings, code: str) -> list[str]:
    """Return texts in a language: chatterbot's opening turns, for Chinese BELLE's too."""
    prefix = _LANGUAGES[code]
    folder = settings.data / "kinds" / "chatterbot_corpus"
    topics = tuple(sorted(p.stem.split("__")[1] for p in folder.glob(f"{prefix}__*.yml")))
    texts = settings.thin(chatterbot_turns(settings.data, prefix, topics))
    if code == "zh":
        belle = read_rows(settings.data / "kinds" / "belle_zh" / "eval_set.json.gz")
        held_out = [row["question"] for row in belle if split_of(row["question"]) == "test"]
        texts += settings.thin(held_out)
    return texts


def _shares(subject: Subject, settings: Settings, name: str, texts: list[str]) -> dict[str, Any]:
    encodings = subject.encode(
        [EncoderInput(text=text) for text in texts], f"encode abstention, {name}"
    )
    unfamiliar = np.asarray([not e.language_known or not e.in_distribution for e in encodings])
    verdicts = subject.decide(encodings, mask_tools=True)
    reasons = Counter(verdict.reason for verdict in verdicts)
    figures = measured(
        {"abstaining": mean_of(abstaining(encodings)), "unfamiliar": mean_of(unfamiliar)},
        rows=len(texts),
        resampling=settings.resampling,
    )
    shown = (
        Reason.INPUT_TRUNCATED,
        Reason.ABSTAINED_LANGUAGE,
        Reason.ABSTAINED_OUT_OF_DISTRIBUTION,
    )
    return {
        "n": len(texts),
        **figures,
        "reasons": {reason.value: reasons[reason] / len(texts) for reason in shown},
    }
