"""Make models, clients and indexes from the configuration; part of the composition root.

Secrets are read here. Every mistake that only shows when a thing is made becomes a
`ConfigError` that names its setting.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from cache.semantic_cache import CacheSettings, SemanticCache
from fast_tier.errors import FastTierError
from fast_tier.text_engine import TextEngine
from router.artifact import ArtifactConfig, load_artifact
from router.auth import Authenticator
from router.calibration import RouteCalibration
from router.clock import Clock
from router.config import Settings, UpstreamConfig
from router.deciding import DecisionRules, TokenPrice
from router.domain import Tier
from router.encoder import Encoder
from router.engine_tier import EngineTier
from router.errors import ConfigError
from router.policy import Policy, ThresholdPolicy
from router.policy_loading import load_policy
from router.reading import TextEncoder
from router.tiers import ChatTier, TextTier
from slow_tier.client import ChatClient
from slow_tier.upstream import Upstream

_NAME_OF_FAST_UPSTREAM = "fast"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEncoder:
    """An encoder with what was fitted for it.

    Attributes:
        encoder: Reads requests.
        calibration: Of its route head.
        threshold: Probability a route has to reach unless configured otherwise.
        semantic_threshold: Least cosine of a semantic hit unless configured otherwise.
        warm_up: Runs it once, blocking.
        close: Frees it.
    """

    encoder: TextEncoder
    calibration: RouteCalibration
    threshold: float
    semantic_threshold: float
    warm_up: Callable[[], None]
    close: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTier:
    """A text tier with the way to free it."""

    tier: TextTier
    close: Callable[[], Awaitable[None]]


def make_authenticator(settings: Settings) -> Authenticator:
    """Return who may call, as which tenant."""
    return Authenticator(
        [
            (entry.tenant, entry.token.read(f"auth.tokens[{index}].token"))
            for index, entry in enumerate(settings.auth.tokens)
        ],
        certificates=[(entry.tenant, entry.subject) for entry in settings.auth.certificates],
        trust_tenant_metadata=settings.auth.trust_tenant_metadata,
    )


def load_encoder(settings: Settings) -> LoadedEncoder:
    """Return the configured encoder; blocks while it loads.

    Raises:
        ArtifactError: Naming the file of the artifact that is missing or damaged.
        ConfigError: If the settings do not fit the artifact.
    """
    config = settings.encoder
    artifact = load_artifact(config.artifact)
    check_encoder(settings, artifact.config)
    encoder = Encoder.load(
        artifact,
        precision=config.precision,
        threads=config.threads,
        workers=config.workers,
        max_tokens=config.max_tokens,
        max_batch=config.max_batch,
    )
    return LoadedEncoder(
        encoder=encoder,
        calibration=artifact.calibration,
        threshold=artifact.threshold,
        semantic_threshold=artifact.semantic_threshold,
        warm_up=encoder.warm_up,
        close=encoder.close,
    )


def check_encoder(settings: Settings, artifact: ArtifactConfig) -> None:
    """Make sure that the settings fit the encoder's artifact.

    Raises:
        ConfigError: Naming ``encoder.max_tokens``.
    """
    wanted = settings.encoder.max_tokens
    if wanted > artifact.max_tokens:
        msg = f"encoder.max_tokens: is {wanted}, {artifact.name} reads at most "
        msg += f"{artifact.max_tokens}"
        raise ConfigError(msg)


def check_routes(settings: Settings, routes: tuple[str, ...]) -> None:
    """Make sure that every route of the encoder has a tier.

    Raises:
        ConfigError: Naming ``routes``.
    """
    missing = [name for name in routes if name not in settings.routes]
    if missing:
        msg = f"routes: the encoder has route(s) {', '.join(missing)}, which have no tier here"
        raise ConfigError(msg)
    if all(settings.routes[name] is Tier.TOOL for name in routes):
        msg = "routes: at least one route of the encoder must be fast or slow"
        raise ConfigError(msg)


def make_policy(settings: Settings) -> Policy:
    """Return what turns probabilities into a tier.

    Raises:
        ConfigError: Naming ``policy.implementation``.
    """
    name = settings.policy.implementation
    return ThresholdPolicy() if name is None else load_policy(name, tiers=settings.routes)


def decision_rules(settings: Settings, loaded: LoadedEncoder) -> DecisionRules:
    """Return what decisions depend on, once every route of the encoder has a tier."""
    check_routes(settings, loaded.calibration.routes)
    policy = settings.policy
    return DecisionRules(
        calibration=loaded.calibration,
        tiers=settings.routes,
        policy=make_policy(settings),
        threshold=loaded.threshold if policy.threshold is None else policy.threshold,
        score=policy.score,
        slow_floor_s=policy.slow_floor_s,
        slow_price=_price(settings.slow_tier.upstreams),
        encoder_revision=loaded.encoder.revision,
        config_revision=settings.revision,
    )


def _price(upstreams: tuple[UpstreamConfig, ...]) -> TokenPrice | None:
    """Return what the preferred upstream charges, ``None`` unless both prices are known."""
    if not upstreams:
        return None
    read, written = (
        upstreams[0].input_usd_per_million_tokens,
        upstreams[0].output_usd_per_million_tokens,
    )
    if read is None or written is None:
        return None
    return TokenPrice(input_usd_per_million_tokens=read, output_usd_per_million_tokens=written)


def make_cache(settings: Settings, loaded: LoadedEncoder, clock: Clock) -> SemanticCache | None:
    """Return the answer cache, ``None`` where it is switched off."""
    config = settings.cache
    if not config.enabled:
        return None
    threshold = config.semantic.threshold
    limits = CacheSettings(
        max_entries=config.max_entries,
        max_bytes=config.max_bytes,
        ttl_s=config.ttl_s,
        max_entry_bytes=config.max_entry_bytes,
        similarity_threshold=loaded.semantic_threshold if threshold is None else threshold,
        candidates=config.semantic.candidates,
    )
    return SemanticCache(limits, dim=loaded.encoder.dim, clock=clock.time_s)


def slow_upstream(settings: Settings, index: int) -> Upstream:
    """Return an upstream of the slow tier with its key.

    Raises:
        ConfigError: Naming the setting.
    """
    config = settings.slow_tier.upstreams[index]
    key = f"slow_tier.upstreams[{index}]"
    secret = config.api_key and config.api_key.read(f"{key}.api_key")
    return _upstream(
        key,
        name=config.name,
        url=config.url,
        model=config.model,
        api_key=secret and secret.get_secret_value(),
        system_prompt=config.system_prompt,
        connect_timeout_s=config.connect_timeout_s,
        read_timeout_s=config.read_timeout_s,
        max_attempts=config.max_attempts,
        revision=config.revision,
        dialect=config.dialect,
    )


def make_slow_tier(settings: Settings, clock: Clock) -> LoadedTier | None:
    """Return the slow tier, ``None`` where no upstream is configured."""
    indexes = range(len(settings.slow_tier.upstreams))
    if not indexes:
        return None
    return _chat_tier([slow_upstream(settings, index) for index in indexes], clock)


def fast_upstream(settings: Settings) -> Upstream | None:
    """Return the server of the fast tier with its key, ``None`` where there is none.

    Raises:
        ConfigError: Naming the setting.
    """
    config = settings.fast_tier.text
    if config is None or config.url is None:
        return None
    key = "fast_tier.text"
    secret = config.api_key and config.api_key.read(f"{key}.api_key")
    return _upstream(
        key,
        name=_NAME_OF_FAST_UPSTREAM,
        url=config.url,
        model=config.model,
        api_key=secret and secret.get_secret_value(),
        system_prompt=config.system_prompt,
        connect_timeout_s=config.connect_timeout_s,
        # The slow tier answers sooner than another attempt would.
        max_attempts=1,
        revision=config.revision,
    )


def load_engine(settings: Settings) -> TextEngine | None:
    """Return the in-process model of the fast tier, ``None`` without one; blocks while it loads.

    Raises:
        ConfigError: Naming the setting.
    """
    config = settings.fast_tier.text
    if config is None or config.gguf is None:
        return None
    try:
        return TextEngine.load(
            config.gguf,
            context_tokens=config.context_tokens,
            threads=config.threads,
            system_prompt=config.system_prompt,
        )
    except (FastTierError, ValueError) as error:
        msg = f"fast_tier.text: {error}"
        raise ConfigError(msg) from error


def make_fast_tier(
    settings: Settings, clock: Clock, *, engine: TextEngine | None
) -> LoadedTier | None:
    """Return the fast tier for text, ``None`` where none is configured.

    Args:
        settings: The validated configuration.
        clock: Time.
        engine: As `load_engine` gives it.
    """
    config = settings.fast_tier.text
    upstream = fast_upstream(settings)
    if upstream is not None:
        return _chat_tier([upstream], clock)
    if config is None or engine is None:
        return None

    async def close() -> None:
        await asyncio.to_thread(engine.close)

    tier = EngineTier(engine, system_prompt=config.system_prompt, clock=clock)
    return LoadedTier(tier=tier, close=close)


def _upstream(key: str, **values: Any) -> Upstream:
    try:
        return Upstream(**values)
    except ValueError as error:
        msg = f"{key}: {error}"
        raise ConfigError(msg) from error


def _chat_tier(upstreams: list[Upstream], clock: Clock) -> LoadedTier:
    jitter = random.Random()  # noqa: S311 - spreads retries, guards nothing
    client = ChatClient(upstreams, clock=clock.monotonic_s, random=jitter)
    return LoadedTier(tier=ChatTier(client, upstreams), close=client.aclose)
