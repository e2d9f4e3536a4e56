"""What a user's file of rows may hold, and how its mistakes are told."""

import json
from pathlib import Path

import pytest

from router.encoder import TEMPERATURE_RANGE
from router.training.sources import split_of
from router.training.user_rows import (
    MAX_TEMPERATURE,
    MAX_TEXT_BYTES,
    MIN_TEMPERATURE,
    RowsError,
    Tool,
    UserRow,
    read_user_rows,
    routes_of,
)

GOOD = [
    {"text": "hello", "route": "fast", "temperature": 0.9},
    {"text": "prove it", "route": "slow", "temperature": 0.1, "weight": 2},
]


def written(folder: Path, *rows: object, name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def problems(path: Path, **options: object) -> list[str]:
    with pytest.raises(RowsError) as caught:
        read_user_rows(path, **options)
    assert str(caught.value).splitlines()[: len(caught.value.problems)] == [
        str(problem) for problem in caught.value.problems
    ]
    return [str(problem).removeprefix(f"{path}") for problem in caught.value.problems]


def test_rows_are_read_alike_from_an_array_and_from_lines(tmp_path: Path) -> None:
    lines = written(tmp_path, *GOOD)
    array = tmp_path / "rows.json"
    array.write_text(json.dumps(GOOD, indent=2), encoding="utf-8")
    rows = read_user_rows(lines)
    assert rows == read_user_rows(array)
    assert rows[0] == UserRow(text="hello", route="fast", temperature=0.9)
    assert [row.weight for row in rows] == [1.0, 2.0]


def test_a_row_survives_being_written_and_read_again(tmp_path: Path) -> None:
    rows = (
        UserRow(
            text="Wie spät ist es? 🕑\u2028",
            route="tool",
            weight=0.25,
            tools=(Tool(name="clock", description="tells the time"), Tool(name="bell")),
            weak_score=0.5,
            strong_score=1.0,
        ),
        UserRow(text="b", route="fast", tools=()),
    )
    assert read_user_rows(written(tmp_path, *(row.to_json() for row in rows))) == rows
    assert rows[0].tool_text == "clock: tells the time\nbell:"
    assert (rows[1].tool_text, UserRow(text="c", route="fast").tool_text) == ("", None)


def test_a_temperature_is_optional_because_labelled_rows_have_none(tmp_path: Path) -> None:
    path = written(tmp_path, {"text": "a", "route": "fast"}, {"text": "b", "route": "slow"})
    assert [row.temperature for row in read_user_rows(path)] == [None, None]


def test_the_temperature_range_is_the_encoders() -> None:
    assert (MIN_TEMPERATURE, MAX_TEMPERATURE) == TEMPERATURE_RANGE


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"route": "fast"}, "text: is missing"),
        ({"text": "a"}, "route: is missing"),
        ({"text": " \n\t", "route": "fast"}, "text: must not be blank"),
        ({"text": "", "route": "fast"}, "text: must not be blank"),
        ({"text": 7, "route": "fast"}, "text: must be text"),
        ({"text": None, "route": "fast"}, "text: must be text"),
        ({"text": "a\0b", "route": "fast"}, "text: holds a NUL character"),
        ({"text": "\ud800", "route": "fast"}, "text: holds a lone surrogate"),
        (
            {"text": "ä" * (MAX_TEXT_BYTES // 2) + "a", "route": "fast"},
            f"text: must be at most {MAX_TEXT_BYTES} bytes of UTF-8, is {MAX_TEXT_BYTES + 1}",
        ),
        ({"text": "a", "route": "two words"}, "route: must be a name of 1 to 64 ASCII letters"),
        ({"text": "a", "route": 1}, "route: must be text"),
        *(
            ({"text": "a", "route": "fast", "temperature": t}, "temperature: must be a finite")
            for t in (0.0999, 1.5001, -1, float("nan"), float("inf"))
        ),
        ({"text": "a", "route": "fast", "temperature": True}, "temperature: must be a number"),
        ({"text": "a", "route": "fast", "temperature": "0.5"}, "temperature: must be a number"),
        ({"text": "a", "route": "fast", "temperature": 10**400}, "temperature: must be a number"),
        *(
            ({"text": "a", "route": "fast", "weight": w}, "weight: must be a finite number in (0,")
            for w in (0, -1, 1000.5, float("nan"), float("inf"))
        ),
        ({"text": "a", "route": "fast", "weak_score": 1.01}, "weak_score: must be a finite"),
        ({"text": "a", "route": "fast", "strong_score": -0.1}, "strong_score: must be a finite"),
        ({"text": "a", "route": "fast", "temprature": 1}, "temprature: is no known field; did you"),
        ({"text": "a", "route": "fast", "qqq": 1}, "qqq: is no known field; known are text, route"),
        ({"text": "a", "route": "fast", "tools": "x"}, "tools: must be a list"),
        ({"text": "a", "route": "fast", "tools": [{}]}, "tools.0.name: is missing"),
        ({"text": "a", "route": "fast", "tools": [3]}, "tools.0: must be an object"),
        (
            {"text": "a", "route": "fast", "tools": [{"name": "n", "schema": {}}]},
            "tools.0.schema: is no known field",
        ),
    ],
)
def test_a_mistake_names_line_field_and_limit(tmp_path: Path, row: object, problem: str) -> None:
    path = written(tmp_path, *GOOD, row)
    [found] = problems(path)
    assert found.startswith(f", line 3, {problem}")


def test_a_key_that_is_no_text_is_told_in_words(tmp_path: Path) -> None:
    path = written(tmp_path, *GOOD, {"text": "a", "route": "fast", "\ud800": 1})
    assert problems(path) == [", line 3: has a key with a lone surrogate, which is no character"]


@pytest.mark.parametrize("temperature", [0.1, 1.5])
@pytest.mark.parametrize("weight", [1e-9, 1000])
def test_the_limits_themselves_are_allowed(
    tmp_path: Path, temperature: float, weight: float
) -> None:
    row = {"text": "ä" * (MAX_TEXT_BYTES // 2), "route": "fast"}
    path = written(tmp_path, *GOOD, {**row, "temperature": temperature, "weight": weight})
    assert read_user_rows(path)[2].weight == weight


def test_all_mistakes_of_a_file_are_told_at_once_and_none_quotes_a_text(tmp_path: Path) -> None:
    secret = "my password is hunter2"
    path = written(
        tmp_path,
        {"text": secret, "route": secret, "weight": 0, "temperature": 9},
        [secret],
        {"text": secret, "rout": "fast"},
    )
    found = problems(path)
    assert [line.split(":")[0] for line in found] == [
        ", line 1, route",
        ", line 1, temperature",
        ", line 1, weight",
        ", line 2",
        ", line 3, route",
        ", line 3, rout",
    ]
    assert "hunter2" not in "\n".join(found)


def test_a_row_made_in_code_is_checked_without_quoting_it() -> None:
    with pytest.raises(ValueError, match=r"weight\n.*finite number") as caught:
        UserRow(text="hunter2", route="fast", weight=0.0)
    assert "hunter2" not in str(caught.value)


def test_more_than_fifty_mistakes_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, *([{"text": " ", "route": "fast"}] * 73))
    with pytest.raises(RowsError, match=r"\.\.\. and 23 more") as caught:
        read_user_rows(path)
    assert (len(caught.value.problems), caught.value.omitted) == (50, 23)


def test_blank_lines_and_carriage_returns_keep_the_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "a", "route": "fast"}\r\n\r\n\n{"text": "b"}\r\n')
    assert problems(path) == [", line 4, route: is missing"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", ": holds no rows"),
        (b" \n\n", ": holds no rows"),
        (b"[]", ": holds no rows"),
        (b"\xef\xbb\xbf{}", ": starts with a byte order mark; save it as UTF-8 without one"),
        (b"\xff\xfe{\0}\0", ": starts with a byte order mark"),
        (b'{"text": "a\0"}', ", line 1: holds a NUL byte"),
        (b'\n{"text": "\xff"}', ", line 2: is not valid UTF-8"),
        (b'[\n{"text": "\xff"}]', ": is not valid UTF-8 at line 2"),
        (b'{"text": }', ", line 1: is not JSON: Expecting value at column 10"),
        (b'{"text": "a"} x', ", line 1: is not JSON: more text after the object, at column 14"),
        (b'{"text": "a", "text": "b"}', ", line 1, text: stands twice in one object"),
        (b'[{"text": "a", "text": "b"}]', ", index 0, text: stands twice in one object"),
        (b'[3,\n {"text": "a"}', ", index 0: must be a JSON object"),
        (b'[{"text": 1}, {"text"', ", index 0, text: must be text"),
        (b'[{"text": "a", "route": "b"}] x', ": is not JSON: more text after the array"),
        (b'{"text": ' + b"[" * 100_000, ", line 1: is nested too deeply"),
        (b'{"weight": ' + b"9" * 5000 + b"}", ", line 1: is not JSON: holds an integer with too"),
    ],
)
def test_what_is_no_file_of_rows_is_told_with_the_place(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(content)
    assert problems(path)[0].startswith(problem)


def test_an_array_tells_mistakes_by_index_up_to_where_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"text": "a", "route": "fast"},\n{"text": ""},\n{"text" "b"}]')
    assert problems(path)[:3] == [
        ", index 1, text: must not be blank",
        ", index 1, route: is missing",
        ", index 2: is not JSON: Expecting ':' delimiter at line 3 column 9",
    ]


def test_a_trailing_comma_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(GOOD)[:-1] + ",]")
    assert problems(path)[0].startswith(", index 2: is not JSON")


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, make) -> None:
    path = tmp_path / "absent"
    make(path)
    [found] = problems(path)
    assert found.startswith(": cannot be read: ")


def test_a_route_outside_the_allowed_ones_is_told_with_them(tmp_path: Path) -> None:
    path = written(tmp_path, *GOOD, {"text": "c", "route": "fsat"})
    assert problems(path, routes=("fast", "slow")) == [
        ", line 3, route: is no known route; allowed: fast, slow"
    ]
    assert routes_of(read_user_rows(path)) == ("fast", "slow", "fsat"), "without, data decides"


def test_one_route_alone_teaches_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD[0], {"text": "b", "route": "fast"})
    [found] = problems(path)
    assert found == ", route: every row has one route; to learn a difference takes at least 2"


def test_a_route_a_row_is_no_set_of_routes(tmp_path: Path) -> None:
    path = written(tmp_path, *({"text": f"t{i}", "route": f"r{i}"} for i in range(17)))
    assert problems(path) == [", route: must be at most 16 routes, are 17"]


@pytest.mark.parametrize("twin", ["hello", "HELLO", " hello\n"])
def test_one_text_with_two_routes_is_a_contradiction(tmp_path: Path, twin: str) -> None:
    path = written(tmp_path, *GOOD, {"text": twin, "route": "slow"})
    assert problems(path) == [", line 3, route: contradicts line 1: same text"]


def test_a_contradiction_is_found_across_files(tmp_path: Path) -> None:
    first = written(tmp_path, *GOOD, name="a.jsonl")
    second = written(tmp_path, {"text": "Hello", "route": "slow"}, name="b.jsonl")
    with pytest.raises(RowsError) as caught:
        read_user_rows(first, second)
    assert str(caught.value) == (f"{second}, line 1, route: contradicts {first}, line 1: same text")


def test_the_same_text_may_differ_in_route_where_its_meaning_or_tools_differ(
    tmp_path: Path,
) -> None:
    rows = [
        {"text": "is 5 > 3", "route": "fast"},
        {"text": "is 5 < 3", "route": "slow"},
        {"text": "is 5 < 3", "route": "tool", "tools": [{"name": "calculator"}]},
        {"text": "is 5 > 3", "route": "fast", "temperature": 0.2},
    ]
    assert len(read_user_rows(written(tmp_path, *rows))) == 4


def test_equal_texts_share_a_split_so_that_dev_holds_nothing_trained_on() -> None:
    rows = [UserRow(text=f"prompt {i}", route="fast") for i in range(2000)]
    assert [row.split for row in rows] == [split_of(row.text) for row in rows]
    assert sum(row.split == "dev" for row in rows) / 2000 == pytest.approx(0.1, abs=0.02)
    assert UserRow(text="Prompt, 7!", route="slow").split == rows[7].split
