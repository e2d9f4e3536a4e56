"""What an operator gets wrong ends with exit code 2 and says what to change."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from router.cli.app import app
from router.config import ENV_CONFIG

COMMANDS = ["serve", "check-config", "route", "decide", "doctor"]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_CONFIG, raising=False)


def run(*arguments: str, stdin: bytes | None = None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def written(folder: Path, text: str) -> str:
    path = folder / "router.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: python -m router {command}" in result.stdout
    assert "--config" in result.stdout
    assert "--json" in result.stdout


BAD = {
    "an unknown key": ("server: {prot: 1}", "server.prot: unknown key; did you mean 'port'?"),
    "a threshold that is NaN": ("policy: {threshold: .nan}", "policy.threshold"),
    "a negative lifetime": ("cache: {ttl_s: -1}", "cache.ttl_s"),
    "two upstreams of one name": (
        "slow_tier: {upstreams: [{url: 'http://a', model: m}, {url: 'http://b', model: m}]}",
        "slow_tier.upstreams: two upstreams are named 'default'",
    ),
    "no YAML": ("server: [", "not YAML"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_a_mistake_in_the_file_names_its_key(
    tmp_path: Path, command: str, text: str, message: str
) -> None:
    arguments = ["hello"] if command in {"route", "decide"} else []
    result = run(command, *arguments, "--config", written(tmp_path, text))
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = run("check-config", "--config", str(tmp_path / "absent.yaml"))
    assert result.exit_code == 2
    assert "absent.yaml: cannot be read" in result.stderr


def test_every_missing_secret_is_told_with_the_place_it_should_be_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACME_TOKEN", raising=False)
    absent = tmp_path / "absent"
    config = written(
        tmp_path,
        f"""
        auth: {{tokens: [{{tenant: acme, token: {{env: ACME_TOKEN}}}}]}}
        slow_tier:
          upstreams: [{{url: "http://a", model: m, api_key: {{file: "{absent}"}}}}]
        """,
    )
    result = run("check-config", "--config", config)
    assert result.exit_code == 2
    tokens, key = result.stderr.splitlines()
    assert tokens == "auth.tokens[0].token: environment variable ACME_TOKEN is empty or not set"
    assert key.startswith(f"slow_tier.upstreams[0].api_key: cannot read file {absent}")


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_check_config_shows_where_secrets_are_never_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ACME_TOKEN", "token-from-environment")
    (tmp_path / "key").write_text("key-from-file\n", encoding="utf-8")
    config = written(
        tmp_path,
        f"""
        auth: {{tokens: [{{tenant: acme, token: {{env: ACME_TOKEN}}}}]}}
        slow_tier:
          upstreams: [{{url: "http://a", model: m, api_key: {{file: "{tmp_path / "key"}"}}}}]
        """,
    )
    result = run("check-config", *as_json, "--config", config)
    assert result.exit_code == 0
    assert "ACME_TOKEN" in result.stdout
    assert "from-environment" not in result.output
    assert "from-file" not in result.output


def test_a_password_in_a_url_is_refused_without_repeating_it(tmp_path: Path) -> None:
    text = "slow_tier: {upstreams: [{url: 'http://me:hunter2@a/v1', model: m}]}"
    result = run("check-config", "--config", written(tmp_path, text))
    assert result.exit_code == 2
    assert "slow_tier.upstreams[0]" in result.stderr
    assert "hunter2" not in result.output


def test_the_revision_of_check_config_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = json.loads(run("check-config", "--json").stdout)
    monkeypatch.setenv("FASTSLOW_SERVER__PORT", "4242")
    after = json.loads(run("check-config", "--json").stdout)
    assert before["settings"]["server"]["port"] == 50_051
    assert after["settings"]["server"]["port"] == 4_242
    assert before["revision"] != after["revision"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--address", "127.0.0.1:1", "--config", "x.yaml"], "exclude each other"),
        (["--token-env", "TOKEN"], "go with --address"),
        (["--address", "127.0.0.1:1", "--token-env", "UNSET_TOKEN"], "UNSET_TOKEN is empty"),
        (["--address", "127.0.0.1:1", "--ca-file", "absent.pem"], "--ca-file absent.pem"),
        (["--timeout-s", "nan"], "--timeout-s"),
        (["--timeout-s", "0"], "--timeout-s"),
    ],
)
def test_options_that_do_not_fit_are_named(arguments: list[str], message: str) -> None:
    result = run("route", "hello", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_input_that_is_not_utf8_is_refused_without_repeating_it() -> None:
    result = run("route", "-", stdin=b"secret \xff words")
    assert result.exit_code == 2
    assert result.stderr.strip() == "TEXT: not valid UTF-8"


def test_a_ports_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "absent" / "ports.json"
    result = run("serve", "--ports-file", str(file))
    assert result.exit_code == 2
    assert f"--ports-file {file}: cannot be written" in result.stderr
