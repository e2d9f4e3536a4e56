"""Inputs are cut where it hurts least, and the cut is told."""

from pathlib import Path

import numpy as np
import pytest

from router.artifact import REGISTERED
from router.domain import EncoderInput
from router.errors import ArtifactError
from router.tokens import InputTokenizer

CLS, SEP = 101, 102
TOKENIZER = REGISTERED["laya-base"] / "tokenizer.json"


def tokenizer(max_tokens: int = 16) -> InputTokenizer:
    return InputTokenizer(TOKENIZER, max_tokens=max_tokens)


def ids_of(text: str) -> list[int]:
    return tokenizer(512).row(EncoderInput(text=text)).ids[1:-1].tolist()


def test_a_short_text_is_framed_by_cls_and_sep() -> None:
    row = tokenizer().row(EncoderInput(text="hello world"))
    assert row.ids.tolist() == [CLS, *ids_of("hello world"), SEP]
    assert row.ids.dtype == np.int64
    assert (row.text_tokens, row.unknown_tokens, row.truncated) == (2, 0, False)


def test_a_text_of_exactly_the_window_is_whole_and_one_more_is_cut() -> None:
    words = "red " * 14
    assert tokenizer().row(EncoderInput(text=words)).truncated is False
    row = tokenizer().row(EncoderInput(text=words + "red"))
    assert (row.truncated, row.text_tokens, len(row.ids)) == (True, 15, 16)


def test_a_long_text_keeps_its_head_and_its_tail() -> None:
    text = "alpha " + "filler " * 500 + "omega"
    ids = tokenizer().row(EncoderInput(text=text)).ids.tolist()
    assert ids[1] == ids_of("alpha")[0]
    assert ids[-2] == ids_of("omega")[-1]


def test_context_fills_what_room_is_left_from_its_end() -> None:
    item = EncoderInput(text="red blue", context="one " * 40 + "two")
    row = tokenizer().row(item)
    assert len(row.ids) == 16
    assert row.truncated is False
    assert row.ids[-4] == ids_of("two")[0]
    assert row.ids[-3:-1].tolist() == ids_of("red blue")


def test_context_never_pushes_the_text_out() -> None:
    text = "red " * 14
    with_context = tokenizer().row(EncoderInput(text=text, context="one two"))
    assert with_context.ids.tolist() == tokenizer().row(EncoderInput(text=text)).ids.tolist()


def test_tools_follow_the_text_and_take_at_most_half_of_the_window() -> None:
    item = EncoderInput(text="red blue", tools="tool " * 40)
    ids = tokenizer().row(item).ids.tolist()
    assert ids[:4] == [CLS, *ids_of("red blue"), SEP]
    assert ids[-1] == SEP
    assert len(ids) == 4 + 6 + 1


def test_a_text_that_does_not_fit_beside_many_tools_keeps_its_head_and_tail() -> None:
    # 16 tokens, 3 of them special: 6 for the tools, 7 for the text.
    item = EncoderInput(text="red " * 4 + "blue " * 4, tools="tool " * 40)
    row = tokenizer().row(item)
    assert row.truncated is True
    assert row.text_ids.tolist() == ids_of("red red red blue blue blue blue")


def test_tools_do_not_make_a_text_of_half_the_window_look_truncated() -> None:
    item = EncoderInput(text="red " * 6, tools="tool " * 40)
    row = tokenizer().row(item)
    assert row.truncated is False
    assert len(row.ids) <= 16


def test_only_the_start_of_a_huge_tool_list_is_read() -> None:
    start = "tool " * 200
    near = tokenizer().row(EncoderInput(text="red", tools=start))
    far = tokenizer().row(EncoderInput(text="red", tools=start + "x" * 2_000_000))
    assert near.ids.tolist() == far.ids.tolist()


def test_no_tools_on_offer_add_no_separator() -> None:
    none = tokenizer().row(EncoderInput(text="red", tools=""))
    assert none.ids.tolist() == [CLS, *ids_of("red"), SEP]


def test_a_huge_text_is_read_at_its_ends_and_counted_by_estimate() -> None:
    row = tokenizer().row(EncoderInput(text="word " * 200_000))
    assert row.truncated is True
    assert row.text_tokens == pytest.approx(200_000, rel=0.1)


def test_letters_outside_the_vocabulary_are_counted() -> None:
    row = tokenizer().row(EncoderInput(text="\U0001fae8 word"))
    assert row.unknown_tokens == 1


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ArtifactError, match=r"tokenizer\.json: not a tokenizer file"):
        InputTokenizer(path, max_tokens=16)


def test_every_tool_ends_with_a_separator() -> None:
    row = tokenizer(64).row(EncoderInput(text="hello", tools="alarm: set\nradio: play"))
    assert row.ids.tolist() == [
        *(CLS, *ids_of("hello"), SEP),
        *(*ids_of("alarm: set"), SEP),
        *(*ids_of("radio: play"), SEP),
    ]


def test_an_artifact_of_the_first_format_reads_its_tools_as_one() -> None:
    old = InputTokenizer(TOKENIZER, max_tokens=64, separate_tools=False)
    row = old.row(EncoderInput(text="hello", tools="alarm: set\nradio: play"))
    assert row.ids.tolist().count(SEP) == 2
    assert row.ids[-1] == SEP


def test_a_marker_that_the_caller_typed_is_text_and_never_ends_it() -> None:
    row = tokenizer(64).row(EncoderInput(text="hello [SEP] alarm [CLS] [UNK]"))
    assert row.ids.tolist().count(SEP) == 1
    assert row.ids.tolist().count(CLS) == 1
    assert row.unknown_tokens == 0


def test_the_texts_own_ids_are_told_from_context_and_tools() -> None:
    row = tokenizer(64).row(EncoderInput(text="hello world", context="user: hi", tools="a: b"))
    assert row.text_ids.tolist() == ids_of("hello world")
    assert tokenizer(64).row(EncoderInput(text=" ")).text_ids.tolist() == []
