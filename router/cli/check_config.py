"""Show what a configuration comes to: the command ``check-config``."""

from __future__ import annotations

from router.cli.console import ConfigOption, JsonOption, mistakes_reported, print_json


def check_config(config: ConfigOption = None, *, as_json: JsonOption = False) -> None:
    """Validate the configuration with the files it names, print what is in effect.

    Secrets are shown as the variable or file they are read from, never as values.
    No model is loaded and nothing is connected to; doctor does that.

    Example: python -m router check-config --config fastslow.yaml
    """
    from router.config import load_settings
    from router.preflight import check_settings, secrets_in

    with mistakes_reported():
        settings = load_settings(config)
        check_settings(settings)
    secrets = dict(secrets_in(settings))
    if as_json:
        sources = {key: secret.origin for key, secret in secrets.items()}
        print_json(
            {"revision": settings.revision, "secrets": sources, "settings": settings.public()}
        )
        return
    import typer
    import yaml

    typer.echo(yaml.safe_dump(settings.public(), sort_keys=False, allow_unicode=True), nl=False)
    for key, secret in secrets.items():
        typer.echo(f"# {key}: read from the {secret.origin}")
    typer.echo(f"# revision: {settings.revision}")
