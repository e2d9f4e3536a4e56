"""Turn token log-probabilities into probabilities of the answers that were possible.

The chain rule along the generated path: where the path could have turned to another
option, that option gets the probability of the path so far times that of the turn. A server
shows only its most probable tokens, and one token can lead to several options; the
probability that stays unassigned for these two reasons is added up exactly. Above a small
bound nothing is returned, because a number would be a guess.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import accumulate

from slow_tier.completion import TokenLogprob

# Most probability that may stay unassigned, hence the largest error of any one result.
UNRESOLVED_LIMIT = 0.02


def value_spans(text: str) -> dict[str, tuple[int, int]]:
    """Return where each top-level value of a JSON object stands, ``[start, end)`` by key.

    Args:
        text: Strict JSON; anything but an object has no spans.
    """
    decoder = json.JSONDecoder()
    spans: dict[str, tuple[int, int]] = {}
    position = _skip(text, 0, " \t\r\n")
    if text[position : position + 1] != "{":
        return spans
    position = _skip(text, position + 1, " \t\r\n")
    while text[position] != "}":
        key, position = decoder.raw_decode(text, position)
        start = _skip(text, position, ": \t\r\n")
        _, end = decoder.raw_decode(text, start)
        spans[key] = (start, end)
        position = _skip(text, end, ", \t\r\n")
    return spans


def option_probabilities(
    text: str,
    tokens: Sequence[TokenLogprob],
    *,
    span: tuple[int, int],
    options: Sequence[str],
) -> list[float] | None:
    """Return the probability of each option to stand where one was generated.

    Args:
        text: The generated JSON text.
        tokens: Its tokens; together they spell ``text``, perhaps with more behind it.
        span: ``[start, end)`` of the value in ``text``.
        options: JSON literals that were allowed there, at least two, all different.

    Returns:
        As many numbers in [0, 1] as options, which sum to 1, given that one of the options
        is written. None when the tokens do not settle them within `UNRESOLVED_LIMIT`.
    """
    if not "".join(token.token for token in tokens).startswith(text):
        return None
    start, end = span
    ends = list(accumulate(len(token.token) for token in tokens))
    first = next(index for index, token_end in enumerate(ends) if token_end > start)
    lead = text[ends[first] - len(tokens[first].token) : start]
    # The character behind the value ends it: without it, 1 would be a start of 10.
    targets = [lead + option + text[end : end + 1] for option in options]
    mass = [0.0] * len(options)
    unresolved = 0.0
    alive = list(range(len(options)))
    prefix, path = "", 1.0
    for token in tokens[first:]:
        for alternative, logprob in token.alternatives.items():
            if alternative == token.token:
                continue
            reached = [i for i in alive if _leads_to(prefix + alternative, targets[i])]
            if len(reached) == 1:
                mass[reached[0]] += path * math.exp(logprob)
            elif reached:
                unresolved += path * math.exp(logprob)
        shown = math.fsum(map(math.exp, token.alternatives.values()))
        unresolved += path * max(0.0, 1.0 - shown)
        prefix += token.token
        path *= math.exp(token.logprob)
        alive = [i for i in alive if _leads_to(prefix, targets[i])]
        if len(alive) <= 1:
            break
    if len(alive) != 1:
        return None
    mass[alive[0]] += path
    total = math.fsum(mass)
    if total <= 0.0 or unresolved > UNRESOLVED_LIMIT * (total + unresolved):
        return None
    return [value / total for value in mass]


def _leads_to(text: str, target: str) -> bool:
    return target.startswith(text) or text.startswith(target)


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position
