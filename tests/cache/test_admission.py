"""Only whole, confident, lasting answers are stored."""

import pytest

from cache.admission import StoreRefusal, is_volatile, refusal_to_store

STORABLE = {
    "text": "What is the capital of France?",
    "finish_reason": "stop",
    "has_tool_calls": False,
    "confident": True,
    "caller_forbids": False,
    "caller_allows_volatile": False,
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"finish_reason": "length"}, StoreRefusal.TRUNCATED),
        ({"finish_reason": "content_filter"}, StoreRefusal.FILTERED),
        ({"finish_reason": "tool_calls"}, StoreRefusal.TOOL_CALLS),
        ({"finish_reason": "error"}, StoreRefusal.ERROR),
        ({"finish_reason": ""}, StoreRefusal.ERROR),
        ({"finish_reason": "a reason nobody knows"}, StoreRefusal.ERROR),
        ({"has_tool_calls": True}, StoreRefusal.TOOL_CALLS),
        ({"confident": False}, StoreRefusal.LOW_CONFIDENCE),
        ({"caller_forbids": True}, StoreRefusal.CALLER_FORBIDS),
        ({"text": "What is my balance?"}, StoreRefusal.VOLATILE),
        ({"text": "What is my balance?", "caller_allows_volatile": True}, None),
        ({"caller_allows_volatile": True, "confident": False}, StoreRefusal.LOW_CONFIDENCE),
        ({"caller_allows_volatile": True, "caller_forbids": True}, StoreRefusal.CALLER_FORBIDS),
    ],
)
def test_each_unfit_answer_is_refused_for_its_own_reason(change, reason) -> None:
    assert refusal_to_store(**(STORABLE | change)) is reason


@pytest.mark.parametrize(
    "text",
    [
        "What's the weather in Rome?",
        "Who won TODAY?",
        "today\u2019s menu",
        "the latest iPhone",
        "Where is my parcel?",
        "When do our offices open",
        "What happened last  Friday?",
        "this year's budget",
        "What time is it in Tokyo?",
        "what's the time?",
        "How far am I from home",
        "What is the current president's age?",
    ],
)
def test_a_prompt_about_the_moment_or_the_person_is_volatile(text: str) -> None:
    assert is_volatile(text)


@pytest.mark.parametrize(
    "text",
    [
        "What do you know about snow?",
        "How do I parse current_user in a template?",
        "What is mythology?",
        "How do I reverse a list?",
        "What time complexity has quicksort?",
        "Explain the four seasons and the hourly rate of a plumber",
    ],
)
def test_a_word_that_only_contains_a_volatile_word_is_not_volatile(text: str) -> None:
    assert not is_volatile(text)
