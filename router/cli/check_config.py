"""Show what a configuration comes to: the command ``check-config``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.cli.console import (
    ConfigOption,
    ExitCode,
    JsonOption,
    fail,
    mistakes_reported,
    print_json,
)

if TYPE_CHECKING:
    from router.config import Settings


def check_config(config: ConfigOption = None, *, as_json: JsonOption = False) -> None:
    """Validate the configuration, read its secrets, print what is in effect.

    Secrets are shown as the variable or file they are read from, never as values.
    No model is loaded and nothing is connected to; doctor does that.

    Example: python -m router check-config --config fastslow.yaml
    """
    from router.cli.secret_sources import origin, secrets_in
    from router.config import load_settings
    from router.errors import ConfigError

    with mistakes_reported():
        settings = load_settings(config)
    secrets = dict(secrets_in(settings))
    mistakes: list[str] = []
    for key, secret in secrets.items():
        try:
            secret.read(key)
        except ConfigError as error:
            mistakes.append(str(error))
    if mistakes:
        fail("\n".join(mistakes), ExitCode.USAGE)
    with mistakes_reported():
        _check_parts(settings)
    if as_json:
        sources = {key: origin(secret) for key, secret in secrets.items()}
        print_json(
            {"revision": settings.revision, "secrets": sources, "settings": settings.public()}
        )
        return
    import typer
    import yaml

    typer.echo(yaml.safe_dump(settings.public(), sort_keys=False, allow_unicode=True), nl=False)
    for key, secret in secrets.items():
        typer.echo(f"# {key}: read from the {origin(secret)}")
    typer.echo(f"# revision: {settings.revision}")


def _check_parts(settings: Settings) -> None:
    """Make what shows mistakes only when it is made, models aside; nothing is opened.

    Raises:
        ConfigError: Naming the setting.
    """
    import asyncio

    from router.clock import Clock
    from router.transport import server_credentials
    from router.wiring import make_authenticator, make_fast_tier, make_slow_tier

    async def make() -> None:
        make_authenticator(settings)
        if settings.server.tls is not None:
            server_credentials(settings.server.tls)
        tiers = [make_slow_tier(settings, Clock())]
        if settings.fast_tier.text is not None and settings.fast_tier.text.gguf is None:
            tiers.append(make_fast_tier(settings, Clock()))
        for loaded in tiers:
            if loaded is not None:
                await loaded.close()

    asyncio.run(make())
