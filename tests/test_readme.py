"""The README tells the truth about commands and configuration."""

import re
from pathlib import Path

from pydantic import BaseModel

from router.config import CertificateConfig, Settings, TokenConfig, UpstreamConfig

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def leaves(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Return the dotted key of every value an operator can set, lists looked into by hand."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        inner = [
            part
            for part in (field.annotation, *getattr(field.annotation, "__args__", ()))
            if isinstance(part, type) and issubclass(part, BaseModel)
        ]
        if inner and name != "api_key":
            keys += leaves(inner[0], f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return keys


def test_every_configuration_key_is_in_the_reference() -> None:
    documented = set(re.findall(r"`([\w.\[\]]+)`", README))
    lists = ("auth.tokens", "auth.certificates", "slow_tier.upstreams")
    keys = [key for key in leaves(Settings) if not key.startswith(lists)]
    assert len(keys) > 40
    assert [key for key in keys if key not in documented] == []
    for name in UpstreamConfig.model_fields:
        assert {f"slow_tier.upstreams[].{name}", f".{name}"} & documented, name
    assert {"auth.tokens", "auth.certificates"} <= documented
    assert set(TokenConfig.model_fields) == {"tenant", "token"}
    assert set(CertificateConfig.model_fields) == {"tenant", "subject"}


def test_every_make_target_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", README, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named <= targets


def test_every_relative_link_leads_somewhere() -> None:
    for page in (README, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page):
            assert (ROOT / target).exists(), target
