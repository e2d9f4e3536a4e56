"""Find every mistake of a valid configuration that shows without loading a model.

A part refuses by itself what it cannot be made of, so each is made here and thrown away.
Nothing is connected to and no port is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from pydantic import BaseModel

from router.artifact import load_artifact
from router.config import Secret, Settings
from router.errors import ConfigError, RouterError
from router.transport import server_credentials
from router.wiring import (
    check_encoder,
    check_routes,
    fast_upstream,
    make_authenticator,
    make_policy,
    slow_upstream,
)


def check_settings(settings: Settings) -> None:
    """Make sure that the service can be built, as far as that can be known; reads files.

    Raises:
        ConfigError: One line a mistake, each with its key or file.
        ArtifactError: If all that is wrong is a damaged or missing artifact.
    """
    mistakes: dict[str, RouterError] = {}
    for check in _checks(settings):
        try:
            check()
        except RouterError as error:
            # A secret that is missing is told by whatever needs it, too.
            mistakes[str(error)] = error
    if len(mistakes) == 1:
        raise next(iter(mistakes.values()))
    if mistakes:
        raise ConfigError("\n".join(mistakes))


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


def _checks(settings: Settings) -> Iterator[Callable[[], object]]:
    for key, secret in secrets_in(settings):
        yield partial(secret.read, key)
    yield partial(make_authenticator, settings)
    if settings.server.tls is not None:
        yield partial(server_credentials, settings.server.tls)
    yield partial(make_policy, settings)
    yield partial(_fits_the_artifact, settings)
    yield partial(fast_upstream, settings)
    yield partial(_model_file_is_there, settings)
    for index in range(len(settings.slow_tier.upstreams)):
        yield partial(slow_upstream, settings, index)


def _fits_the_artifact(settings: Settings) -> None:
    artifact = load_artifact(settings.encoder.artifact)
    check_encoder(settings, artifact.config)
    check_routes(settings, artifact.routes)


def _model_file_is_there(settings: Settings) -> None:
    text = settings.fast_tier.text
    if text is not None and text.gguf is not None and not text.gguf.is_file():
        msg = f"fast_tier.text.gguf: no file {text.gguf}"
        raise ConfigError(msg)
