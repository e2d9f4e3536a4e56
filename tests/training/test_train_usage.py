"""`train` tells what is missing before anything heavy is loaded."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from router.cli.app import app


def test_without_the_extra_the_command_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a", "route": "x"}\n{"text": "b", "route": "y"}\n', encoding="utf-8")
    result = CliRunner().invoke(app, ["train", str(rows), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "torch is not installed; pip install -e '.[train]' brings it" in result.output


def test_all_mistakes_in_the_rows_are_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": " ", "route": "x"}\n{"text": "b"}\n', encoding="utf-8")
    result = CliRunner().invoke(app, ["train", str(rows), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "line 1, text: must not be blank" in result.output
    assert "line 2, route:" in result.output
