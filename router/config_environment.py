"""Take settings from environment variables such as ``FASTSLOW_SERVER__PORT``."""

from __future__ import annotations

import difflib
import os
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from router.config_errors import section_of

PREFIX = "FASTSLOW_"
SEPARATOR = "__"
# Names the file; no setting itself.
CONFIG = f"{PREFIX}CONFIG"

# Kubernetes sets these in every pod beside a Service named fastslow or fastslow-something.
_SERVICE_LINK = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_SERVICE_LINK_URL = re.compile(r"(tcp|udp|sctp)://")


def from_environment(model: type[BaseModel], *, over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of ``over`` with those of the variables in their place, not validated.

    Args:
        model: The root of the configuration.
        over: What the file says.
    """
    return _merged(over, _Environment(model)())


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(lower)
    for key, value in upper.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = _merged(below, value)  # noqa: PLW2901 - the same value, completed
        result[key] = value
    return result


class _Environment(EnvSettingsSource):
    """The variables as a source of settings; ``null`` is no value, as in the file.

    What should be JSON and is not stays a string, so that validation reports it together with
    every other mistake.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        # Nothing of a settings class is used but its fields: as one, `Settings` would take keys
        # of the file such as _env_file for orders.
        super().__init__(
            cast("type[BaseSettings]", model),
            env_prefix=PREFIX,
            env_nested_delimiter=SEPARATOR,
            env_parse_none_str="null",
        )

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Return the parsed JSON, or ``value`` as it is."""
        try:
            return super().decode_complex_value(field_name, field, value)
        except (ValueError, RecursionError):
            return value


def variable_of(location: tuple[int | str, ...]) -> str | None:
    """Return the variable that is set and holds the value at ``location``, if there is one."""
    present = {name.upper(): name for name in os.environ}
    for length in range(len(location), 0, -1):
        name = PREFIX + SEPARATOR.join(str(part).upper() for part in location[:length])
        if name in present:
            return present[name]
    return None


def unknown_variables(model: type[BaseModel], content: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each variable with our prefix that names no setting.

    Unknown keys inside a section are left to the validation of the section.

    Args:
        model: The root of the configuration.
        content: What the file says; variables that it reads secrets from are no mistakes.
    """
    known = list(_names(model, PREFIX))
    secrets = set(_secret_variables(content))
    secrets |= {v for name, v in os.environ.items() if name.upper().endswith(f"{SEPARATOR}ENV")}
    for name in sorted(os.environ):
        if not name.upper().startswith(PREFIX) or name.upper() == CONFIG or name in secrets:
            continue
        if _is_setting(name, model) or _is_service_link(name):
            continue
        close = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        yield f"environment variable {name}: no such setting{hint}"


def _is_setting(name: str, model: type[BaseModel]) -> bool:
    section, *inner = name[len(PREFIX) :].lower().split(SEPARATOR)
    field = model.model_fields.get(section)
    if field is None:
        return False
    holds_more = section_of(model, section) is not None or typing.get_origin(field.annotation)
    return not inner or bool(holds_more)


def _is_service_link(name: str) -> bool:
    if name.endswith("_PORT") and _SERVICE_LINK_URL.match(os.environ[name]):
        return True
    return _SERVICE_LINK.fullmatch(name) is not None


def _names(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yield the variable of every setting outside of lists."""
    for key, field in model.model_fields.items():
        section = None if typing.get_origin(field.annotation) is tuple else section_of(model, key)
        if section is None:
            yield prefix + key.upper()
        else:
            yield from _names(section, f"{prefix}{key.upper()}{SEPARATOR}")


def _secret_variables(value: Any) -> Iterator[str]:
    """Yield what stands under a key ``env`` anywhere."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "env" and isinstance(inner, str):
                yield inner
            else:
                yield from _secret_variables(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_variables(inner)
