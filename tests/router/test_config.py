from pathlib import Path

import pytest

from router.config import ENV_CONFIG, Secret, Settings, load_settings
from router.domain import Tier
from router.errors import ConfigError

BAD_CONFIGS = sorted((Path(__file__).parent / "bad_configs").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_CONFIG, raising=False)


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
    assert plain.revision != load_settings(overrides={"policy": {"threshold": 0.7}}).revision
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
