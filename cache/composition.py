"""Compose Unicode text (NFC) in linear time.

Sorting a run of combining marks costs the square of its length, under the interpreter lock.
Real text has a handful in a row; Unicode's stream-safe format allows 30 (UAX #15, section 13).
A text with a longer run is left as it is: two spellings of it are then two texts, which costs
a cache hit and nothing else.
"""

from __future__ import annotations

import unicodedata

import numpy as np

MAX_COMBINING_RUN = 30

# Every combining mark of the Unicode database lies in this range; a test holds that.
_FIRST, _LAST = 0x300, 0x1E9FF
_IS_COMBINING = np.array(
    [unicodedata.combining(chr(code)) > 0 for code in range(_FIRST, _LAST + 1)], dtype=np.bool_
)


def compose(text: str) -> str:
    """Return ``text`` in NFC, or unchanged where a run of combining marks is too long."""
    if text.isascii() or _has_long_run(text):
        return text
    return unicodedata.normalize("NFC", text)


def _has_long_run(text: str) -> bool:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    inside = (codes >= _FIRST) & (codes <= _LAST)
    combining = np.zeros(len(codes), dtype=np.bool_)
    combining[inside] = _IS_COMBINING[codes[inside] - _FIRST]
    # A run is the gap between two starters, the text's ends counted as such.
    starters = np.flatnonzero(~combining)
    edges = np.concatenate(([-1], starters, [len(codes)]))
    return bool((np.diff(edges) - 1 > MAX_COMBINING_RUN).any())
