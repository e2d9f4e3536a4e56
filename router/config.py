"""The configuration: one YAML file, the environment over it, validated whole at start.

Environment variables are spelled ``FASTSLOW_SERVER__PORT``. Secrets never stand in the file:
a key names the environment variable or the file that holds the secret, and the secret itself
is masked wherever the configuration is shown.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from router.config_callers import (
    AuthConfig,
    CertificateConfig,
    LimitsConfig,
    ServerConfig,
    TlsConfig,
    TokenConfig,
)
from router.config_environment import CONFIG as ENV_CONFIG
from router.config_environment import from_environment, unknown_variables, variable_of
from router.config_errors import explain
from router.config_file import read_yaml
from router.config_tiers import FastTierConfig, SlowTierConfig, UpstreamConfig
from router.config_values import (
    Name,
    PathText,
    PositiveSeconds,
    Probability,
    Reserved,
    ReservedList,
    Seconds,
    Secret,
    Section,
)
from router.domain import Tier
from router.errors import ConfigError
from router.policy import PolicyScore

# Modules take every section they need from here.
__all__ = [
    "ENV_CONFIG",
    "AuthConfig",
    "CacheConfig",
    "CertificateConfig",
    "EncoderConfig",
    "FastTierConfig",
    "LimitsConfig",
    "LogConfig",
    "Name",
    "PolicyConfig",
    "Secret",
    "SemanticConfig",
    "ServerConfig",
    "Settings",
    "SlowTierConfig",
    "TlsConfig",
    "TokenConfig",
    "UpstreamConfig",
    "load_settings",
]


class EncoderConfig(Section):
    """The router encoder.

    Attributes:
        artifact: A registered name (``laya-base``) or a folder.
        precision: Which graph of the artifact to load.
        threads: Threads of one forward pass; workers beside each other scale better.
        workers: Forward passes run at once.
        max_tokens: Longest input read whole; longer ones are read head and tail.
        max_batch: Most texts in one forward pass.
    """

    artifact: PathText = "laya-base"
    precision: Literal["int8", "fp32"] = "int8"
    threads: int = Field(default=1, ge=1, le=256)
    workers: int = Field(default=1, ge=1, le=64)
    max_tokens: int = Field(default=512, ge=16, le=8_192)
    max_batch: int = Field(default=32, ge=1, le=1_024)


class PolicyConfig(Section):
    """How probabilities become a tier.

    Attributes:
        threshold: Probability a route has to reach; null takes the artifact's own.
        score: Which number is compared for fast routes.
        typed_gate: Reserved for the decision model.
        cost_matrix: Reserved for the threshold search.
        implementation: ``package:object`` of a custom policy.
        slow_floor_s: With less time left than this, seconds, the fast tier answers; 0 = never.
    """

    threshold: Probability | None = None
    score: PolicyScore = PolicyScore.P_FAST
    typed_gate: Reserved = None
    cost_matrix: Reserved = None
    implementation: str | None = Field(default=None, pattern=r"^[\w.]+:[\w.]+$")
    slow_floor_s: Seconds = 0.0


class SemanticConfig(Section):
    """The semantic tier of the cache.

    Attributes:
        enabled: Off leaves the exact tier alone.
        threshold: Least cosine similarity of a hit; null takes the artifact's own.
        candidates: Nearest entries the guard looks at.
    """

    enabled: bool = True
    threshold: Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)] | None = None
    candidates: int = Field(default=4, ge=1, le=64)


class CacheConfig(Section):
    """The answer cache.

    Attributes:
        enabled: Off means no answer is read or stored.
        ttl_s: Lifetime of an answer, seconds.
        decision_ttl_s: Lifetime of a decision under a ``decision_key``, seconds.
        max_entries: Most answers held, and most decisions under a ``decision_key``.
        max_bytes: Most bytes of those answers, and of those decisions.
        max_entry_bytes: Largest answer stored, bytes.
        semantic: The semantic tier.
    """

    enabled: bool = True
    ttl_s: PositiveSeconds = 3_600.0
    decision_ttl_s: PositiveSeconds = 30.0
    max_entries: int = Field(default=10_000, ge=1, le=10_000_000)
    max_bytes: int = Field(default=64 * 1024 * 1024, ge=1_024)
    max_entry_bytes: int = Field(default=65_536, ge=64)
    semantic: SemanticConfig = SemanticConfig()

    @model_validator(mode="after")
    def _an_entry_fits(self) -> CacheConfig:
        if self.max_entry_bytes > self.max_bytes:
            msg = f"max_entry_bytes ({self.max_entry_bytes}) is over max_bytes ({self.max_bytes})"
            raise ValueError(msg)
        return self


class LogConfig(Section):
    """Structured logs on standard error.

    Attributes:
        level: Least level written.
        format: ``json`` for machines, ``console`` for people.
        user_text: Write prompts and answers into debug logs; off unless an operator needs it.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"
    user_text: bool = False


class Settings(Section):
    """The whole configuration; every key is documented at its section.

    Attributes:
        cache_dir: Reserved for files derived from the decision model.
        experiments: Reserved for traffic splits.
        decision_log: Reserved for the decision log.
    """

    server: ServerConfig = ServerConfig()
    limits: LimitsConfig = LimitsConfig()
    auth: AuthConfig = AuthConfig()
    encoder: EncoderConfig = EncoderConfig()
    policy: PolicyConfig = PolicyConfig()
    routes: dict[Name, Tier] = Field(
        default_factory=lambda: {"fast": Tier.FAST, "slow": Tier.SLOW, "tool": Tier.TOOL}
    )
    cache: CacheConfig = CacheConfig()
    cache_dir: Reserved = None
    fast_tier: FastTierConfig = FastTierConfig()
    slow_tier: SlowTierConfig = SlowTierConfig()
    experiments: ReservedList = ()
    decision_log: Reserved = None
    log: LogConfig = LogConfig()

    @field_validator("auth")
    @classmethod
    def _certificates_are_asked_for(cls, value: AuthConfig, info: ValidationInfo) -> AuthConfig:
        # Absent where it is wrong itself.
        server: ServerConfig | None = info.data.get("server")
        asked = server is None or (server.tls is not None and server.tls.client_ca_file is not None)
        if value.certificates and not asked:
            msg = "certificates need server.tls.client_ca_file, which says whose are believed"
            raise ValueError(msg)
        return value

    @field_validator("routes", mode="before")
    @classmethod
    def _tier_words(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v.upper() if isinstance(v, str) else v for k, v in value.items()}
        return value

    @field_validator("routes")
    @classmethod
    def _at_least_two_routes(cls, value: dict[str, Tier]) -> dict[str, Tier]:
        if len(value) < 2:
            msg = f"need at least two routes, got {len(value)}"
            raise ValueError(msg)
        return value

    def public(self) -> dict[str, Any]:
        """Return the effective configuration as JSON values; it holds no secret."""
        return self.model_dump(mode="json")

    @property
    def revision(self) -> str:
        """First 12 digits of the SHA-256 of the effective configuration."""
        canonical = json.dumps(self.public(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def load_settings(path: Path | None = None) -> Settings:
    """Read, merge and validate the configuration.

    Args:
        path: YAML file; ``None`` takes the one named by ``FASTSLOW_CONFIG``, or defaults.

    Raises:
        ConfigError: One line a mistake, each with its key, the limit and, for an unknown
            key or variable, the nearest known one.
    """
    if path is None and os.environ.get(ENV_CONFIG):
        path = Path(os.environ[ENV_CONFIG])
    content = {} if path is None else read_yaml(path)
    mistakes = list(unknown_variables(Settings, content))
    settings = None
    try:
        settings = Settings.model_validate(from_environment(Settings, over=content))
    except ValidationError as error:
        mistakes += explain(error, Settings, variable_of=variable_of)
    if settings is None or mistakes:
        head = f"{path or 'defaults'}: the configuration has {len(mistakes)} mistake(s)"
        raise ConfigError("\n  ".join([head, *mistakes]))
    return settings
