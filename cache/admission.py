"""Decide whether an answer may enter the cache at all."""

from __future__ import annotations

import re
from enum import StrEnum


class StoreRefusal(StrEnum):
    """Why an answer is not stored; the values are metric labels."""

    CALLER_FORBIDS = "caller_forbids"
    TOOL_CALLS = "tool_calls"
    TRUNCATED = "truncated"
    FILTERED = "filtered"
    ERROR = "error"
    LOW_CONFIDENCE = "low_confidence"
    VOLATILE = "volatile"
    ENTRY_TOO_LARGE = "entry_too_large"


# Finish reasons of the OpenAI chat-completions API; whatever is not listed counts as an error.
_UNFINISHED = {
    "tool_calls": StoreRefusal.TOOL_CALLS,
    "function_call": StoreRefusal.TOOL_CALLS,
    "length": StoreRefusal.TRUNCATED,
    "content_filter": StoreRefusal.FILTERED,
}
_FINISHED = "stop"

_VOLATILE = re.compile(
    r"""\b(?:
        # the moment of asking
        now | nowadays | today | tonight | tomorrow | yesterday | currently | current
      | recent | recently | latest | newest | upcoming | so\ far | at\ the\ moment | these\ days
      | up\ to\ date | ago | as\ of
      | (?:this|next|last|past|coming)\s+(?:second|minute|hour|morning|afternoon|evening|night
          |day|week|weekend|month|quarter|season|year|decade
          |(?:mon|tues|wednes|thurs|fri|satur|sun)day)
      | what(?:'s|\s+is)?\s+(?:the\s+)?(?:time|date)(?:\s+is)?
          (?=\s*[?.!]|\s+(?:it|in|at|here)\b|\s*$)
      | what\s+(?:day|month|year)\s+is
        # the person asking
      | my | mine | myself | our | ours | ourselves | am\ i
        # what changes by itself
      | weather | forecast | news | headlines
      | (?:stock|share)\s+prices? | exchange\s+rates?
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


def refusal_to_store(
    *,
    text: str,
    finish_reason: str,
    has_tool_calls: bool,
    confident: bool,
    caller_forbids: bool,
    caller_allows_volatile: bool,
) -> StoreRefusal | None:
    """Return why an answer must not be stored, or None when it may be.

    Args:
        text: What was asked.
        finish_reason: Of the OpenAI chat-completions API. Only ``"stop"`` is a whole answer.
        has_tool_calls: Whether the answer asks for a tool, whatever its finish reason.
        confident: Whether the answering tier was confident of its answer.
        caller_forbids: The caller asked for no storage.
        caller_allows_volatile: The caller vouches that the answer holds beyond the moment and
            the person, which lifts only the refusal of volatile prompts.
    """
    if caller_forbids:
        return StoreRefusal.CALLER_FORBIDS
    if has_tool_calls:
        return StoreRefusal.TOOL_CALLS
    if finish_reason != _FINISHED:
        return _UNFINISHED.get(finish_reason, StoreRefusal.ERROR)
    if not confident:
        return StoreRefusal.LOW_CONFIDENCE
    if not caller_allows_volatile and is_volatile(text):
        return StoreRefusal.VOLATILE
    return None


def is_volatile(text: str) -> bool:
    """Return whether the answer depends on when or by whom ``text`` is asked.

    Reads English words ("now", "today", "latest", "my"); a prompt that is volatile in substance
    only ("Who is the president?") is left to the TTL.
    """
    return _VOLATILE.search(text.replace("\u2019", "'")) is not None
