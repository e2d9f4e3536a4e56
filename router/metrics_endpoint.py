"""Serve the metrics over HTTP, whoever else connects.

``prometheus_client.start_http_server`` gives every connection a thread for as long as it likes;
here connections are few and short.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from router.errors import ConfigError

MAX_CONNECTIONS = 16
# A scrape takes milliseconds; Prometheus itself gives up after ten seconds by default.
MAX_SECONDS = 10.0


class MetricsEndpoint:
    """Serves a registry over HTTP from threads of its own.

    At most 16 connections are open at once; one more closes the oldest, so that idle ones cannot
    keep a scrape out. None lives longer than ten seconds.

    Args:
        registry: What to serve.
        host: Address to listen on.
        port: Port; 0 picks a free one.

    Raises:
        ConfigError: Naming the setting, if the address cannot be bound.
    """

    def __init__(self, registry: CollectorRegistry, *, host: str, port: int) -> None:
        try:
            family, _, _, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
        except (OSError, UnicodeError) as error:
            msg = f"server.metrics_host: {host} cannot be resolved"
            raise ConfigError(msg) from error
        server_class = type("_Server", (_BoundedServer,), {"address_family": family})
        try:
            self._server: WSGIServer = make_server(
                str(address[0]), port, make_wsgi_app(registry), server_class, _SilentHandler
            )
        except OSError as error:
            msg = f"server.metrics_port: cannot listen on {host}:{port}: {error.strerror}"
            raise ConfigError(msg) from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _BoundedServer(ThreadingWSGIServer):
    """Closes connections that are too many or too old; their threads end with them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lock = threading.Lock()
        self._opened_s: dict[socket.socket, float] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._opened_s) >= MAX_CONNECTIONS:
                self._hang_up(next(iter(self._opened_s)))
            self._opened_s[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Run by `serve_forever` twice a second."""
        super().service_actions()
        oldest_s = time.monotonic() - MAX_SECONDS
        with self._lock:
            for request in [r for r, opened_s in self._opened_s.items() if opened_s < oldest_s]:
                self._hang_up(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._opened_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a connection that breaks is its client's affair."""

    def _hang_up(self, request: socket.socket) -> None:
        self._opened_s.pop(request, None)
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by the base class
        """Log nothing."""
