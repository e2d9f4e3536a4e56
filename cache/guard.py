"""Refuse a semantic hit whose two texts differ in a way that changes the answer.

Cosine alone cannot see it, so a hit needs the guard's consent besides the threshold. It
prefers a lost hit to a wrong answer.
"""

from __future__ import annotations

import re

from cache.composition import compose
from cache.entry import MissReason
from cache.polarity import opposed
from cache.quantities import quantities

_WORD = re.compile(r"\w+")


def refusal(a: str, b: str) -> MissReason | None:
    """Return the first thing the two texts disagree in, or None when the guard consents.

    Symmetric, pure, and None for equal texts. Numbers are compared in order ("5 minus 3" is
    not "3 minus 5"), then the units beside them, then polarity, then the order of words:
    the same words in another order exchange roles ("A over B", "B over A").
    """
    if a == b:
        return None
    numbers_a, numbers_b = quantities(a), quantities(b)
    if [number.value for number in numbers_a] != [number.value for number in numbers_b]:
        return MissReason.GUARD_NUMBERS
    if numbers_a != numbers_b:
        return MissReason.GUARD_UNITS
    if opposed(a, b):
        return MissReason.GUARD_NEGATION
    return MissReason.GUARD_ORDER if _reordered(a, b) else None


def _reordered(a: str, b: str) -> bool:
    words_a, words_b = _WORD.findall(compose(a).lower()), _WORD.findall(compose(b).lower())
    return words_a != words_b and sorted(words_a) == sorted(words_b)
