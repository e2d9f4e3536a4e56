"""``python -m router label`` against real servers with scripted models."""

import json
from pathlib import Path

import pytest

from router.training.user_rows import UserRow, read_user_rows

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}

KEPT = {"text": "x", "finish_reason": "stop", "prompt_tokens": 1, "completion_tokens": None}


def rows_of(path: Path) -> list[tuple[str, str, float | None, float | None, float]]:
    lines = path.with_name(f"{path.stem}.rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [UserRow(**json.loads(line)) for line in lines]
    return [(r.text, r.route, r.weak_score, r.strong_score, r.weight) for r in rows]


def judging(*, verdict: str | None = None, better: str | None = None):
    """Answer a prompt with "slow answer"; judge by place, or for the text that is better."""

    def answer(prompt: str) -> str:
        if "<answer_a>" not in prompt:
            return "slow answer"
        if verdict is not None:
            return json.dumps({"verdict": verdict})
        first = prompt.partition("<answer_a>")[2].partition("</answer_a>")[0].strip()
        return json.dumps({"verdict": "a" if first == better else "b"})

    return answer


def test_rows_are_graded_by_what_they_carry_and_training_reads_them(serve, prompts, label) -> None:
    fast = serve(lambda p: {"2+2": "**4.**", "17*23": "381", "as JSON": '{"n": "x"}'}.get(p, "hm"))
    slow = serve(
        lambda p: {"2+2": "4", "17*23": "391", "as JSON": '{"n": 1}'}.get(
            p, judging(better="slow answer")(p)
        )
    )
    file = prompts(
        {"text": "2+2", "answer": "4"},
        {"text": "17*23", "answer": ["391", "three hundred ninety-one"]},
        {"text": "as JSON", "response_schema": SCHEMA},
        "an essay",
    )
    result = label(file, fast, slow)
    assert result.exit_code == 0, result.output
    assert rows_of(file) == [
        ("2+2", "fast", 1.0, 1.0, 1.0),
        ("17*23", "slow", 0.0, 1.0, 1.0),
        ("as JSON", "slow", 0.0, 1.0, 1.0),
        ("an essay", "slow", 0.0, 1.0, 1.0),
    ]
    assert len(read_user_rows(file.with_name("prompts.rows.jsonl"))) == 4
    assert "4 of 4 prompts labelled: fast 1, slow 3" in result.stdout
    assert "graded by: exact 2, model 1, schema 1" in result.stdout
    # A quarter of the prompts at 1 instead of 10.
    assert "22.5%" in result.stdout


def test_what_is_asked_is_greedy_bounded_and_carries_schema_model_and_key(
    serve, prompts, label, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOW_KEY", "a-key-of-this-test")
    fast, slow = (serve(lambda _: '{"n": 1}') for _ in range(2))
    file = prompts({"text": "as JSON", "response_schema": SCHEMA})
    options = ("--slow-model", "large", "--slow-key-env", "SLOW_KEY", "--slow-dialect", "reasoning")
    result = label(file, fast, slow, "--max-output-tokens", 77, "--seed", 5, *options)
    assert result.exit_code == 0, result.output
    [asked_fast], [asked_slow] = fast.bodies, slow.bodies
    assert (asked_fast["model"], asked_slow["model"]) == ("scripted", "large")
    assert (asked_fast["temperature"], asked_fast["max_tokens"], asked_fast["seed"]) == (0, 77, 5)
    assert asked_slow["max_completion_tokens"] == 77
    assert asked_fast["response_format"]["json_schema"]["schema"] == SCHEMA
    assert slow.headers[0]["authorization"] == "Bearer a-key-of-this-test"
    assert "authorization" not in fast.headers[0]
    written = file.with_name("prompts.rows.jsonl.journal").read_text()
    assert "a-key-of-this-test" not in result.output + written


@pytest.mark.parametrize("favourite", ["a", "b"])
def test_a_judge_that_always_prefers_one_place_ends_in_ties_of_half_weight(
    serve, prompts, label, favourite: str
) -> None:
    fast, slow = serve(lambda _: "fast answer"), serve(judging(verdict=favourite))
    file = prompts("p", "q")
    result = label(file, fast, slow)
    assert rows_of(file) == [("p", "fast", 0.5, 0.5, 0.5), ("q", "fast", 0.5, 0.5, 0.5)]
    assert "contradicted itself when the order was swapped on 2 of 2" in result.stdout
    assert "judge with a stronger model" in result.stdout


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        (judging(better="fast answer"), ("fast", 1.0, 0.0, 1.0)),
        (judging(better="slow answer"), ("slow", 0.0, 1.0, 1.0)),
        (judging(verdict="tie"), ("fast", 0.5, 0.5, 1.0)),
    ],
)
def test_a_steady_judge_is_asked_in_both_orders_and_believed(
    serve, prompts, label, judge, expected: tuple[str, float, float, float]
) -> None:
    fast, slow = serve(lambda _: "fast answer"), serve(judge)
    file = prompts("p")
    assert label(file, fast, slow).exit_code == 0
    assert rows_of(file) == [("p", *expected)]
    first, second = slow.verdicts
    assert first.index("fast answer") < first.index("slow answer")
    assert second.index("slow answer") < second.index("fast answer")


def test_equal_and_empty_answers_need_no_judge(serve, prompts, label) -> None:
    fast = serve(lambda p: "" if p == "empty" else "the same")
    slow = serve(lambda _: "the  same\n")
    file = prompts("equal", "empty")
    assert label(file, fast, slow).exit_code == 0
    assert slow.verdicts == []
    assert rows_of(file) == [("equal", "fast", 0.5, 0.5, 1.0), ("empty", "slow", 0.0, 1.0, 1.0)]


def test_a_prompt_that_neither_model_answers_goes_slow(serve, prompts, label) -> None:
    silent = serve(lambda _: "")
    file = prompts("p")
    assert label(file, silent, silent).exit_code == 0
    assert rows_of(file) == [("p", "slow", 0.0, 0.0, 1.0)]


def test_a_right_answer_is_shown_to_a_judge_that_grades_everything(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "4, I think"), serve(judging(better="4, I think"))
    file = prompts({"text": "2+2", "answer": "it is 4"})
    assert label(file, fast, slow, "--judge", "model").exit_code == 0
    assert rows_of(file) == [("2+2", "fast", 1.0, 0.0, 1.0)]
    assert all("<right_answer>\nit is 4" in prompt for prompt in slow.verdicts)


def test_a_judge_without_a_verdict_is_a_failure_never_a_label(serve, prompts, label) -> None:
    fast = serve(lambda _: "fast answer")
    slow = serve(lambda p: "I like both" if "<answer_a>" in p else "slow answer")
    file = prompts("p")
    result = label(file, fast, slow)
    assert result.exit_code == 1
    assert f"{file}, line 1: the judge gave no verdict" in result.stdout
    assert not file.with_name("prompts.rows.jsonl").exists()


def test_a_judge_without_a_verdict_is_asked_again_by_the_next_run(serve, prompts, label) -> None:
    fast = serve(lambda _: "fast answer")
    sober = judging(better="slow answer")
    drunk = [True]
    slow = serve(lambda p: "I like both" if drunk[0] and "<answer_a>" in p else sober(p))
    file = prompts("p")
    assert label(file, fast, slow).exit_code == 1
    drunk[0] = False
    assert label(file, fast, slow).exit_code == 0
    assert rows_of(file) == [("p", "slow", 0.0, 1.0, 1.0)]
    assert len(fast.bodies) == 1


def test_exactly_the_share_that_may_fail_is_no_failure(serve, prompts, label) -> None:
    # .29 * 100 is 28.999999999999996 in binary.
    fast = serve(lambda p: 400 if int(p) < 29 else "x")
    slow = serve(lambda _: "x")
    file = prompts(*(str(n) for n in range(100)))
    assert label(file, fast, slow, "--max-failed-share", 0.29).exit_code == 0
    assert label(file, fast, slow, "--max-failed-share", 0.28).exit_code == 1


def test_rows_are_written_even_where_prices_do_not_fit(serve, prompts, label) -> None:
    choice = {"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    uncounted = serve(lambda _: {"model": "m", "choices": [{"index": 0, **choice}]})
    file = prompts("p")
    prices = ("--fast-token-usd", "1:1", "--slow-token-usd", "2:2")
    result = label(file, uncounted, uncounted, *prices)
    assert result.exit_code == 2
    assert "the server counts no tokens" in result.stderr
    assert rows_of(file) == [("p", "fast", 0.5, 0.5, 1.0)]


def test_a_failed_prompt_is_named_counted_and_not_written(serve, prompts, label) -> None:
    fast = serve(lambda p: 400 if p == "7" else "x")
    slow = serve(lambda p: {"choices": 3} if p == "8" else "x")
    file = prompts(*map(str, range(30)))
    result = label(file, fast, slow)
    assert result.exit_code == 0, result.output
    assert f"  {file}, line 8: fast: status 400" in result.stdout
    assert f"  {file}, line 9: slow: malformed choices" in result.stdout
    assert "28 of 30 prompts labelled" in result.stdout
    assert {row[0] for row in rows_of(file)} == {str(n) for n in range(30)} - {"7", "8"}
    assert label(file, fast, slow, "--max-failed-share", 0.05).exit_code == 1


def test_a_server_that_is_no_model_fails_instead_of_looking_weak(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: {"hello": "world"}), serve(lambda _: "x")
    result = label(prompts({"text": "2+2", "answer": "4"}), fast, slow)
    assert result.exit_code == 1
    assert "fast: response has no choices" in result.stdout


def test_passing_failures_are_retried(serve, prompts, label) -> None:
    replies = iter([503, 502])
    fast, slow = serve(lambda _: next(replies, "x")), serve(lambda _: "x")
    file = prompts("p")
    assert label(file, fast, slow).exit_code == 0
    assert len(fast.bodies) == 3
    assert rows_of(file) == [("p", "fast", 0.5, 0.5, 1.0)]


def test_a_silent_server_is_given_up_at_the_deadline(serve, prompts, label) -> None:
    import threading

    gate = threading.Event()
    fast, slow = serve(lambda _: str(gate.wait(20))), serve(lambda _: "x")
    try:
        result = label(prompts("p"), fast, slow, "--timeout-s", 0.05)
    finally:
        gate.set()
    assert result.exit_code == 1
    assert "fast: the deadline passed" in result.stdout


def test_a_run_stops_once_too_much_failed_and_the_rest_is_left_for_the_next(
    serve, prompts, label
) -> None:
    fast, slow = serve(lambda _: 400), serve(lambda _: "x")
    file = prompts(*map(str, range(100)))
    result = label(file, fast, slow, "--concurrency", 1)
    assert result.exit_code == 1
    assert len(fast.bodies) == 21
    assert "79 prompts are left; run the same command again to go on" in result.stdout
    assert "... and 1 more, see --json" in result.stdout


def test_a_rerun_asks_only_what_is_missing(serve, prompts, label) -> None:
    down = {"p1"}
    fast = serve(lambda p: 400 if p in down else f"fast {p}")
    slow = serve(judging(better="slow answer"))
    file = prompts("p0", "p1", "p2")
    label(file, fast, slow, "--max-failed-share", 0.5)
    assert [row[0] for row in rows_of(file)] == ["p0", "p2"]
    down.clear()
    before = len(fast.bodies), len(slow.bodies)
    result = label(file, fast, slow)
    # The slow model had answered p1 already: a fast answer and two verdicts are missing.
    assert (len(fast.bodies) - before[0], len(slow.bodies) - before[1]) == (1, 2)
    assert [row[0] for row in rows_of(file)] == ["p0", "p1", "p2"]
    assert "9 answers were known from an earlier run" in result.stdout
    label(file, fast, slow)
    assert (len(fast.bodies) - before[0], len(slow.bodies) - before[1]) == (1, 2)


def test_answers_of_other_settings_are_never_taken_for_these(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "x"), serve(lambda _: "x")
    file = prompts("p")
    for options in ((), ("--max-output-tokens", 9), ("--fast-model", "other"), ("--seed", 1)):
        before = len(fast.bodies)
        label(file, fast, slow, *options)
        assert len(fast.bodies) == before + 1


def test_regrading_asks_nothing_again(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "Paris, France"), serve(judging(better="slow answer"))
    label(prompts("capital?"), fast, slow)
    asked = len(fast.bodies), len(slow.bodies)
    file = prompts({"text": "capital?", "answer": "Paris, France"})
    assert label(file, fast, slow).exit_code == 0
    assert (len(fast.bodies), len(slow.bodies)) == asked
    assert rows_of(file) == [("capital?", "fast", 1.0, 0.0, 1.0)]


def test_an_answer_torn_by_a_crash_is_asked_for_again(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "x"), serve(lambda _: "x")
    file = prompts("p")
    label(file, fast, slow)
    journal = file.with_name("prompts.rows.jsonl.journal")
    journal.write_bytes(journal.read_bytes()[:-5])
    assert label(file, fast, slow).exit_code == 0
    assert len(fast.bodies) + len(slow.bodies) == 3
    assert len(journal.read_text().splitlines()) == 2


def test_a_journal_that_is_none_is_refused_by_line(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "x"), serve(lambda _: "x")
    file = prompts("p")
    journal = file.with_name("prompts.rows.jsonl.journal")
    journal.write_text('{"key": "k"}\n')
    result = label(file, fast, slow)
    assert result.exit_code == 2
    assert f"{journal}, line 1: is no answer of a model" in result.stderr


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a diary without a line end", 1),
        ("a diary\nof two lines", 1),
        ("[" * 100_000 + "\n", 1),
        (json.dumps({"key": "k", **KEPT, "prompt_tokens": "7"}) + "\n", 1),
        (json.dumps({"key": "k", **KEPT}) + "\nnotes of my own", 2),
    ],
)
def test_a_file_that_is_no_journal_is_refused_and_left_whole(
    serve, prompts, label, content: str, line: int
) -> None:
    fast = serve(lambda _: "x")
    file = prompts("p")
    journal = file.with_name("prompts.rows.jsonl.journal")
    journal.write_text(content)
    result = label(file, fast, fast)
    assert result.exit_code == 2
    assert f"{journal}, line {line}: is no answer of a model" in result.stderr
    assert journal.read_text() == content
    assert fast.bodies == []


def test_a_folder_as_output_is_refused_before_anything_is_asked(serve, prompts, label) -> None:
    fast = serve(lambda _: "x")
    file = prompts("p")
    out = file.with_name("folder")
    out.mkdir()
    file.with_name("folder.journal").touch()
    result = label(file, fast, fast, "--out", out)
    assert result.exit_code == 2
    assert f"--out {out}: is a folder" in result.stderr
    assert fast.bodies == []


def test_a_file_that_label_did_not_write_is_never_overwritten(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "x"), serve(lambda _: "x")
    file = prompts("p")
    result = label(file, fast, slow, "--out", file)
    assert result.exit_code == 2
    assert "exists and was not written by label" in result.stderr
    assert fast.bodies == []


def test_repeated_prompts_are_asked_once(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "x"), serve(lambda _: "x")
    file = prompts("What is it?", "what  is it?", "b")
    result = label(file, fast, slow)
    assert len(fast.bodies) == 2
    assert "1 rows repeat an earlier one" in result.stdout


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"text": " "}, (), "line 2, text: must not be blank"),
        ({"prompt": "p"}, (), "line 2, prompt: is no known field"),
        ({"text": "p", "answer": 4}, (), "line 2, answer: must be text or a list"),
        ({"text": "p", "answer": []}, (), "line 2, answer: must be text or a list"),
        ({"text": "p", "response_schema": 3}, (), "line 2, response_schema: must be an object"),
        (
            {"text": "p", "response_schema": {"type": "objekt"}},
            (),
            "line 2, response_schema: is not a valid JSON Schema",
        ),
        (
            {"text": "p", "answer": "4", "response_schema": SCHEMA},
            (),
            "line 2, answer: excludes response_schema",
        ),
        ({"text": "p"}, ("--judge", "exact"), "line 2, answer: is missing; --judge exact needs it"),
        ({"text": "ok", "answer": "5"}, (), "line 2, answer: differs from line 1: same text"),
    ],
)
def test_a_bad_prompt_is_told_by_line_before_anything_is_asked(
    serve, prompts, label, row: dict[str, object], options: tuple[str, ...], message: str
) -> None:
    fast, slow = serve(lambda _: "x"), serve(lambda _: "x")
    result = label(prompts({"text": "ok", "answer": "4"}, row), fast, slow, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert fast.bodies == slow.bodies == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--slow-key-env", "UNSET_KEY"), "--slow-key-env: UNSET_KEY is empty or not set"),
        (("--slow-cost", "0"), "--slow-cost: must be finite and > 0"),
        (("--fast-cost", "nan"), "--fast-cost: must be finite and >= 0"),
        (("--fast-token-usd", "1:2"), "go together"),
        (("--fast-token-usd", "1", "--slow-token-usd", "1:2"), "--fast-token-usd: must be INPUT"),
        (("--fast-token-usd", "1:2", "--slow-token-usd", "-1:2"), "--slow-token-usd: must be"),
        (("--fast-token-usd", "1:2", "--slow-token-usd", "1:2", "--slow-cost", "3"), "exclude"),
        (("--fast-token-usd", "0:0", "--slow-token-usd", "0:0"), "must not be free"),
        (("--artifact", "absent"), "absent"),
    ],
)
def test_an_option_that_does_not_fit_is_named_before_anything_is_asked(
    serve, prompts, label, options: tuple[str, ...], message: str
) -> None:
    fast, slow = serve(lambda _: "x"), serve(lambda _: "x")
    result = label(prompts("p"), fast, slow, *options)
    assert result.exit_code in {1, 2}
    assert message in result.stderr
    assert fast.bodies == []


def test_a_url_that_holds_a_password_is_refused_without_repeating_it(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "x"), serve(lambda _: "x")
    fast.url = "http://me:hunter2@127.0.0.1/v1"
    result = label(prompts("p"), fast, slow)
    assert result.exit_code == 2
    assert "--fast: " in result.stderr
    assert "hunter2" not in result.output


def test_a_server_with_several_models_wants_one_named(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "x", models=("small", "tiny")), serve(lambda _: "x")
    result = label(prompts("p"), fast, slow)
    assert result.exit_code == 2
    assert "--fast-model: name one; the server lists small, tiny" in result.stderr
    assert label(prompts("p"), fast, slow, "--fast-model", "tiny").exit_code == 0
    assert fast.bodies[0]["model"] == "tiny"


def test_the_report_for_machines_has_the_savings_with_intervals(serve, prompts, label) -> None:
    # Of ten prompts the fast model is right on the first four.
    fast = serve(lambda p: "yes" if int(p) < 4 else "no")
    slow = serve(lambda _: "yes")
    file = prompts(*({"text": str(n), "answer": "yes"} for n in range(10)))
    report = json.loads(label(file, fast, slow, "--json").stdout)
    assert report["rows_file"] == str(file.with_name("prompts.rows.jsonl"))
    assert (report["fast_score"], report["slow_score"]) == (0.4, 1.0)
    by_rule = {each["rule"]: each["result"] for each in report["savings"]}
    perfect = by_rule["perfect router, equal mean quality"]
    assert perfect["saving"]["value"] == pytest.approx(0.4 * 0.9)
    assert perfect["saving"]["low"] < 0.36 < perfect["saving"]["high"]
    assert perfect["quality_change"]["value"] == 0.0
    assert by_rule["random share, equal mean quality"]["saving"]["value"] == 0.0
    assert by_rule["random share, at most 1 point lost"]["saving"]["value"] == pytest.approx(
        0.9 * 0.01 / 0.6
    )


def test_prices_by_token_are_worked_out_from_what_the_servers_count(serve, prompts, label) -> None:
    fast, slow = serve(lambda _: "yes"), serve(lambda _: "yes")
    file = prompts({"text": "p", "answer": "yes"})
    # 10 tokens read and 3 written by either.
    options = ("--fast-token-usd", "1:0", "--slow-token-usd", "10:100", "--json")
    [rule, *_] = json.loads(label(file, fast, slow, *options).stdout)["savings"]
    assert rule["result"]["saving"]["value"] == pytest.approx(1 - 10 / 400)


def test_an_artifact_is_shown_beside_the_perfect_router(serve, prompts, label) -> None:
    texts = ["hi there", "thanks a lot", "Prove that every bounded sequence converges weakly."]
    fast = serve(lambda p: "yes" if len(p) < 20 else "no")
    slow = serve(lambda _: "yes")
    file = prompts(*({"text": text, "answer": "yes"} for text in texts))
    result = label(file, fast, slow, "--artifact", "laya-base", "--json")
    assert result.exit_code == 0, result.output
    by_rule = {e["rule"]: e["result"] for e in json.loads(result.stdout)["savings"]}
    perfect = by_rule["perfect router, equal mean quality"]["saving"]["value"]
    assert perfect == pytest.approx(2 / 3 * 0.9)
    achieved = by_rule["artifact, best threshold, equal mean quality"]
    assert 0.0 <= achieved["saving"]["value"] <= perfect + 1e-9
    assert achieved["quality_change"]["value"] >= 0.0
    assert "artifact, at its own threshold" in by_rule
