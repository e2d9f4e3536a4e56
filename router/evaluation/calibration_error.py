"""Judge whether a probability means what it says.

Bins hold equal numbers of rows, ordered by probability (equal mass: Nixon et al.,
arXiv:1904.01685, section 3). Functions that take ``counts`` follow
:mod:`router.evaluation.bootstrap`; a row stays in the bin it has in the sample itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from router.evaluation.bootstrap import Floats, whole

BINS = 15
_Z95 = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """One bin of a reliability diagram.

    Attributes:
        n: Rows in it.
        predicted: Their mean probability.
        observed: Share of them where the event happened.
        low: Lower end of the observed share's 95 % interval (Wilson, 1927).
        high: Upper end of it.
    """

    n: int
    predicted: float
    observed: float
    low: float
    high: float


def reliability(
    probability: Floats, happened: NDArray[np.bool_], bins: int = BINS
) -> list[ReliabilityBin]:
    """Return the reliability diagram, lowest probability first; fewer bins for fewer rows."""
    diagram = []
    for chosen in _parts(probability, bins):
        n = len(chosen)
        share = float(happened[chosen].mean())
        centre = (share + _Z95**2 / (2 * n)) / (1 + _Z95**2 / n)
        spread = share * (1 - share) / n + _Z95**2 / (4 * n**2)
        half = _Z95 * math.sqrt(spread) / (1 + _Z95**2 / n)
        diagram.append(
            ReliabilityBin(
                n=n,
                predicted=float(probability[chosen].mean()),
                observed=share,
                low=max(0.0, centre - half),
                high=min(1.0, centre + half),
            )
        )
    return diagram


def ece(
    probability: Floats,
    happened: NDArray[np.bool_],
    counts: Floats | None = None,
    bins: int = BINS,
) -> Floats:
    """Return the expected calibration error, shape ``(resamples,)``, in [0, 1].

    Source: Naeini et al., AAAI 2015, "Obtaining Well Calibrated Probabilities Using Bayesian
    Binning". It is above 0 by chance even for a perfect model, see :func:`ece_by_chance`.
    """
    counts = whole(len(probability)) if counts is None else counts
    weight, gap, _ = _gaps(probability, happened, counts, bins)
    error: Floats = (weight * np.abs(gap)).sum(axis=1)
    return error


def ece_debiased(
    probability: Floats,
    happened: NDArray[np.bool_],
    counts: Floats | None = None,
    bins: int = BINS,
) -> Floats:
    """Return the ECE less its estimated bias, shape ``(resamples,)``.

    What chance adds to a bin's gap is estimated by letting the bin's observed share vary
    normally by its standard error, and is subtracted: Kumar et al., "Verified Uncertainty
    Calibration", NeurIPS 2019, arXiv:1909.10155, in the first-power form of the authors'
    package, with the expectation in closed form (folded normal) instead of by simulation.
    It leaves about half of the bias of a perfect model, so it errs on the strict side.
    """
    counts = whole(len(probability)) if counts is None else counts
    weight, gap, deviation = _gaps(probability, happened, counts, bins)
    bias = _folded_normal_mean(gap, deviation) - np.abs(gap)
    error: Floats = (weight * (np.abs(gap) - bias)).sum(axis=1)
    return error


def ece_by_chance(probability: Floats, bins: int = BINS) -> float:
    """Return the ECE to expect if every probability were exactly right.

    The labels are thought of as drawn from the probabilities (consistency resampling: Bröcker
    & Smith, Weather and Forecasting 2007), the bins' means as normal.
    """
    error = 0.0
    for chosen in _parts(probability, bins):
        p = probability[chosen]
        deviation = math.sqrt(float((p * (1.0 - p)).sum())) / len(chosen)
        error += deviation * math.sqrt(2.0 / math.pi) * len(chosen) / len(probability)
    return error


def _parts(probability: Floats, bins: int) -> list[NDArray[np.intp]]:
    order = np.argsort(probability, kind="stable")
    return [part for part in np.array_split(order, bins) if len(part)]


def _gaps(
    probability: Floats, happened: NDArray[np.bool_], counts: Floats, bins: int
) -> tuple[Floats, Floats, Floats]:
    """Return weight, observed minus predicted, and the former's standard error by bin."""
    parts = _parts(probability, bins)
    member = np.zeros((len(probability), len(parts)))
    for column, part in enumerate(parts):
        member[part, column] = 1.0
    rows = counts @ member
    # A bin may be absent from a resample; then its gap has no weight.
    some = np.maximum(rows, 1.0)
    observed = counts @ (member * happened[:, None]) / some
    gap = observed - counts @ (member * probability[:, None]) / some
    deviation = np.sqrt(observed * (1.0 - observed) / some)
    return rows / rows.sum(axis=1, keepdims=True), gap, deviation


def _folded_normal_mean(mean: Floats, deviation: Floats) -> Floats:
    """Return E|x| for x normal (Leone et al., Technometrics 1961)."""
    safe = np.maximum(deviation, 1e-12)
    ratio = mean / safe
    erf = np.vectorize(math.erf, otypes=[np.float64])(ratio / math.sqrt(2.0))
    folded = safe * math.sqrt(2.0 / math.pi) * np.exp(-np.square(ratio) / 2.0) + mean * erf
    return np.where(deviation > 0.0, folded, np.abs(mean))
