"""Listen for gRPC calls as the configuration says."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from router.config import LimitsConfig, ServerConfig, TlsConfig
from router.errors import ConfigError
from router.v1 import router_pb2 as pb

SERVICES = tuple(service.full_name for service in pb.DESCRIPTOR.services_by_name.values())


class Transport:
    """A gRPC server with health checks, not yet listening.

    Args:
        config: Address, TLS, reflection.
        limits: For the size of a message.
        interceptors: Outermost first.
    """

    def __init__(
        self,
        config: ServerConfig,
        limits: LimitsConfig,
        *,
        interceptors: Sequence[grpc.aio.ServerInterceptor],
    ) -> None:
        self._config = config
        self._health = health.aio.HealthServicer()
        self.server = grpc.aio.server(
            interceptors=list(interceptors),
            options=[
                ("grpc.max_receive_message_length", limits.message_bytes),
                # Otherwise a second process could share the port without anybody noticing.
                ("grpc.so_reuseport", 0),
            ],
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.server)
        if config.reflection == "on" or (
            config.reflection == "loopback" and is_loopback(config.host)
        ):
            names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self.server)

    def bind(self) -> int:
        """Take the port; return which one it is.

        Raises:
            ConfigError: Naming ``server.port`` or the TLS file that is at fault.
        """
        host, port = self._config.host, self._config.port
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        tls = self._config.tls
        credentials = None if tls is None else server_credentials(tls)
        try:
            if credentials is None:
                return self.server.add_insecure_port(address)
            return self.server.add_secure_port(address, credentials)
        except RuntimeError as error:
            if not _resolves(host):
                msg = f"server.host: {host} cannot be resolved"
                raise ConfigError(msg) from error
            msg = f"server.port: cannot listen on {address}; is the port in use?"
            raise ConfigError(msg) from error

    async def set_serving(self) -> None:
        """Report every service as serving."""
        await self._set_all(health_pb2.HealthCheckResponse.SERVING)

    async def set_starting(self) -> None:
        """Report every service as not yet serving."""
        await self._set_all(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def set_stopping(self) -> None:
        """Report every service as not serving, for good."""
        await self._health.enter_graceful_shutdown()

    async def _set_all(self, status: int) -> None:
        for name in ("", *SERVICES):
            await self._health.set(name, status)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return False
    return True


def server_credentials(tls: TlsConfig) -> grpc.ServerCredentials:
    """Return the server's credentials; with a client CA, clients have to present a certificate.

    Raises:
        ConfigError: Naming the setting whose file cannot be used.
    """
    certificate = _read("cert_file", tls.cert_file)
    key = _read("key_file", tls.key_file)
    try:
        # gRPC would accept anything here, then fail every handshake.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            tls.cert_file, tls.key_file, password=_no_pass_phrase
        )
    except _Encrypted as error:
        msg = "server.tls.key_file: is encrypted; a key without a pass phrase is needed"
        raise ConfigError(msg) from error
    except (ssl.SSLError, OSError) as error:
        msg = "server.tls: cert_file and key_file are not a certificate with its private key (PEM)"
        raise ConfigError(msg) from error
    if tls.client_ca_file is None:
        return grpc.ssl_server_credentials([(key, certificate)])
    client_ca = _read("client_ca_file", tls.client_ca_file)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(tls.client_ca_file)
    except (ssl.SSLError, OSError) as error:
        msg = "server.tls.client_ca_file: not a certificate (PEM)"
        raise ConfigError(msg) from error
    return grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=client_ca, require_client_auth=True
    )


class _Encrypted(Exception):  # noqa: N818 - says what the key is
    """The private key asks for a pass phrase."""


def _no_pass_phrase() -> NoReturn:
    """Answer in the place of OpenSSL, which would ask at the terminal."""
    raise _Encrypted


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"server.tls.{name}: cannot read {path}: {error.strerror}"
        raise ConfigError(msg) from error
