"""Refuse a semantic hit whose two texts differ in a way that changes the answer.

Cosine alone cannot see it, so a hit needs the guard's consent besides the threshold. It
prefers a lost hit to a wrong answer.
"""

from __future__ import annotations

from cache.entry import MissReason
from cache.polarity import opposed
from cache.quantities import quantities


def refusal(a: str, b: str) -> MissReason | None:
    """Return the first thing the two texts disagree in, or None when the guard consents.

    Symmetric, pure, and None for equal texts. Numbers are compared in order ("5 minus 3" is
    not "3 minus 5"), then the units beside them, then polarity.
    """
    if a == b:
        return None
    numbers_a, numbers_b = quantities(a), quantities(b)
    if [number.value for number in numbers_a] != [number.value for number in numbers_b]:
        return MissReason.GUARD_NUMBERS
    if numbers_a != numbers_b:
        return MissReason.GUARD_UNITS
    return MissReason.GUARD_NEGATION if opposed(a, b) else None
