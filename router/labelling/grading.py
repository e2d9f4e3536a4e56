"""Score an answer against what is known to be right.

Scores are 1 (right) or 0 (wrong).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal

from router.labelling.journal import Answer
from slow_tier.errors import InvalidAnswer
from slow_tier.json_schema import JsonSchema
from slow_tier.structured import check_json, repair_json

# What models put around a bare answer: quotes, emphasis; a full stop only at its end, for a
# leading one makes another number.
_BEFORE = " \"'`*_“”‘’«»„"  # noqa: RUF001 - typographic quotes are meant
_AFTER = _BEFORE + ".,;:!?。"
_NUMBER = re.compile(r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)")


def exact_score(answer: Answer, right: Iterable[str]) -> float:
    """Return 1 when an answer is one of the right ones, else 0.

    Compared after Unicode compatibility folding, in lower case, with single spaces, without
    quotes, emphasis and punctuation around it; numbers by value, so ``1,000.0`` is ``1000``.
    Punctuation inside counts, so that 3.5 is not 35.
    """
    given = _bare(answer.text)
    return float(any(_same(given, _bare(text)) for text in right))


def schema_score(answer: Answer, schema: JsonSchema) -> float:
    """Return 1 when an answer is JSON that satisfies ``schema``, else 0.

    Slips that the slow tier mends are mended here too.
    """
    try:
        text = repair_json(answer.text, upstream="")
        check_json(text, schema, upstream="")
    except InvalidAnswer:
        return 0.0
    return 1.0


def _bare(text: str) -> str:
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    # A pattern anchored at the end would take quadratic time on a run of "!" within the answer.
    return folded.lstrip(_BEFORE).rstrip(_AFTER) or folded


def _same(given: str, right: str) -> bool:
    if _NUMBER.fullmatch(given) and _NUMBER.fullmatch(right):
        return Decimal(given.replace(",", "")) == Decimal(right.replace(",", ""))
    return given == right
