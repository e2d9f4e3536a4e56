"""The metrics can be read whoever else connects."""

import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter

from router import metrics_endpoint
from router.errors import ConfigError
from router.metrics_endpoint import MAX_CONNECTIONS, MetricsEndpoint


@pytest.fixture
def endpoint() -> Iterator[MetricsEndpoint]:
    registry = CollectorRegistry()
    Counter("calls", "Calls.", registry=registry).inc(3)
    endpoint = MetricsEndpoint(registry, host="127.0.0.1", port=0)
    yield endpoint
    endpoint.close()


def scraped(endpoint: MetricsEndpoint) -> str:
    url = f"http://127.0.0.1:{endpoint.port}/metrics"
    with urllib.request.urlopen(url, timeout=5.0) as response:
        return response.read().decode()


def half_a_request(endpoint: MetricsEndpoint) -> socket.socket:
    idle = socket.create_connection(("127.0.0.1", endpoint.port), timeout=5.0)
    idle.sendall(b"GET /metrics HTT")
    return idle


def test_a_scrape_reads_the_registry(endpoint) -> None:
    assert "calls_total 3.0" in scraped(endpoint)


def test_idle_connections_neither_pile_up_nor_keep_a_scrape_out(endpoint) -> None:
    threads = threading.active_count()
    idle = [half_a_request(endpoint) for _ in range(3 * MAX_CONNECTIONS)]
    assert "calls_total 3.0" in scraped(endpoint)
    # The oldest were hung up on.
    assert [one.recv(1) for one in idle[:MAX_CONNECTIONS]] == [b""] * MAX_CONNECTIONS
    assert threading.active_count() <= threads + 2 * MAX_CONNECTIONS
    for one in idle:
        one.close()


def test_a_connection_that_says_nothing_is_closed(monkeypatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "MAX_SECONDS", 0.0)
    endpoint = MetricsEndpoint(CollectorRegistry(), host="127.0.0.1", port=0)
    with half_a_request(endpoint) as idle:
        assert idle.recv(1) == b""
    endpoint.close()


def test_a_taken_port_names_the_setting(endpoint) -> None:
    with pytest.raises(ConfigError, match=r"server\.metrics_port: cannot listen on 127\.0\.0\.1"):
        MetricsEndpoint(CollectorRegistry(), host="127.0.0.1", port=endpoint.port)
