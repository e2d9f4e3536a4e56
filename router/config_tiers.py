"""The sections about the models that answer: the fast tier and the slow tier."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from router.config_values import (
    FilePath,
    Name,
    PositiveSeconds,
    Price,
    Reserved,
    Secret,
    Section,
)


class UpstreamConfig(Section):
    """One OpenAI-compatible chat-completions server.

    Attributes:
        name: Unique among its siblings; stands in path, log and metrics.
        url: Base URL up to and including the version, e.g. ``http://localhost:8000/v1``.
        model: Model name sent to the server.
        api_key: Where the bearer key is read from; null sends none.
        system_prompt: Sent where the caller's messages carry no system message.
        connect_timeout_s: Longest wait for a connection, seconds.
        read_timeout_s: Longest silence of the server, seconds; null leaves it to the
            upstream's part of the deadline, which those still to be asked share equally.
        max_attempts: Attempts in all, the first included.
        revision: Changes when the model behind the name changes; part of the cache key.
        dialect: ``reasoning`` for models that take ``max_completion_tokens`` and refuse
            ``max_tokens``, a temperature and log-probabilities.
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
    dialect: Literal["chat", "reasoning"] = "chat"
    input_usd_per_million_tokens: Price | None = None
    output_usd_per_million_tokens: Price | None = None


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
    gguf: FilePath | None = None
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
        decisions: Reserved for the Laya decision model.
        text: Text model; null sends simple text to the slow tier too.
        timeout_s: Longest wait for an answer to begin (one that is not streamed: to be whole),
            seconds, and never more than half the time left. Holds where the slow tier can
            answer instead.
    """

    decisions: Reserved = None
    text: TextTierConfig | None = None
    timeout_s: PositiveSeconds = 20.0


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
