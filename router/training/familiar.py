"""Fit the classifier that tells ordinary requests from other languages and from noise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from tqdm import tqdm

from router.domain import EncoderInput
from router.familiarity import KINDS, Familiarity, classifier_inputs
from router.features import explicit_features
from router.tokens import InputTokenizer
from router.training.outliers import foreign_texts, strange_texts

MAX_TOKENS = 256
FOREIGN_PER_LOCALE = 100
STRANGE_ROWS = 3900
ODDS_LIMIT_NATS = 4.0
# People ask about machine output; what they ask around it makes the text ordinary.
_QUESTIONS = ("Explain this error:\n", "What does this log mean?\n", "Why does this fail?\n")


def fit_familiarity(
    tokenizer_path: Path,
    *,
    train: Sequence[str],
    dev: Sequence[str],
    false_alarm_rate: float,
    seed: int,
) -> Familiarity:
    """Return the fitted classifier.

    Args:
        tokenizer_path: The artifact's tokenizer.
        train: Ordinary texts of every kind the encoder is to serve.
        dev: Held-out ones, which set the thresholds.
        false_alarm_rate: Share of ``dev`` each of the two tests may stop, in (0, 1).
        seed: Of the texts made up, and of their order.
    """
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    tokenizer = InputTokenizer(tokenizer_path, max_tokens=MAX_TOKENS)
    words = sorted({w for text in train[:3000] for w in text.lower().split() if w.isalpha()})
    strange = strange_texts(rng=rng, rows=STRANGE_ROWS, words=words)
    asked = [rng.choice(_QUESTIONS) + text for text in rng.sample(strange, len(strange) // 13)]
    foreign = foreign_texts(rng=rng, per_language=FOREIGN_PER_LOCALE)

    size = tokenizer.vocabulary_size
    known = _counts(tokenizer, train, size)
    other = _counts(tokenizer, foreign_texts(rng=rng, per_language=10_000), size)
    log_p = np.log(known / known.sum())
    rarity = (np.exp(log_p) @ log_p - log_p).astype(np.float32)
    odds = np.clip(np.log(other / other.sum()) - log_p, -ODDS_LIMIT_NATS, ODDS_LIMIT_NATS)
    foreign_odds = odds.astype(np.float32)

    def inputs(texts: Sequence[str]) -> NDArray[np.float32]:
        rows = []
        for text in tqdm(texts, desc="familiarity", unit="text"):
            row = tokenizer.row(EncoderInput(text=text))
            features = explicit_features(
                text, None, tokens=row.text_tokens, unknown_tokens=row.unknown_tokens
            )
            rows.append(classifier_inputs(row.text_ids, features, rarity, foreign_odds))
        return np.stack(rows)

    groups = (inputs([*train, *asked]), inputs(foreign), inputs(strange))
    x = np.concatenate(groups)
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    model = LogisticRegression(C=0.1, max_iter=1000)
    model.fit((x - mean) / scale, np.repeat(np.arange(len(KINDS)), [len(g) for g in groups]))
    weights = (model.coef_ / scale).T
    fitted = Familiarity(
        rarity=rarity,
        foreign_odds=foreign_odds,
        weights=weights.astype(np.float32),
        bias=(model.intercept_ - mean @ weights).astype(np.float32),
        thresholds=np.ones(len(KINDS) - 1, np.float32),
    )
    logits = inputs(dev) @ fitted.weights + fitted.bias
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    thresholds = np.quantile(shares[:, 1:], 1.0 - false_alarm_rate, axis=0)
    return Familiarity(
        rarity=fitted.rarity,
        foreign_odds=fitted.foreign_odds,
        weights=fitted.weights,
        bias=fitted.bias,
        thresholds=thresholds.astype(np.float32),
    )


def _counts(tokenizer: InputTokenizer, texts: Sequence[str], size: int) -> NDArray[np.float64]:
    """Return how often each token occurs, a half more so that none is impossible."""
    counts = np.full(size, 0.5)
    for text in texts:
        np.add.at(counts, tokenizer.row(EncoderInput(text=text)).text_ids, 1.0)
    return counts
