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

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from router.config_errors import explain
from router.domain import Tier
from router.errors import ConfigError
from router.policy import PolicyScore

ENV_PREFIX = "FASTSLOW_"
ENV_CONFIG = "FASTSLOW_CONFIG"

Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0.0, le=86_400.0 * 365, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0 * 365, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65_535)]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]


class Section(BaseModel):
    """Base of every section: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class Secret(Section):
    """Where a secret is read from; exactly one of the two.

    Attributes:
        env: Name of an environment variable.
        file: Path of a file; surrounding white space is stripped.
    """

    env: str | None = None
    file: Path | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Secret:
        if (self.env is None) == (self.file is None):
            msg = "give exactly one of env (a variable's name) and file (a path)"
            raise ValueError(msg)
        return self

    def read(self, key: str) -> SecretStr:
        """Return the secret.

        Raises:
            ConfigError: Naming ``key`` and the variable or file that is missing or empty.
        """
        if self.env is not None:
            value, origin = os.environ.get(self.env, ""), f"environment variable {self.env}"
        else:
            origin = f"file {self.file}"
            try:
                value = Path(str(self.file)).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                msg = f"{key}: cannot read {origin}: {type(error).__name__}"
                raise ConfigError(msg) from error
        if not value.strip():
            msg = f"{key}: {origin} is empty or not set"
            raise ConfigError(msg)
        return SecretStr(value.strip())


class TlsConfig(Section):
    """Server certificate; with ``client_ca_file`` clients must present one too."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None


class ServerConfig(Section):
    """Where the service listens.

    Attributes:
        host: Address for gRPC; loopback by default, since nobody is authenticated by default.
        port: gRPC port; 0 picks a free one.
        metrics_host: Address for Prometheus.
        metrics_port: Prometheus port; 0 picks a free one, null switches it off.
        reflection: gRPC reflection: only on a loopback host, always, or never.
        drain_s: Time that running requests get on SIGTERM, seconds.
    """

    host: str = "127.0.0.1"
    port: Port = 50_051
    metrics_host: str = "127.0.0.1"
    metrics_port: Port | None = 9_090
    tls: TlsConfig | None = None
    reflection: Literal["loopback", "on", "off"] = "loopback"
    drain_s: Seconds = 20.0


class LimitsConfig(Section):
    """What one request, and all together, may cost.

    Attributes:
        prompt_bytes: Longest input text, bytes of UTF-8.
        message_bytes: Largest gRPC message, bytes; beyond it gRPC itself refuses.
        in_flight: Requests worked on at once; more are RESOURCE_EXHAUSTED before any work.
        output_tokens: Most tokens a request may generate.
        default_deadline_s: Deadline of a call that brings none, seconds.
        retry_after_s: What an overloaded caller is told to wait, seconds.
    """

    prompt_bytes: int = Field(default=262_144, ge=1, le=64 * 1024 * 1024)
    message_bytes: int = Field(default=4 * 1024 * 1024, ge=1024, le=256 * 1024 * 1024)
    in_flight: int = Field(default=256, ge=1, le=100_000)
    output_tokens: int = Field(default=2_048, ge=1, le=1_000_000)
    default_deadline_s: PositiveSeconds = 60.0
    retry_after_s: PositiveSeconds = 1.0


class TokenConfig(Section):
    """A bearer token and the tenant it stands for."""

    tenant: Name
    token: Secret


class AuthConfig(Section):
    """Who may call, as which tenant.

    Attributes:
        tokens: With at least one, every call needs ``authorization: Bearer <token>``.
        trust_tenant_metadata: Without tokens, take the tenant from the ``tenant`` request
            metadata; only behind a proxy that sets it.
    """

    tokens: tuple[TokenConfig, ...] = ()
    trust_tenant_metadata: bool = False

    @model_validator(mode="after")
    def _tokens_or_trust(self) -> AuthConfig:
        if self.tokens and self.trust_tenant_metadata:
            msg = "trust_tenant_metadata would let any token holder pick a tenant; drop one of both"
            raise ValueError(msg)
        return self


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

    artifact: str = "laya-base"
    precision: Literal["int8"] = "int8"
    threads: int = Field(default=1, ge=1, le=256)
    workers: int = Field(default=1, ge=1, le=64)
    max_tokens: int = Field(default=512, ge=16, le=8_192)
    max_batch: int = Field(default=32, ge=1, le=1_024)


class CostMatrix(Section):
    """Cost of the two errors, in any unit."""

    complex_to_fast: Price = 10.0
    simple_to_slow: Price = 1.0


class PolicyConfig(Section):
    """How probabilities become a tier.

    Attributes:
        threshold: Probability a route has to reach; null takes the artifact's own.
        score: Which number is compared for fast routes.
        typed_gate: ``fast_first`` tries a loaded decision model on every typed question,
            ``router`` lets the probabilities decide.
        cost_matrix: Costs the threshold search minimises.
        implementation: ``package:object`` of a custom policy.
        slow_floor_s: With less time left than this, seconds, the fast tier answers; 0 = never.
    """

    threshold: Probability | None = None
    score: PolicyScore = PolicyScore.P_FAST
    typed_gate: Literal["fast_first", "router"] = "fast_first"
    cost_matrix: CostMatrix = CostMatrix()
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
    threshold: Annotated[float, Field(ge=-1.0, le=1.0, allow_inf_nan=False)] | None = None
    candidates: int = Field(default=4, ge=1, le=64)


class CacheConfig(Section):
    """The answer cache.

    Attributes:
        enabled: Off means no answer is read or stored.
        ttl_s: Lifetime of an answer, seconds.
        decision_ttl_s: Lifetime of a decision under a ``decision_key``, seconds.
        max_entries: Most answers held.
        max_bytes: Most bytes held.
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


class UpstreamConfig(Section):
    """One OpenAI-compatible chat-completions server.

    Attributes:
        name: Unique among its siblings; stands in path, log and metrics.
        url: Base URL up to and including the version, e.g. ``http://localhost:8000/v1``.
        model: Model name sent to the server.
        api_key: Where the bearer key is read from; null sends none.
        system_prompt: Sent where the caller's messages carry no system message.
        connect_timeout_s: Longest wait for a connection, seconds.
        read_timeout_s: Longest silence of the server, seconds; null leaves it to the deadline.
            A server that hangs counts as failed only after this.
        max_attempts: Attempts in all, the first included.
        revision: Changes when the model behind the name changes; part of the cache key.
        input_usd_per_million_tokens: Price of reading.
        output_usd_per_million_tokens: Price of writing.
    """

    name: Name = "default"
    url: str = Field(pattern=r"^https?://[^\s/]+")
    model: str = Field(min_length=1, max_length=256)
    api_key: Secret | None = None
    system_prompt: str | None = Field(default=None, max_length=65_536)
    connect_timeout_s: PositiveSeconds = 5.0
    read_timeout_s: PositiveSeconds | None = None
    max_attempts: int = Field(default=3, ge=1, le=10)
    revision: str = Field(default="", max_length=128)
    input_usd_per_million_tokens: Price | None = None
    output_usd_per_million_tokens: Price | None = None

    @field_validator("api_key", mode="before")
    @classmethod
    def _no_literal_secret(cls, value: Any) -> Any:
        if isinstance(value, str):
            msg = "a secret may not stand in the file; write {env: NAME} or {file: PATH}"
            raise ValueError(msg)
        return value


class TextTierConfig(Section):
    """The fast tier for text; exactly one of ``url`` and ``gguf``.

    Attributes:
        url: Base URL of a local OpenAI-compatible server.
        gguf: Model file run in process by llama.cpp (extra ``llm``).
        model: Model name sent to ``url``.
        api_key: Where the bearer key for ``url`` is read from.
        system_prompt: Sent where the caller's messages carry no system message.
        revision: Changes when the model changes; part of the cache key.
        connect_timeout_s: Longest wait for a connection to ``url``, seconds.
        context_tokens: Context of the in-process model, tokens.
        threads: Threads of the in-process model; more than one spins at barriers, which pays
            only on cores nobody else uses.
    """

    url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+")
    gguf: Path | None = None
    model: str = Field(default="default", min_length=1, max_length=256)
    api_key: Secret | None = None
    system_prompt: str = Field(default="You are a helpful assistant.", min_length=1)
    revision: str = Field(default="", max_length=128)
    connect_timeout_s: PositiveSeconds = 2.0
    context_tokens: int = Field(default=4_096, ge=128, le=1_048_576)
    threads: int = Field(default=1, ge=1, le=256)

    @model_validator(mode="after")
    def _one_engine(self) -> TextTierConfig:
        if (self.url is None) == (self.gguf is None):
            msg = "give exactly one of url (a server) and gguf (a model file)"
            raise ValueError(msg)
        return self


class FastTierConfig(Section):
    """The fast tier.

    Attributes:
        decisions: Laya decision model; this version serves none, so it must be null.
        text: Text model; null sends simple text to the slow tier too.
    """

    decisions: None = None
    text: TextTierConfig | None = None


class SlowTierConfig(Section):
    """The slow tier: upstreams in order of preference, later ones are failovers."""

    upstreams: tuple[UpstreamConfig, ...] = ()

    @field_validator("upstreams")
    @classmethod
    def _unique_names(cls, value: tuple[UpstreamConfig, ...]) -> tuple[UpstreamConfig, ...]:
        seen: set[str] = set()
        for upstream in value:
            if upstream.name in seen:
                msg = f"two upstreams are named {upstream.name!r}; names must be unique"
                raise ValueError(msg)
            seen.add(upstream.name)
        return value


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


def default_cache_dir() -> Path:
    """Return ``fastslow`` under the XDG cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "fastslow"


class Settings(BaseSettings):
    """The whole configuration; every key is documented at its section.

    Attributes:
        experiments: Traffic splits; this version runs none, so the list must be empty.
        decision_log: Decision log; this version writes none, so it must be null.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        validate_default=True,
    )

    server: ServerConfig = ServerConfig()
    limits: LimitsConfig = LimitsConfig()
    auth: AuthConfig = AuthConfig()
    encoder: EncoderConfig = EncoderConfig()
    policy: PolicyConfig = PolicyConfig()
    routes: dict[Name, Tier] = Field(
        default_factory=lambda: {"fast": Tier.FAST, "slow": Tier.SLOW, "tool": Tier.TOOL}
    )
    cache: CacheConfig = CacheConfig()
    cache_dir: Path = Field(default_factory=default_cache_dir)
    fast_tier: FastTierConfig = FastTierConfig()
    slow_tier: SlowTierConfig = SlowTierConfig()
    experiments: tuple[()] = ()
    decision_log: None = None
    log: LogConfig = LogConfig()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - signature given by pydantic
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the environment over the file, which arrives as initial values."""
        return env_settings, init_settings

    @field_validator("routes", mode="before")
    @classmethod
    def _tier_words(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v.upper() if isinstance(v, str) else v for k, v in value.items()}
        return value

    @field_validator("routes")
    @classmethod
    def _routes_reach_slow(cls, value: dict[str, Tier]) -> dict[str, Tier]:
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


def load_settings(path: Path | None = None, overrides: dict[str, Any] | None = None) -> Settings:
    """Read, merge and validate the configuration.

    Args:
        path: YAML file; ``None`` takes the one named by ``FASTSLOW_CONFIG``, or defaults.
        overrides: Values over the file and under the environment, e.g. from a command line.

    Raises:
        ConfigError: One line a mistake, each with its key, the limit and, for an unknown
            key, the nearest known one.
    """
    if path is None and os.environ.get(ENV_CONFIG):
        path = Path(os.environ[ENV_CONFIG])
    values = _read_yaml(path) if path is not None else {}
    for key, value in (overrides or {}).items():
        values[key] = value
    try:
        return Settings(**values)
    except ValidationError as error:
        raise ConfigError(explain(error, Settings, origin=str(path or "defaults"))) from None


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        msg = f"{path}{line}: not YAML"
        raise ConfigError(msg) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        msg = f"{path}: expected a mapping of sections at the top"
        raise ConfigError(msg)
    return content
