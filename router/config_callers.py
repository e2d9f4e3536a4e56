"""The sections about callers: where they connect, what they may ask, who they are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from router.config_values import (
    FilePath,
    Host,
    Name,
    Port,
    PositiveSeconds,
    Seconds,
    Secret,
    Section,
)


class TlsConfig(Section):
    """Server certificate; with ``client_ca_file`` clients must present one too."""

    cert_file: FilePath
    key_file: FilePath
    client_ca_file: FilePath | None = None


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

    host: Host = "127.0.0.1"
    port: Port = 50_051
    metrics_host: Host = "127.0.0.1"
    metrics_port: Port | None = 9_090
    tls: TlsConfig | None = None
    reflection: Literal["loopback", "on", "off"] = "loopback"
    drain_s: Seconds = 20.0

    @model_validator(mode="after")
    def _two_ports(self) -> ServerConfig:
        hosts = {self.host, self.metrics_host}
        shared = len(hosts) == 1 or hosts & {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
        if self.port and self.port == self.metrics_port and shared:
            msg = f"port and metrics_port are both {self.port}"
            raise ValueError(msg)
        return self


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


class CertificateConfig(Section):
    """A client certificate and the tenant it stands for.

    Attributes:
        tenant: Whom the certificate stands for.
        subject: Its common name, or one of its DNS or URI alternative names.
    """

    tenant: Name
    subject: str = Field(min_length=1, max_length=256)


class AuthConfig(Section):
    """Who may call, as which tenant; at most one of the three says so.

    Attributes:
        tokens: With at least one, every call needs ``authorization: Bearer <token>``.
        certificates: With at least one, the client's certificate names the tenant, and those
            not listed may not call; needs ``server.tls.client_ca_file``.
        trust_tenant_metadata: Take the tenant from the ``tenant`` request metadata; only behind
            a proxy that sets it.
    """

    tokens: tuple[TokenConfig, ...] = ()
    certificates: tuple[CertificateConfig, ...] = ()
    trust_tenant_metadata: bool = False

    @field_validator("certificates")
    @classmethod
    def _one_tenant_a_subject(
        cls, value: tuple[CertificateConfig, ...]
    ) -> tuple[CertificateConfig, ...]:
        tenants: dict[str, str] = {}
        for entry in value:
            earlier = tenants.setdefault(entry.subject, entry.tenant)
            if earlier != entry.tenant:
                msg = f"{earlier} and {entry.tenant} have the same subject"
                raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _one_way_to_name_a_tenant(self) -> AuthConfig:
        ways = ("tokens", "certificates", "trust_tenant_metadata")
        given = [name for name in ways if getattr(self, name)]
        if len(given) > 1:
            msg = f"{' and '.join(given)} would each name the tenant; keep one of them"
            raise ValueError(msg)
        return self
