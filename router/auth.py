"""Who calls: the tenant behind the metadata or the certificate of a call.

A bearer token or a client certificate names it, where the configuration lists them. Otherwise
everybody is the tenant ``default``, unless a trusted proxy in front sets the ``tenant`` metadata
key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping

from pydantic import SecretStr, TypeAdapter, ValidationError

from router.config import Name
from router.errors import ConfigError, Forbidden, InvalidRequest, Unauthenticated

DEFAULT_TENANT = "default"

# Names under which gRPC reports the common name, the DNS and the URI alternative names.
_SUBJECTS = ("x509_common_name", "peer_dns", "peer_uri")

_NAME: TypeAdapter[str] = TypeAdapter(Name)


class Authenticator:
    """Reads the tenant out of what a call brings along.

    Tokens are kept as SHA-256 digests only, and every one of them is compared in constant
    time, so neither a dump nor the time of an answer tells a token.

    Args:
        tokens: ``(tenant, token)`` pairs; a tenant may have several while it rotates them.
        certificates: ``(tenant, subject)`` pairs; exclude tokens. A subject is the common name
            or a DNS or URI alternative name of a certificate that gRPC has verified.
        trust_tenant_metadata: Without both, believe the ``tenant`` metadata key.

    Raises:
        ConfigError: If one token stands for two tenants.
    """

    def __init__(
        self,
        tokens: Iterable[tuple[str, SecretStr]] = (),
        *,
        certificates: Iterable[tuple[str, str]] = (),
        trust_tenant_metadata: bool = False,
    ) -> None:
        self._tenants: dict[bytes, str] = {}
        for tenant, token in tokens:
            digest = _digest(token.get_secret_value())
            if self._tenants.setdefault(digest, tenant) != tenant:
                msg = f"auth.tokens: {tenant} and {self._tenants[digest]} have the same token"
                raise ConfigError(msg)
        self._subjects = {subject.encode(): tenant for tenant, subject in certificates}
        self._trust_tenant_metadata = trust_tenant_metadata

    def tenant_of(
        self,
        metadata: Iterable[tuple[str, str | bytes]] | None,
        peer: Mapping[str, Iterable[bytes]],
    ) -> str:
        """Return the caller's tenant.

        Args:
            metadata: Keys in lower case, as gRPC delivers them, with their values.
            peer: What gRPC verified about the caller, by property; empty without TLS.

        Raises:
            Unauthenticated: If tokens are configured and the call carries no valid one.
            Forbidden: If certificates are configured and the caller's is none of them.
            InvalidRequest: If a trusted ``tenant`` is not 1 to 64 characters of
                ``[A-Za-z0-9_.-]``.
        """
        pairs = tuple(metadata or ())
        if self._tenants:
            return self._by_token(_values(pairs, "authorization"))
        if self._subjects:
            return self._by_certificate(peer)
        if self._trust_tenant_metadata:
            return _by_name(_values(pairs, "tenant"))
        return DEFAULT_TENANT

    def _by_certificate(self, peer: Mapping[str, Iterable[bytes]]) -> str:
        subjects = [value for name in _SUBJECTS for value in peer.get(name, ())]
        found = {self._subjects[value] for value in subjects if value in self._subjects}
        if len(found) != 1:
            which = "several tenants" if found else "no tenant"
            msg = f"the client certificate stands for {which} of auth.certificates"
            raise Forbidden(msg)
        return found.pop()

    def _by_token(self, values: list[str | bytes]) -> str:
        scheme, _, token = str(values[0]).partition(" ") if len(values) == 1 else ("", "", "")
        presented = _digest(token.strip())
        found = ""
        # Never leaves early, so that the time does not depend on which token matches.
        for digest, tenant in self._tenants.items():
            if hmac.compare_digest(digest, presented):
                found = tenant
        if scheme.lower() != "bearer" or not found:
            msg = "needs one valid 'authorization: Bearer <token>' in the metadata"
            raise Unauthenticated(msg)
        return found


def _by_name(values: list[str | bytes]) -> str:
    if not values:
        return DEFAULT_TENANT
    try:
        if len(values) == 1:
            return _NAME.validate_python(values[0], strict=True)
    except ValidationError:
        pass
    msg = "must be given once, as 1 to 64 characters of [A-Za-z0-9_.-]"
    raise InvalidRequest(msg, field="metadata.tenant")


def _values(pairs: Iterable[tuple[str, str | bytes]], key: str) -> list[str | bytes]:
    return [value for name, value in pairs if name == key]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
