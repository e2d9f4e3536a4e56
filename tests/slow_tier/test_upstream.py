"""An upstream's settings are checked, its key never shown."""

import pytest

from slow_tier.upstream import Upstream

GOOD = {"name": "up", "url": "https://host/v1", "model": "m"}


def test_the_key_is_in_the_header_but_not_in_the_repr():
    upstream = Upstream(**GOOD, api_key="sk-secret")
    assert upstream.headers()["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in repr(upstream)
    assert "authorization" not in Upstream(**GOOD).headers()


def test_a_final_slash_makes_no_difference():
    assert Upstream(**(GOOD | {"url": "http://[::1]:80/v1/"})).url == "http://[::1]:80/v1"


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"model": ""}, "model must not be empty"),
        ({"url": "host/v1"}, "url must start with http"),
        ({"url": "file:///etc/passwd"}, "url must start with http"),
        ({"url": "http://"}, "url must start with http"),
        ({"url": "http://a:b:c/"}, "url is not a URL"),
        ({"url": "http://host:999999/v1"}, "url must have a port from 1 to 65535"),
        ({"url": "http://host:0/v1"}, "url must have a port from 1 to 65535"),
        ({"url": "http://me:hunter2@host/v1"}, "url must not hold a user or password"),
        ({"url": "http://host/v1?key=hunter2"}, "url must not have a query"),
        ({"url": "http://host/v1/chat/completions/"}, "url must end before /chat/completions"),
        ({"api_key": "hunter2\n"}, "api_key must be printable ASCII"),
        ({"api_key": ""}, "api_key must be printable ASCII"),
        ({"connect_timeout_s": 0.0}, "connect_timeout_s must be finite and > 0, got 0.0"),
        ({"connect_timeout_s": float("inf")}, "connect_timeout_s must be finite"),
        ({"read_timeout_s": float("nan")}, "read_timeout_s must be finite"),
        ({"dialect": "old"}, "dialect must be one of chat, reasoning"),
        ({"max_attempts": 0}, "max_attempts must be >= 1, got 0"),
    ],
)
def test_a_bad_setting_is_refused_by_upstream_and_field_without_its_secrets(overrides, problem):
    settings = GOOD | overrides
    with pytest.raises(ValueError, match=f"upstream '{settings['name']}': {problem}") as raised:
        Upstream(**settings)
    assert "hunter2" not in str(raised.value)
