"""Find the secrets a configuration refers to."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from router.config import Secret


def secrets_in(value: object, key: str = "") -> Iterator[tuple[str, Secret]]:
    """Yield every secret below ``value`` with its dotted key, e.g. ``auth.tokens[0].token``."""
    if isinstance(value, Secret):
        yield key, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from secrets_in(getattr(value, name), f"{key}.{name}" if key else name)
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from secrets_in(item, f"{key}[{position}]")


def origin(secret: Secret) -> str:
    """Return where the secret is read from, in words."""
    return f"environment variable {secret.env}" if secret.env else f"file {secret.file}"
