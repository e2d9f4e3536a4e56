import json
import os
from pathlib import Path

import pytest

from router.config import ENV_CONFIG, Secret, Settings, load_settings
from router.domain import Tier
from router.errors import ConfigError

BAD_CONFIGS = sorted((Path(__file__).parent / "bad_configs").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("FASTSLOW_"):
            monkeypatch.delenv(name)


def write(folder: Path, text: str) -> Path:
    path = folder / "router.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", BAD_CONFIGS, ids=lambda path: path.stem)
def test_one_mistake_is_one_clear_line(path: Path) -> None:
    """The first line of each file says what the error has to say."""
    expected = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# expect: ")
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def test_every_mistake_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "server: {port: -1}\ncache: {ttl_s: 0}\nroutez: {}\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    message = str(caught.value)
    assert "has 3 mistake(s)" in message
    assert all(key in message for key in ("server.port", "cache.ttl_s", "routez"))


def test_a_secret_written_into_the_file_is_not_repeated_in_the_error() -> None:
    path = next(path for path in BAD_CONFIGS if path.stem == "secret_in_the_file")
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert "sk-live" not in str(caught.value)


def test_defaults_need_no_file() -> None:
    settings = load_settings()
    assert settings.server.host == "127.0.0.1"
    assert settings.server.port == 50_051
    assert settings.routes == {"fast": Tier.FAST, "slow": Tier.SLOW, "tool": Tier.TOOL}
    assert settings.cache.decision_ttl_s == 30.0


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, "")) == Settings()


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTSLOW_SERVER__PORT", "6000")
    settings = load_settings(write(tmp_path, "server: {port: 5000, host: '::1'}\n"))
    assert settings.server.port == 6000
    assert settings.server.host == "::1"


def test_a_mistake_in_the_environment_names_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTSLOW_CACHE__TTL_S", "-5")
    with pytest.raises(ConfigError, match=r"cache\.ttl_s: Input should be greater than 0"):
        load_settings()


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_CONFIG, str(write(tmp_path, "limits: {in_flight: 7}\n")))
    assert load_settings().limits.in_flight == 7


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: cannot be read"):
        load_settings(tmp_path / "missing.yaml")


def test_tiers_may_be_written_in_lower_case(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, "routes: {chat: fast, code: slow}\n"))
    assert settings.routes == {"chat": Tier.FAST, "code": Tier.SLOW}


def test_the_revision_changes_with_the_effective_configuration() -> None:
    plain = load_settings()
    assert plain.revision == load_settings().revision
    assert plain.revision != Settings(policy={"threshold": 0.7}).revision
    assert len(plain.revision) == 12


def test_a_secret_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", " token-1 \n")
    secret = Secret(env="MY_TOKEN").read("auth.tokens[0].token")
    assert secret.get_secret_value() == "token-1"
    assert "token-1" not in repr(secret)


def test_a_secret_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("token-2\n", encoding="utf-8")
    assert Secret(file=tmp_path / "key").read("k").get_secret_value() == "token-2"


def test_a_secret_that_is_not_there_names_key_and_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    with pytest.raises(ConfigError, match=r"a\.key: environment variable MY_TOKEN is empty"):
        Secret(env="MY_TOKEN").read("a.key")
    with pytest.raises(ConfigError, match=r"a\.key: cannot read file .*absent: FileNotFoundError"):
        Secret(file=tmp_path / "absent").read("a.key")


def mistake(**variables: str) -> str:
    """Return what is said about the given environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with pytest.raises(ConfigError) as caught:
            load_settings()
    return str(caught.value)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("FASTSLOW_SERVR__PORT", "FASTSLOW_SERVER__PORT"),
        ("FASTSLOW_SERVER_PORT", "FASTSLOW_SERVER__PORT"),
        ("FASTSLOW_CONFG__X", ""),
        ("FASTSLOW_DECISION_LOG__PATH", "FASTSLOW_DECISION_LOG"),
        ("fastslow_cach__ttl_s", "FASTSLOW_CACHE__TTL_S"),
    ],
)
def test_a_variable_that_names_no_setting_is_a_mistake_not_ignored(variable, meant) -> None:
    message = mistake(**{variable: "1"})
    assert f"environment variable {variable}: no such setting" in message
    assert meant in message


def test_an_unknown_key_in_a_variable_names_the_variable() -> None:
    message = mistake(FASTSLOW_SERVER__PROT="1")
    assert "server.prot: unknown key; did you mean 'port'?" in message
    assert "(environment variable FASTSLOW_SERVER__PROT)" in message


def test_mistakes_of_variables_and_of_the_file_are_one_list(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FASTSLOW_SERVR__PORT", "1")
    monkeypatch.setenv("FASTSLOW_LIMITS__IN_FLIGHT", "0")
    monkeypatch.setenv("FASTSLOW_AUTH__TOKENS", "[")
    with pytest.raises(ConfigError) as caught:
        load_settings(write(tmp_path, "cache: {max_bytes: 2048}\nlog: {level: loud}\n"))
    message = str(caught.value)
    assert "has 5 mistake(s)" in message
    for key in ("FASTSLOW_SERVR__PORT", "in_flight", "FASTSLOW_AUTH__TOKENS", "max_bytes", "level"):
        assert key in message


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("FASTSLOW_AUTH__TOKENS", "auth.tokens"),
        ("FASTSLOW_AUTH", "auth"),
        ("FASTSLOW_ROUTES", "routes"),
        ("FASTSLOW_SLOW_TIER__UPSTREAMS", "slow_tier.upstreams"),
    ],
)
def test_malformed_json_names_key_and_variable_and_is_never_repeated(variable, key) -> None:
    message = mistake(**{variable: '[{"token": "hunter2"'})
    assert f"{key}: not JSON of the right kind (environment variable {variable})" in message
    assert "hunter2" not in message


def test_a_secret_in_a_variable_of_the_configuration_is_refused_without_repeating_it() -> None:
    message = mistake(
        FASTSLOW_FAST_TIER__TEXT__URL="http://h/v1", FASTSLOW_FAST_TIER__TEXT__API_KEY="hunter2"
    )
    assert "fast_tier.text.api_key: a secret may not stand" in message
    assert "hunter2" not in message


def test_where_a_secret_is_read_from_can_be_set_by_a_variable(monkeypatch) -> None:
    """Its own variable may have the prefix: it is named, so it is no unknown setting."""
    monkeypatch.setenv("FASTSLOW_FAST_TIER__TEXT__URL", "http://h/v1")
    monkeypatch.setenv("FASTSLOW_FAST_TIER__TEXT__API_KEY__ENV", "FASTSLOW_SMALL_KEY")
    monkeypatch.setenv("FASTSLOW_SMALL_KEY", "sk-1")
    text = load_settings().fast_tier.text
    assert text.api_key.read("k").get_secret_value() == "sk-1"


def test_a_variable_that_the_file_reads_a_secret_from_may_have_the_prefix(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("FASTSLOW_ACME", "token-1")
    auth = "auth: {tokens: [{tenant: acme, token: {env: FASTSLOW_ACME}}]}\n"
    assert load_settings(write(tmp_path, auth)).auth.tokens[0].token.env == "FASTSLOW_ACME"


def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_mistake(monkeypatch) -> None:
    for name, value in {
        "FASTSLOW_SERVICE_HOST": "10.0.0.1",
        "FASTSLOW_SERVICE_PORT": "50051",
        "FASTSLOW_SERVICE_PORT_GRPC": "50051",
        "FASTSLOW_PORT": "tcp://10.0.0.1:50051",
        "FASTSLOW_PORT_50051_TCP": "tcp://10.0.0.1:50051",
        "FASTSLOW_PORT_50051_TCP_ADDR": "10.0.0.1",
        "FASTSLOW_METRICS_SERVICE_HOST": "10.0.0.2",
    }.items():
        monkeypatch.setenv(name, value)
    assert load_settings() == Settings()


def test_a_list_can_be_set_by_a_variable(monkeypatch) -> None:
    upstreams = [{"url": "http://h/v1", "model": "m", "api_key": {"env": "K"}}]
    monkeypatch.setenv("FASTSLOW_SLOW_TIER__UPSTREAMS", json.dumps(upstreams))
    assert load_settings().slow_tier.upstreams[0].api_key == Secret(env="K")


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has more than 1048576 bytes"):
        load_settings(write(tmp_path, "#" * 1_048_577))


def test_a_file_nested_too_deep_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nested too deep"):
        load_settings(write(tmp_path, "server: " + "[" * 100_000))


def test_an_alias_may_be_used_where_it_saves_repetition(tmp_path: Path) -> None:
    text = (
        "slow_tier:\n  upstreams:\n"
        "    - &main {name: a, url: 'http://a/v1', model: m}\n"
        "    - {<<: *main, name: b}\n"
    )
    upstreams = load_settings(write(tmp_path, text)).slow_tier.upstreams
    assert [(u.name, u.url) for u in upstreams] == [("a", "http://a/v1"), ("b", "http://a/v1")]


@pytest.mark.parametrize(
    "key", ["_env_file", "_secrets_dir", "_cli_parse_args", "__pydantic_self__", "model_config"]
)
def test_a_key_that_a_library_would_take_for_an_order_is_an_unknown_key(tmp_path, key) -> None:
    with pytest.raises(ConfigError, match=f"{key}: unknown key"):
        load_settings(write(tmp_path, f"{key}: [--help]\n"))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("server: {port: true}", "server.port"),
        ("server: {metrics_port: true}", "server.metrics_port"),
        ("policy: {threshold: true}", "policy.threshold"),
        ("limits: {in_flight: yes}", "limits.in_flight"),
        ("cache: {semantic: {threshold: on}}", "cache.semantic.threshold"),
        (
            "slow_tier: {upstreams: [{url: 'http://a/v1', model: m, read_timeout_s: true}]}",
            r"slow_tier.upstreams\[0\].read_timeout_s",
        ),
    ],
)
def test_a_truth_value_is_no_number(tmp_path, text, key) -> None:
    with pytest.raises(ConfigError, match=f"{key}: must be a number, not true or false"):
        load_settings(write(tmp_path, text))


@pytest.mark.parametrize("value", ["''", "' '", '"a\\0b"'])
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("encoder: {artifact: %s}", "encoder.artifact"),
        ("server: {tls: {cert_file: %s, key_file: k}}", "server.tls.cert_file"),
        ("server: {tls: {cert_file: c, key_file: %s}}", "server.tls.key_file"),
        ("fast_tier: {text: {gguf: %s}}", "fast_tier.text.gguf"),
        (
            "auth: {tokens: [{tenant: a, token: {file: %s}}]}",
            r"auth.tokens\[0\].token.file",
        ),
    ],
)
def test_what_cannot_name_a_file_is_refused_by_its_key(tmp_path, text, key, value) -> None:
    with pytest.raises(ConfigError, match=rf"{key}: .*(name a file|valid string)"):
        load_settings(write(tmp_path, text % value))


@pytest.mark.parametrize("host", ["''", "'a b'", '"a\\0b"', "'http://a'"])
def test_what_cannot_be_a_host_is_refused(tmp_path, host) -> None:
    with pytest.raises(ConfigError, match=r"server\.host: "):
        load_settings(write(tmp_path, f"server: {{host: {host}}}"))


def test_a_number_too_long_to_be_written_is_not_repeated(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"limits\.in_flight: [^,]*$"):
        load_settings(write(tmp_path, f"limits: {{in_flight: 0x{'f' * 5_000}}}"))


def test_null_in_a_variable_is_no_value_as_in_the_file(monkeypatch) -> None:
    monkeypatch.setenv("FASTSLOW_SERVER__METRICS_PORT", "null")
    monkeypatch.setenv("FASTSLOW_SERVER__TLS", "null")
    assert load_settings().server.metrics_port is None
    assert load_settings().server.tls is None


def test_a_variable_changes_one_value_of_a_section_and_leaves_its_siblings(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("FASTSLOW_CACHE__SEMANTIC__ENABLED", "false")
    text = "cache: {ttl_s: 5, semantic: {candidates: 7}}\n"
    cache = load_settings(write(tmp_path, text)).cache
    assert (cache.ttl_s, cache.semantic.candidates, cache.semantic.enabled) == (5.0, 7, False)


@pytest.mark.parametrize("value", ["garbage{", "[" * 100_000, "1", "[]"])
def test_a_section_in_a_variable_has_to_be_one(value) -> None:
    assert "server: " in mistake(FASTSLOW_SERVER=value)
