"""Events come out the same however the network cuts their bytes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slow_tier.sse import EventDecoder

BODY = (
    "\ufeffdata: né😀\r\n\r\n: keep-alive\n\nevent: x\ndata:1\rdata: 2\r\rdata: [DONE]\n\n".encode()
)
EVENTS = ["né😀", "1\n2", "[DONE]"]


@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_any_cut_gives_the_same_events(cuts):
    edges = [0, *sorted(cuts), len(BODY)]
    decoder = EventDecoder()
    events = []
    for start, end in pairwise(edges):
        events += decoder.feed(BODY[start:end])
    assert events == EVENTS


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\x0b", "\x1c"])
def test_what_only_python_calls_a_line_end_stays_inside_the_event(separator):
    assert EventDecoder().feed(f"data: a{separator}b\n\n".encode()) == [f"a{separator}b"]


def test_an_event_that_the_end_cuts_off_is_never_returned():
    assert EventDecoder().feed(b"data: [DONE]\n") == []


def test_bytes_that_are_not_utf8_become_replacement_characters():
    assert EventDecoder().feed(b"data: a\xff\n\n") == ["a\N{REPLACEMENT CHARACTER}"]
