"""Compute the explicit features the encoder's heads see beside the text.

They are cheap marks of length, question type, code, number and language that a short
sub-word window blurs. Training and serving call the same function; the artifact stores the
names, and loading one fitted on other names is an error.
"""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

FEATURE_NAMES: tuple[str, ...] = (
    "log_chars",
    "log_words",
    "mean_word_chars",
    "digit_share",
    "code_mark_share",
    "math_mark_share",
    "upper_share",
    "non_ascii_share",
    "log_lines",
    "has_code_block",
    "option_lines",
    "has_question_mark",
    "asks_fact",
    "asks_explanation",
    "asks_yes_no",
    "pieces_per_word",
    "unknown_share",
    "tools_known",
    "log_tools",
)

# Only head and tail of a long text are looked at, so that a large input costs little.
_WINDOW_CHARS = 4096

_CODE_MARKS = re.compile(r"[{}\[\]();<>_=#&|\\]")
_MATH_MARKS = re.compile(r"[+*/^=<>%$\\]")
# Blanks are [ \t], never \s: that would cross lines, so a run of empty lines would cost its
# square.
_CODE_BLOCK = re.compile(
    r"```|^[ \t]*(?:def|class|import|from|#include|public|SELECT)\b", re.MULTILINE
)
_OPTION_LINE = re.compile(r"^[ \t]*\(?[A-E][.)]\s", re.MULTILINE)
_FACT = re.compile(r"\b(?:what|who|whom|whose|when|where|which)\b", re.IGNORECASE)
_EXPLANATION = re.compile(r"\b(?:why|how|explain|describe|compare)\b", re.IGNORECASE)
_YES_NO = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|had)\b",
    re.IGNORECASE,
)


def explicit_features(
    text: str, tools: str | None, *, tokens: int, unknown_tokens: int
) -> NDArray[np.float32]:
    """Return the features of one input, in the order of :data:`FEATURE_NAMES`.

    Args:
        text: The request's text.
        tools: The offered tools, one a line; ``None`` = unknown, empty = none.
        tokens: Sub-word tokens the tokenizer made of ``text``, >= 0.
        unknown_tokens: How many of them are the unknown token.

    Returns:
        Shape ``(len(FEATURE_NAMES),)``, float32; each value is finite and roughly in [0, 2].
    """
    seen = (
        text
        if len(text) <= _WINDOW_CHARS
        else text[: _WINDOW_CHARS // 2] + text[-_WINDOW_CHARS // 2 :]
    )
    chars = max(1, len(seen))
    words = seen.split()
    tool_count = 0 if not tools else tools.count("\n") + 1
    values = (
        math.log1p(len(text)) / 8.0,
        math.log1p(len(words) * len(text) / chars) / 6.0,
        min(2.0, chars / max(1, len(words)) / 10.0),
        sum(map(str.isdigit, seen)) / chars,
        len(_CODE_MARKS.findall(seen)) / chars,
        len(_MATH_MARKS.findall(seen)) / chars,
        sum(map(str.isupper, seen)) / chars,
        sum(not c.isascii() for c in seen) / chars,
        math.log1p(seen.count("\n")) / 4.0,
        float(_CODE_BLOCK.search(seen) is not None),
        min(2.0, len(_OPTION_LINE.findall(seen)) / 4.0),
        float("?" in seen),
        float(_FACT.search(seen) is not None),
        float(_EXPLANATION.search(seen) is not None),
        float(_YES_NO.search(seen) is not None),
        min(2.0, tokens / max(1, len(words)) / 4.0),
        unknown_tokens / max(1, tokens),
        float(tools is not None),
        math.log1p(tool_count) / 3.0,
    )
    return np.asarray(values, dtype=np.float32)
