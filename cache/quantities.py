"""Read the numbers a text states, each with the unit beside it.

"2", "two" and "two hundred" / "200", "1,000" / "1000", "5 million" / "5000000", "50%" /
"50 percent" read alike. Digits keep their form otherwise: 3.10 is not 3.1 (a version) and 007
is not 7 (a code). English number words; digits of any script.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from cache.composition import compose
from cache.units import unit_of

ORDINAL = "ordinal"
"""Unit of "2nd" and "second"."""

_BELOW_TWENTY = """
zero one two three four five six seven eight nine ten
eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_CARDINALS = dict(zip(_BELOW_TWENTY.split(), range(20), strict=True)) | dict(
    zip(_TENS.split(), range(20, 100, 10), strict=True)
)
_SCALES = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_IRREGULAR_ORDINALS = {
    "first": "one",
    "second": "two",
    "third": "three",
    "fifth": "five",
    "eighth": "eight",
    "ninth": "nine",
    "twelfth": "twelve",
}
# After these, "one" is a pronoun: "which one", "how does one".
_PRONOUN_CONTEXTS = """
which this that the any each every no some another only can could should would does do did
may might must if when as good better best right
"""
_BEFORE_PRONOUN_ONE = frozenset(_PRONOUN_CONTEXTS.split())
# After these, "second" is the unit of time.
_BEFORE_TIME_SECOND = frozenset({"a", "per", "each", "every"})
_MAX_SCALED_DIGITS = 15

_NUMERAL = "[²³¹¼-¾\u2070-\u2089\u2150-\u2189\u2460-\u249b]"  # ², ½, ①
_GROUP = "[,_\u00a0\u2009\u202f]"
_TOKEN = re.compile(
    rf"(?P<digits>\d{{1,3}}(?:{_GROUP}\d{{2,3}}){{0,9}}{_GROUP}\d{{3}}(?!\d)(?:\.\d+)?"
    r"|\d+(?:\.\d+)*|(?<![\w.])\.\d+)"
    r"|(?P<symbol>°[CF]\b|[%°℃℉$€£¥₹¢])"
    rf"|(?P<numeral>{_NUMERAL})"
    rf"|(?P<word>(?:(?!{_NUMERAL})(?:[^\W\d_]|(?<=\w)['\u2019](?=[^\W\d_])))+)"
)
_UNIT_GAP = re.compile(r"[ \t\u00a0\u2009\u202f]?-?")
_WORD_GAP = re.compile(r"[\s-]+")
_SIGN = re.compile(r"(?:^|[\s(\[{=,:<>])[-\u2212]$")
_ORDINAL_SUFFIXES = frozenset({"st", "nd", "rd", "th"})


class Quantity(NamedTuple):
    """One number of a text.

    Attributes:
        value: Its digits without grouping, "-" before a negative one.
        unit: The unit beside it in one spelling, :data:`ORDINAL`, or "" without one.
    """

    value: str
    unit: str


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    gap: str  # what stands between the token before and this one


def quantities(text: str) -> list[Quantity]:
    """Return the numbers of ``text`` in the order in which they stand."""
    tokens = _tokens(text)
    found = []
    i = 0
    while i < len(tokens):
        value, end, ordinal = _number(tokens, i)
        if end == i:
            i += 1
            continue
        sign = "-" if _is_negative(tokens, i) else ""
        before = _symbol_before(tokens, i)
        after, end = (ORDINAL, end) if ordinal else _unit_after(tokens, end)
        lone_one = end == i + 1 and not (before or after) and tokens[i].text.lower() == "one"
        if not (lone_one and _previous_word(tokens, i) in _BEFORE_PRONOUN_ONE):
            found.append(Quantity(sign + value, " ".join(u for u in (before, after) if u)))
        i = end
    return found


def _tokens(text: str) -> list[_Token]:
    tokens = []
    end = 0
    for match in _TOKEN.finditer(compose(text)):
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match.group(), match.string[end : match.start()]))
        end = match.end()
    return tokens


def _number(tokens: Sequence[_Token], i: int) -> tuple[str, int, bool]:
    """Return the value at ``i``, the index after it, whether it is ordinal.

    The index is ``i`` when no number stands there.
    """
    token = tokens[i]
    if token.kind == "numeral":
        numeric = unicodedata.numeric(token.text, None)
        return (token.text, i, False) if numeric is None else (f"{numeric:g}", i + 1, False)
    if token.kind == "digits":
        return _number_in_digits(tokens, i)
    if token.kind == "word":
        return _number_in_words(tokens, i)
    return "", i, False


def _number_in_digits(tokens: Sequence[_Token], i: int) -> tuple[str, int, bool]:
    value = "".join(
        char if char == "." else str(unicodedata.decimal(char))
        for char in tokens[i].text
        if char == "." or char.isdecimal()
    )
    if value.startswith("."):
        value = "0" + value
    end = i + 1
    short = len(value) <= _MAX_SCALED_DIGITS and value.count(".") < 2
    while short and end < len(tokens) and _continues(tokens[end]):
        scale = _SCALES.get(tokens[end].text.lower())
        if scale is None:
            break
        value = f"{(Decimal(value) * scale).normalize():f}"
        end += 1
    if end < len(tokens) and tokens[end].gap == "" and tokens[end].text in _ORDINAL_SUFFIXES:
        return value, end + 1, True
    return value, end, False


def _number_in_words(tokens: Sequence[_Token], i: int) -> tuple[str, int, bool]:
    if tokens[i].text.lower() == "second" and _previous_word(tokens, i) in _BEFORE_TIME_SECOND:
        return "", i, False
    total = current = 0
    room, largest_scale = 100, max(_SCALES.values()) * 10  # what may still be added, multiplied by
    end = i
    while end < len(tokens):
        at = end
        if end > i and not _continues(tokens[end]):
            break
        if end > i and tokens[end].text.lower() == "and" and room >= 100 and end + 1 < len(tokens):
            at = end + 1  # "two hundred and five"
        cardinal, ordinal = _cardinal(tokens[at])
        amount = _CARDINALS.get(cardinal)
        scale = _SCALES.get(cardinal)
        if amount is not None and amount < room:
            current += amount
            room = 10 if amount >= 20 else 0
        elif scale is not None and at == end and scale < largest_scale:
            current = (current or 1) * scale
            room = 0 if cardinal == "dozen" else scale
            if scale >= 10**3:
                total, current, largest_scale = total + current, 0, scale
        else:
            break
        end = at + 1
        if ordinal:
            return str(total + current), end, True
    return str(total + current), end, False


def _cardinal(token: _Token) -> tuple[str, bool]:
    """Return the cardinal of a number word, whether the word is the ordinal."""
    word = token.text.lower()
    if word in _IRREGULAR_ORDINALS:
        return _IRREGULAR_ORDINALS[word], True
    if word.endswith("ieth"):
        return word[:-4] + "y", True
    stem = word.removesuffix("th")
    return stem, stem != word


def _continues(token: _Token) -> bool:
    return token.kind == "word" and _WORD_GAP.fullmatch(token.gap) is not None


def _unit_after(tokens: Sequence[_Token], end: int) -> tuple[str, int]:
    """Return the unit that follows a number, the index after it."""
    if end == len(tokens):
        return "", end
    token = tokens[end]
    if token.kind not in ("word", "symbol") or not _UNIT_GAP.fullmatch(token.gap):
        return "", end
    following = tokens[end + 1] if end + 1 < len(tokens) else None
    if token.text.lower() == "per" and following and following.text.lower() == "cent":
        return "%", end + 2
    unit = unit_of(token.text)
    # A word that touches its number belongs to it, known or not: H2O, 4x4, 10k.
    if unit is None and token.gap == "":
        unit = token.text
    if unit is None or (token.text == "A" and token.gap != ""):
        return "", end
    if following and following.gap == "/" and (divisor := unit_of(following.text)):
        return f"{unit}/{divisor}", end + 2
    return unit, end + 1


def _symbol_before(tokens: Sequence[_Token], i: int) -> str:
    if i == 0 or tokens[i - 1].kind != "symbol" or tokens[i].gap not in ("", " "):
        return ""
    # "20% 30": the sign belongs to the number before it.
    if i >= 2 and tokens[i - 2].kind == "digits" and tokens[i - 1].gap == "":
        return ""
    return unit_of(tokens[i - 1].text) or ""


def _is_negative(tokens: Sequence[_Token], i: int) -> bool:
    if _previous_word(tokens, i) in ("minus", "negative"):
        return True
    start = i - 1 if _symbol_before(tokens, i) else i  # "-$5"
    gap = tokens[start].gap
    return _SIGN.search(gap) is not None and not (start > 0 and gap[:1] in ("-", "\u2212"))


def _previous_word(tokens: Sequence[_Token], i: int) -> str:
    if i == 0 or tokens[i - 1].kind != "word" or not _WORD_GAP.fullmatch(tokens[i].gap):
        return ""
    return tokens[i - 1].text.lower()
