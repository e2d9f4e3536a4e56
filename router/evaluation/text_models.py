"""Fit the text models that any team would try first, as baselines.

scikit-learn is imported only when one is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from router.evaluation.bootstrap import Floats

_ITERATIONS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class TfidfTexts:
    """Texts as TF-IDF vectors of words and pairs of words seen at least twice."""

    vectoriser: Any
    vectors: Any

    @classmethod
    def fit(cls, texts: Sequence[str]) -> Self:
        """Return the vectors of ``texts`` and what makes vectors of others.

        Raises:
            ImportError: If scikit-learn is not installed.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectoriser = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        return cls(vectoriser=vectoriser, vectors=vectoriser.fit_transform(texts))

    def of(self, texts: Sequence[str]) -> Any:
        """Return the sparse vectors of other texts."""
        return self.vectoriser.transform(texts)


def standardised(
    seen: NDArray[np.float32], wanted: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return both with mean 0 and deviation 1 in every dimension of the training rows.

    A penalty of usual strength would all but switch off the coordinates of unit vectors,
    which are small. A dimension that is constant in training stays 0.
    """
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0.0)
    return (seen - mean) * scale, (wanted - mean) * scale


def probability_of(
    seen: Any, event: NDArray[np.bool_], wanted: Any, *, balanced: bool = False
) -> Floats:
    """Fit a logistic regression (C = 1) and return P(event) of the wanted rows.

    Args:
        seen: Training rows, dense or sparse ``(rows, dim)``.
        event: Shape ``(rows,)``.
        wanted: Rows to predict, ``(wanted, dim)``.
        balanced: Weigh both classes alike, so that .5 suits balanced accuracy.

    Returns:
        Shape ``(wanted,)``; the event's rate for all where only one class was seen.
    """
    from sklearn.linear_model import LogisticRegression

    if event.all() or not event.any():
        return np.full(wanted.shape[0], float(event.mean()))
    weight = "balanced" if balanced else None
    model = LogisticRegression(C=1.0, max_iter=_ITERATIONS, class_weight=weight)
    model.fit(seen, event)
    probabilities: Floats = model.predict_proba(wanted)[:, 1].astype(np.float64)
    return probabilities


def value_of(seen: Any, target: Floats, wanted: Any) -> Floats:
    """Fit a ridge regression (alpha = 1) and return its predictions, shape ``(wanted,)``."""
    from sklearn.linear_model import Ridge

    predicted: Floats = Ridge(alpha=1.0).fit(seen, target).predict(wanted)
    return predicted
