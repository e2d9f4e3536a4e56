"""The example configurations load, and the full one is full."""

from pathlib import Path
from types import UnionType
from typing import get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from router.config import ENV_CONFIG, Secret, Settings, TlsConfig, load_settings

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_CONFIG, raising=False)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_a_valid_configuration(path: Path) -> None:
    settings = load_settings(path)
    assert settings.slow_tier.upstreams
    assert settings.fast_tier.text is not None


def test_the_full_example_names_every_key() -> None:
    content = yaml.safe_load((EXAMPLES / "full.yaml").read_text(encoding="utf-8"))
    # Written inline in a comment, or one of two alternatives.
    left_out = (Secret, TlsConfig)
    missing: list[str] = []

    def compare(model: type[BaseModel], value: dict[str, object], key: str) -> None:
        for name, field in model.model_fields.items():
            here = f"{key}{name}"
            if name not in value:
                missing.append(here)
                continue
            for section in sections(field.annotation):
                if section in left_out:
                    continue
                found = value[name]
                for item in found if isinstance(found, list) else [found]:
                    compare(section, item, f"{here}.")

    compare(Settings, content, "")
    assert missing == []


def sections(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in {tuple, UnionType}:
        return [section for part in get_args(annotation) for section in sections(part)]
    return []


def test_what_the_full_example_calls_a_default_is_one() -> None:
    full = load_settings(EXAMPLES / "full.yaml").public()
    default = Settings().public()
    # These describe models and tenants of one's own, as the file's head says.
    for key in ("auth", "fast_tier", "slow_tier"):
        full.pop(key)
        default.pop(key)
    assert full == default
