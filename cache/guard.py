"""Refuse a semantic hit whose two texts differ in a way that changes the answer.

Cosine alone cannot see it, so a hit needs the guard's consent besides the threshold. It
prefers a lost hit to a wrong answer.
"""

from __future__ import annotations

import re
from collections import Counter

from cache.composition import compose
from cache.entry import MissReason
from cache.polarity import opposed
from cache.quantities import quantities
from cache.units import unit_of

_WORD = re.compile(r"\w+(?:'\w+)?")

# Words that may stand for each other without changing what is asked. Words of place, time and
# manner (in, out, before, where, how ...) are not among them.
_GRAMMAR = frozenset(
    (
        *("a", "an", "the", "this", "that", "please", "there"),
        *("am", "is", "are", "was", "were", "be", "do", "does", "did", "have", "has", "had"),
        *("can", "could", "would", "will", "shall", "should", "got"),
        *("what", "which", "who", "what's", "which's", "who's", "it's", "that's"),
        *("i", "me", "you", "we", "us", "one", "it"),
        *("of", "for", "at", "by", "about", "around", "through", "and", "per", "each"),
    )
)


def refusal(a: str, b: str) -> MissReason | None:
    """Return the first thing the two texts disagree in, or None when the guard consents.

    Symmetric, pure, and None for equal texts. Numbers are compared in order ("5 minus 3" is
    not "3 minus 5"), then the units beside them, then polarity, then the order of words:
    the same words in another order exchange roles ("A over B", "B over A"). Last, no word that
    carries meaning may stand in one text in place of another in the other ("approved",
    "rejected"): which substitutes are synonyms takes a lexicon, which this guard has not.
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
    words_a, words_b = _words(a), _words(b)
    if words_a != words_b and sorted(words_a) == sorted(words_b):
        return MissReason.GUARD_ORDER
    substituted = _substituted(words_a, words_b, has_numbers=bool(numbers_a))
    return MissReason.GUARD_WORDS if substituted else None


def _words(text: str) -> list[str]:
    """Return the words of a text, lower case, without the s of a plural or a verb."""
    found = _WORD.findall(compose(text).lower().replace("\u2019", "'"))
    return [w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in found]


def _substituted(a: list[str], b: list[str], *, has_numbers: bool) -> bool:
    """Return whether each text has a word that says something and that the other lacks."""

    def says_something(word: str) -> bool:
        # Numbers and the units beside them were compared already; "in" is a unit, too, but
        # far more often the opposite of "out".
        is_unit = has_numbers and word != "in" and unit_of(word) is not None
        return not (word in _GRAMMAR or is_unit or quantities(word))

    only_a, only_b = Counter(a) - Counter(b), Counter(b) - Counter(a)
    return any(map(says_something, only_a)) and any(map(says_something, only_b))
