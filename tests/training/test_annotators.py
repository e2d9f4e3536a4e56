"""Several people's labels become one row a text, weighted by how far they agree."""

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from router.cli.app import app
from router.training.agreement import interval_alpha, nominal_alpha
from router.training.annotators import merge_files
from router.training.user_rows import RowsError, read_user_rows

# Krippendorff 2011, section C: four observers, twelve units, 0 = missing.
OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3),
    (0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0),
)
UNITS = [[value for value in unit if value] for unit in zip(*OBSERVERS, strict=True)]


def labels(folder: Path, name: str, **routes: str | tuple[str, float]) -> Path:
    """Write one person's labels; a pair is route and temperature."""
    path = folder / f"{name}.jsonl"
    rows = []
    for text, value in routes.items():
        route, temperature = value if isinstance(value, tuple) else (value, None)
        row = {"text": text, "route": route}
        rows.append(row if temperature is None else {**row, "temperature": temperature})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*arguments: object):
    return CliRunner().invoke(app, ["merge-annotators", *map(str, arguments)])


def test_alpha_is_the_published_one_with_missing_labels() -> None:
    assert nominal_alpha(UNITS) == pytest.approx(0.743, abs=5e-4)
    assert interval_alpha(UNITS) == pytest.approx(0.849, abs=5e-4)


def test_alpha_is_one_for_agreement_and_near_zero_for_chance() -> None:
    assert nominal_alpha([["a", "a"], ["b", "b", "b"]]) == 1.0
    rng = random.Random(3)
    by_chance = [[rng.choice("ab") for _ in range(3)] for _ in range(3000)]
    assert nominal_alpha(by_chance) == pytest.approx(0.0, abs=0.05)
    assert nominal_alpha([["a", "b"]] * 50) == pytest.approx(-0.98, abs=0.01)


@pytest.mark.parametrize("units", [[], [["a"], ["b"]], [["a", "a"], ["a", "a"]]])
def test_alpha_is_undefined_where_chance_could_not_do_worse(units: list[list[str]]) -> None:
    assert nominal_alpha(units) is None
    assert interval_alpha([[0.1] * len(unit) for unit in units]) is None


def test_the_majority_names_the_route_and_its_share_is_the_weight(tmp_path: Path) -> None:
    merge = merge_files(
        [
            labels(tmp_path, "a", q=("fast", 0.2), r="slow"),
            labels(tmp_path, "b", q=("slow", 0.5), r="slow"),
            labels(tmp_path, "c", q=("fast", 0.8), r="slow", s="tool"),
        ]
    )
    q, r, s = merge.rows
    assert (q.route, q.weight, q.temperature) == ("fast", pytest.approx(2 / 3), 0.5)
    assert (r.route, r.weight, r.temperature) == ("slow", 1.0, None)
    assert (s.route, s.weight) == ("tool", 1.0), "one person's label is kept"
    assert (merge.texts, merge.labelled_twice, merge.unanimous) == (3, 2, 1)
    assert [(each.texts, each.shared, each.agreed) for each in merge.annotators] == [
        (2, 2, 2),
        (2, 2, 1),
        (3, 2, 2),
    ]
    # By hand: values fast 2, slow 4; observed 4 / 2, expected 36 - 4 - 16.
    assert merge.route_alpha == pytest.approx(1 - 5 * 2 / 16)


def test_texts_meet_in_spite_of_case_and_spacing(tmp_path: Path) -> None:
    a = tmp_path / "a.jsonl"
    a.write_text('{"text": "What  is it?", "route": "fast"}\n')
    b = tmp_path / "b.jsonl"
    b.write_text('{"text": "what is it?", "route": "fast", "temperature": 0.3}\n')
    [row] = merge_files([a, b]).rows
    assert (row.text, row.temperature) == ("What  is it?", 0.3)


def test_own_weights_count_as_votes(tmp_path: Path) -> None:
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    a.write_text('{"text": "q", "route": "fast", "weight": 3}\n')
    b.write_text('{"text": "q", "route": "slow"}\n{"text": "r", "route": "slow", "weight": 7}\n')
    q, r = merge_files([a, b]).rows
    assert (q.route, q.weight) == ("fast", 1.5), "3 of the weight, over two people"
    assert r.weight == 7.0


def test_a_tie_goes_slow_where_slow_is_in_it_and_is_named_otherwise(tmp_path: Path) -> None:
    files = [
        labels(tmp_path, "a", q="fast", r="fast", s="fast"),
        labels(tmp_path, "b", q="slow", r="tool", s="fast"),
    ]
    merge = merge_files(files)
    assert [(row.text, row.route, row.weight) for row in merge.rows] == [
        ("q", "slow", 0.5),
        ("s", "fast", 1.0),
    ]
    assert (merge.ties_to_tie_route, list(map(str, merge.left_out))) == (
        1,
        [f"{files[0]}, line 2"],
    )
    tool_first = merge_files(files, tie_route="tool")
    assert [row.route for row in tool_first.rows] == ["tool", "fast"]


def test_three_ways_is_a_tie_too_whatever_the_order_of_the_files(tmp_path: Path) -> None:
    files = [labels(tmp_path, name, q=name) for name in ("fast", "tool", "slow")]
    for order in (files, files[::-1]):
        [row] = merge_files(order).rows
        assert (row.route, row.weight) == ("slow", pytest.approx(1 / 3))


def test_saying_the_same_twice_is_one_vote(tmp_path: Path) -> None:
    a = tmp_path / "a.jsonl"
    a.write_text(
        '{"text": "q", "route": "fast", "temperature": 0.2}\n'
        '{"text": "Q", "route": "fast", "temperature": 0.4}\n'
    )
    b = labels(tmp_path, "b", q=("slow", 0.7))
    [row] = merge_files([a, b]).rows
    assert (row.route, row.weight) == ("slow", 0.5)
    assert row.temperature == pytest.approx(0.5), "the mean of 0.3 and 0.7"


def test_equal_temperatures_keep_their_mean_within_the_range(tmp_path: Path) -> None:
    files = [labels(tmp_path, name, q=("slow", 0.1)) for name in "abc"]
    assert merge_files(files).rows[0].temperature == 0.1


def test_a_person_who_contradicts_himself_is_told_with_both_rows(tmp_path: Path) -> None:
    a = labels(tmp_path, "a", q="fast", x="slow", Q="slow")
    b = labels(tmp_path, "b", r=" ")
    with pytest.raises(RowsError) as caught:
        merge_files([a, b, a])
    assert [str(problem) for problem in caught.value.problems] == [
        f"{a}, line 3, route: contradicts line 1: same text",
        f"{b}, line 1, route: must be a name of 1 to 64 ASCII letters, digits, '_', '-' or '.'",
        f"{a}: is named twice; one person would count as two",
    ]


def test_the_command_writes_rows_that_training_reads(tmp_path: Path) -> None:
    files = [
        labels(tmp_path, "a", q=("fast", 0.2), r="slow"),
        labels(tmp_path, "b", q=("fast", 0.4), r="fast"),
    ]
    out = tmp_path / "rows.jsonl"
    result = run(*files, "--out", out)
    assert result.exit_code == 0, result.output
    rows = read_user_rows(out)
    assert [(row.route, row.weight) for row in rows] == [("fast", 1.0), ("slow", 0.5)]
    assert "Krippendorff's alpha: routes 0.000" in result.stdout
    assert "1 ties became the tie route" in result.stdout


def test_rows_on_standard_output_are_rows_alone(tmp_path: Path) -> None:
    result = run(labels(tmp_path, "a", q="fast", r="slow"), labels(tmp_path, "b", q="fast"))
    assert result.exit_code == 0
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["q", "r"]
    assert "alpha" in result.stderr


def test_the_report_for_machines_goes_with_a_file(tmp_path: Path) -> None:
    a = labels(tmp_path, "a", q="fast", r="slow")
    result = run(a, "--json", "--out", tmp_path / "rows.jsonl")
    report = json.loads(result.stdout)
    assert (report["rows"], report["routes"]) == (2, {"fast": 1, "slow": 1})
    assert report["route_alpha"] is None
    assert run(a, "--json").exit_code == 2


def test_the_command_refuses_bad_rows_and_its_own_input_as_output(tmp_path: Path) -> None:
    a = labels(tmp_path, "a", q="fsat", r="slow")
    before = a.read_bytes()
    result = run(a, "--routes", "fast,slow")
    assert result.exit_code == 2
    assert f"{a}, line 1, route: is no known route; allowed: fast, slow" in result.stderr
    assert run(a, "--out", a).exit_code == 2
    assert a.read_bytes() == before


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    a = labels(tmp_path, "a", q="fast", r="slow")
    result = run(a, "--out", tmp_path / "absent" / "rows.jsonl")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--routes", "fast,slow", "--tie-route", "slwo"), "--tie-route: is none of --routes"),
        (("--routes", ""), "--routes: must be names"),
        (("--routes", "fast,,slow"), "--routes: must be names"),
    ],
)
def test_a_route_option_that_can_match_nothing_is_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = run(labels(tmp_path, "a", q="fast", r="slow"), *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_routes_without_slow_need_no_tie_route(tmp_path: Path) -> None:
    result = run(labels(tmp_path, "a", q="fast", r="tool"), "--routes", "fast,tool")
    assert result.exit_code == 0
