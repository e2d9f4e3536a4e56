"""Tell whether two texts say yes or no to the same thing.

Embeddings barely see a negation: "enable X" and "disable X" are closer than many paraphrases
(Ettinger, "What BERT is not", TACL 2020). Three signs are read, all of English:
negators, a closed class of words (Huddleston and Pullum, "The Cambridge Grammar of the English
Language", 2002, chapter 9); opposed particles ("log in" / "log out"); words that differ only in
opposed affixes ("enable" / "disable", "legal" / "illegal", "useful" / "useless"). Opposites
that share no stem ("open" / "close") are not seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from cache.composition import compose

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
# "No. 5" numbers something; "no 5" may deny it ("no 5 star hotels").
_NUMBER_SIGN = re.compile(r"\bno\.\s*(?=\d)", re.IGNORECASE)
_HYPHENATED_PREFIX = re.compile(r"\b(un|dis|non|de|mis|anti)-(?=[^\W\d_])", re.IGNORECASE)
_CONTRACTED_NOT = re.compile(
    r"(?:.+n't|cannot|(?:ai|are|ca|could|did|does|do|had|has|have|is|must|should|was|were|wo|would)nt)"
)
_NEGATIVE_WORDS = """
not no non never none nobody nothing nowhere neither nor without
hardly barely scarcely rarely seldom
"""
_NEGATORS = frozenset(_NEGATIVE_WORDS.split())
_OPPOSED_PARTICLES = (("on", "off"), ("in", "out"), ("up", "down"))

# A word with one of these against the bare word: "unlock" / "lock".
_NEGATIVE_PREFIXES = frozenset(
    ("un", "dis", "non", "in", "im", "il", "ir", "de", "mis", "anti", "dys")
)
# A word with one against a word with the other: "import" / "export".
_OPPOSED_PREFIXES = (
    ("en", "dis"),
    ("en", "de"),
    ("en", "un"),
    ("as", "dis"),
    ("at", "de"),
    ("as", "des"),
    ("ac", "de"),
    ("in", "de"),
    ("in", "ex"),
    ("im", "ex"),
    ("in", "out"),
    ("up", "down"),
    ("over", "under"),
    ("pre", "post"),
    ("max", "min"),
    ("hyper", "hypo"),
    ("macro", "micro"),
    ("inter", "intra"),
    ("pro", "anti"),
)
_OPPOSED_SUFFIXES = (("ful", "less"),)
_INFLECTIONS = ("ations", "ation", "ings", "ing", "ions", "ion", "ers", "ed", "er", "es", "ly", "s")
_MIN_STEM_LETTERS = 3
_MIN_BARE_STEM_LETTERS = 4

_Reading = tuple[str, str, str]  # prefix, stem, suffix


def _opposites(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for x, y in pairs:
        table.setdefault(x, []).append(y)
        table.setdefault(y, []).append(x)
    return table


_OPPOSITES_OF_PREFIX = _opposites(_OPPOSED_PREFIXES)
_OPPOSITES_OF_SUFFIX = _opposites(_OPPOSED_SUFFIXES)
_PREFIXES = _NEGATIVE_PREFIXES.union(_OPPOSITES_OF_PREFIX)
_PREFIX_LENGTHS = sorted({len(prefix) for prefix in _PREFIXES})


def opposed(a: str, b: str) -> bool:
    """Return whether a negation or an opposite separates the two texts.

    Symmetric, and False for equal texts. The number of negators is compared, not what they
    apply to, so "not possible" and "impossible" count as opposed: a lost hit is the cheaper
    mistake.
    """
    words_a, words_b = _words(a), _words(b)
    if _negations(words_a) != _negations(words_b):
        return True
    only_a, only_b = words_a.keys() - words_b.keys(), words_b.keys() - words_a.keys()
    if not (only_a and only_b):
        return False
    if any(
        (x in only_a and y in only_b) or (y in only_a and x in only_b)
        for x, y in _OPPOSED_PARTICLES
    ):
        return True
    readings_a = {reading for word in only_a for reading in _readings(word)}
    readings_b = {reading for word in only_b for reading in _readings(word)}
    return _meet(readings_a, readings_b) or _meet(readings_b, readings_a)


def _words(text: str) -> Counter[str]:
    plain = _HYPHENATED_PREFIX.sub(r"\1", compose(text).replace("\u2019", "'"))
    return Counter(word.casefold() for word in _WORD.findall(_NUMBER_SIGN.sub(" ", plain)))


def _negations(words: Counter[str]) -> int:
    return sum(
        count
        for word, count in words.items()
        if word in _NEGATORS or _CONTRACTED_NOT.fullmatch(word)
    )


def _meet(readings: set[_Reading], others: set[_Reading]) -> bool:
    return any(opposite in others for reading in readings for opposite in _opposites_of(reading))


def _readings(word: str) -> Iterator[_Reading]:
    """Yield every way to split a word into a listed prefix or suffix around its stem."""
    stem = _stem(word)
    yield "", stem, ""
    for length in _PREFIX_LENGTHS:
        if stem[:length] in _PREFIXES and len(stem) - length >= _MIN_STEM_LETTERS:
            yield stem[:length], stem[length:], ""
    for suffix in _OPPOSITES_OF_SUFFIX:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM_LETTERS:
            yield "", word.removesuffix(suffix), suffix


def _opposites_of(reading: _Reading) -> Iterator[_Reading]:
    prefix, stem, suffix = reading
    if prefix in _NEGATIVE_PREFIXES and len(stem) >= _MIN_BARE_STEM_LETTERS:
        yield "", stem, ""
    for opposite in _OPPOSITES_OF_PREFIX.get(prefix, ()):
        yield opposite, stem, ""
    for opposite in _OPPOSITES_OF_SUFFIX.get(suffix, ()):
        yield "", stem, opposite


def _stem(word: str) -> str:
    """Strip a possessive, one inflection, a final e, a doubled last letter."""
    stem = word.removesuffix("'s")
    for ending in _INFLECTIONS:
        if stem.endswith(ending) and len(stem) - len(ending) >= _MIN_STEM_LETTERS:
            stem = stem.removesuffix(ending)
            break
    stem = stem.removesuffix("e")
    return stem[:-1] if len(stem) > _MIN_STEM_LETTERS and stem[-1] == stem[-2] else stem
