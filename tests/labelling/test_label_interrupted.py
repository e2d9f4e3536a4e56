"""Ctrl-C ends ``label`` as a process of its own; nothing that was answered is asked again."""

import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from router.errors import ConfigError
from router.labelling.journal import Answer, Journal

# Tests run in the background of a shell ignore SIGINT and pass that on to their children.
LISTENING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from router.cli.app import main; main()"
)
ANSWER = Answer(text="Zürich\n", finish_reason="stop", prompt_tokens=None, completion_tokens=7)


def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(serve, prompts, label) -> None:
    stuck, gate = threading.Event(), threading.Event()

    def answer(prompt: str) -> str:
        if prompt == "p2":
            stuck.set()
            gate.wait(30)
        return "yes"

    fast, slow = serve(answer), serve(lambda _: "yes")
    file = prompts(*({"text": f"p{n}", "answer": "yes"} for n in range(4)))
    out = file.with_name("prompts.rows.jsonl")
    command = [sys.executable, "-c", LISTENING, "label", file, "--fast", fast.url]
    with subprocess.Popen(
        [*command, "--slow", slow.url, "--concurrency", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert stuck.wait(60), process.communicate()
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=30)
        finally:
            gate.set()
            process.kill()
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "2 of 4 prompts labelled" in stdout
    assert "2 prompts are left; run the same command again to go on" in stdout
    assert len(out.read_text().splitlines()) == 2

    assert label(file, fast, slow).exit_code == 0
    assert len(out.read_text().splitlines()) == 4
    assert [fast.prompts.count(f"p{n}") for n in range(4)] == [1, 1, 2, 1]


def test_an_unfinished_run_does_not_shorten_a_file_of_more_rows(serve, prompts, label) -> None:
    up = True
    fast = serve(lambda p: "yes" if up or p < "p30" else 400)
    slow = serve(lambda _: "yes")
    texts = [f"p{n:02}" for n in range(60)]
    file = prompts(*texts)
    out = file.with_name("prompts.rows.jsonl")
    assert label(file, fast, slow).exit_code == 0
    before = out.read_bytes()
    up = False
    result = label(file, fast, slow, "--max-output-tokens", 5, "--concurrency", 1)
    assert result.exit_code == 1
    assert "30 of 60 prompts labelled" in result.stdout
    assert "rows are in" not in result.stdout
    assert out.read_bytes() == before


def test_two_runs_never_write_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path), pytest.raises(ConfigError, match="another run is writing it"):
        Journal(path)
    with Journal(path) as journal:
        journal.keep("k", ANSWER)
    with Journal(path) as journal:
        assert journal.find("k") == ANSWER
        assert journal.find("other") is None
        assert journal.reused == 1


@pytest.mark.parametrize(
    "line",
    ["{}", "3", "not JSON", '{"key": "k", "text": "t"}', '{"key": "k", "text": 3, "more": 1}'],
)
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.keep("k", ANSWER)
    with path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(ConfigError, match="journal, line 2: is no answer of a model"):
        Journal(path)


def test_a_full_disk_is_told_and_what_was_kept_before_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(path) as journal:
        journal.keep("k", ANSWER)
        # As a full disk would, a limit on the size refuses the next line, at the close too.
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        try:
            with pytest.raises(ConfigError, match="journal: cannot be written: File too large"):
                journal.keep("next", ANSWER)
            journal.__exit__(None, None, None)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with Journal(path) as journal:
        assert journal.find("k") == ANSWER
        assert journal.find("next") is None
