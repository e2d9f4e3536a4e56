"""Readers obey the splits, so that nothing measured was trained on."""

from pathlib import Path

import pytest

from router.training.sources import (
    arena_rows,
    distillation_corpus,
    read_rows,
    routing_rows,
    split_of,
    tool_rows,
)


def test_the_split_is_blind_to_case_punctuation_and_spacing() -> None:
    assert split_of("What is 2+2?") == split_of("what is  2 2")


def test_the_split_is_about_seventy_ten_twenty() -> None:
    counts = {"train": 0, "dev": 0, "test": 0}
    for i in range(5000):
        counts[split_of(f"prompt number {i}")] += 1
    assert counts["train"] / 5000 == pytest.approx(0.7, abs=0.02)
    assert counts["dev"] / 5000 == pytest.approx(0.1, abs=0.02)


def test_no_measured_prompt_is_in_the_distillation_corpus(tiny_data: Path) -> None:
    corpus = set(distillation_corpus(tiny_data))
    held_out = {row["prompt"] for row in routing_rows(tiny_data, "dev", "test", "ood")}
    held_out |= {row["prompt"] for row in tool_rows(tiny_data, live=True)}
    assert held_out
    assert not corpus & held_out
    assert {row["prompt"] for row in arena_rows(tiny_data)} <= corpus


def test_tool_rows_without_functions_are_never_read(tmp_path: Path) -> None:
    path = tmp_path / "tools" / "bfcl.jsonl"
    path.parent.mkdir()
    gz = path.with_suffix(".jsonl.gz")
    import gzip

    gz.write_bytes(
        gzip.compress(
            b'{"category": "memory", "tool_fits": true, "prompt": "p", "functions": []}\n'
        )
    )
    assert tool_rows(tmp_path, live=False) == []


def test_a_broken_line_is_named_by_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n[1]\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 3: expected an object, got list"):
        list(read_rows(path))
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 2: not JSON"):
        list(read_rows(path))
