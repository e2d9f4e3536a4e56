"""Measure how far several annotators agree: Krippendorff's alpha.

1 is perfect agreement, 0 what chance would give, below 0 is systematic disagreement. Any number
of annotators, each may have skipped any unit. Source: K. Krippendorff, "Computing
Krippendorff's Alpha-Reliability", University of Pennsylvania, 2011.

The package krippendorff computes the same; its licence (GPL-3.0) does not go with ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

ValueT = TypeVar("ValueT", bound=Hashable)


def nominal_alpha(units: Iterable[Sequence[Hashable]]) -> float | None:
    """Return alpha for labels without order.

    Args:
        units: The labels each unit was given; a unit with fewer than two says nothing.

    Returns:
        Alpha, <= 1; None where it is undefined: nothing was labelled twice, or every label is
        the same, so that chance would agree as well.
    """
    return _alpha(units, _different_pairs)


def interval_alpha(units: Iterable[Sequence[float]]) -> float | None:
    """Return alpha for numbers, whose disagreement is their squared distance.

    Args:
        units: As in `nominal_alpha`, finite numbers.
    """
    return _alpha(units, _squared_distances)


def _alpha(
    units: Iterable[Sequence[ValueT]], disagreement: Callable[[Sequence[ValueT]], float]
) -> float | None:
    pairable = [unit for unit in units if len(unit) >= 2]
    values = [value for unit in pairable for value in unit]
    expected = disagreement(values)
    if not expected:
        return None
    observed = sum(disagreement(unit) / (len(unit) - 1) for unit in pairable)
    return 1.0 - (len(values) - 1) * observed / expected


def _different_pairs(values: Sequence[Hashable]) -> float:
    """Count the ordered pairs of unequal values."""
    return len(values) ** 2 - sum(count * count for count in Counter(values).values())


def _squared_distances(values: Sequence[float]) -> float:
    """Sum the squared distances of all ordered pairs."""
    mean = sum(values) / len(values) if values else 0.0
    total = 2.0 * len(values) * sum((value - mean) ** 2 for value in values)
    # Rounding of the mean must not make equal values differ.
    return total if len(set(values)) > 1 else 0.0
