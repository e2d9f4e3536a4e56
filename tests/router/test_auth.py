"""A call's metadata names its tenant, or nobody."""

import pytest
from pydantic import SecretStr

from router.auth import Authenticator
from router.errors import ConfigError, Forbidden, InvalidRequest, Unauthenticated

TOKENS = [
    ("acme", SecretStr("token-a")),
    ("acme", SecretStr("token-a2")),
    ("globex", SecretStr("token-g")),
]


def bearer(token: str) -> list[tuple[str, str | bytes]]:
    return [("user-agent", "test"), ("authorization", f"Bearer {token}")]


@pytest.mark.parametrize(
    ("token", "tenant"), [("token-a", "acme"), ("token-a2", "acme"), ("token-g", "globex")]
)
def test_a_token_names_its_tenant(token: str, tenant: str) -> None:
    assert Authenticator(TOKENS).tenant_of(bearer(token), {}) == tenant


def test_the_scheme_is_case_insensitive_as_http_has_it() -> None:
    assert Authenticator(TOKENS).tenant_of([("authorization", "bearer token-g")], {}) == "globex"


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [],
        bearer("wrong"),
        bearer(""),
        bearer("token-a") + bearer("token-g"),
        [("authorization", "token-a")],
        [("authorization", "Basic token-a")],
        [("authorization", b"Bearer token-a")],
        [("authorization", "Bearer token-a\udcff")],
    ],
)
def test_without_one_valid_token_nobody_is_let_in_and_no_token_is_repeated(metadata) -> None:
    with pytest.raises(Unauthenticated) as caught:
        Authenticator(TOKENS).tenant_of(metadata, {})
    assert "token-a" not in str(caught.value)
    assert "wrong" not in str(caught.value)


def test_a_token_holder_cannot_pick_another_tenant() -> None:
    metadata = [*bearer("token-a"), ("tenant", "globex")]
    assert Authenticator(TOKENS).tenant_of(metadata, {}) == "acme"


def test_without_tokens_everybody_is_the_default_tenant_whatever_they_claim() -> None:
    assert Authenticator().tenant_of([("tenant", "acme")], {}) == "default"


def test_a_trusted_proxy_names_the_tenant() -> None:
    trusting = Authenticator(trust_tenant_metadata=True)
    assert trusting.tenant_of([("tenant", "acme-1.eu_x")], {}) == "acme-1.eu_x"
    assert trusting.tenant_of([], {}) == "default"


@pytest.mark.parametrize(
    "values", [[""], ["a b"], ["a/b"], ["x" * 65], ["acme\n"], [b"acme"], ["a", "b"]]
)
def test_a_malformed_tenant_is_refused_even_from_a_trusted_proxy(values) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Authenticator(trust_tenant_metadata=True).tenant_of([("tenant", v) for v in values], {})
    assert caught.value.field == "metadata.tenant"


def test_one_token_for_two_tenants_is_a_configuration_error() -> None:
    same = [("acme", SecretStr("token-s")), ("globex", SecretStr("token-s"))]
    with pytest.raises(ConfigError, match="globex and acme have the same token") as caught:
        Authenticator(same)
    assert "token-s" not in str(caught.value)


CERTIFICATES = [("acme", "client.acme"), ("acme", "spiffe://acme/batch"), ("globex", "globex")]


@pytest.mark.parametrize(
    ("peer", "tenant"),
    [
        ({"x509_common_name": [b"globex"]}, "globex"),
        ({"x509_common_name": [b"x"], "peer_dns": [b"y", b"client.acme"]}, "acme"),
        ({"peer_uri": [b"spiffe://acme/batch"], "peer_dns": [b"client.acme"]}, "acme"),
    ],
)
def test_a_certificate_names_its_tenant(peer, tenant) -> None:
    assert Authenticator(certificates=CERTIFICATES).tenant_of([("tenant", "x")], peer) == tenant


@pytest.mark.parametrize(
    "peer",
    [
        {},
        {"x509_common_name": [b"stranger"]},
        {"x509_common_name": [b"globex.evil"]},
        {"x509_pem_cert": [b"globex"], "peer_email": [b"client.acme"]},
        {"x509_common_name": [b"globex"], "peer_dns": [b"client.acme"]},
    ],
    ids=["none", "unknown", "longer", "other properties", "two tenants"],
)
def test_a_certificate_of_no_single_tenant_may_not_call(peer) -> None:
    with pytest.raises(Forbidden, match=r"auth\.certificates") as caught:
        Authenticator(certificates=CERTIFICATES).tenant_of(bearer("token-a"), peer)
    assert "globex" not in str(caught.value)


def test_no_attribute_holds_a_token() -> None:
    assert "token-" not in repr(vars(Authenticator(TOKENS)))
