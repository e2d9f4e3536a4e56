"""Load a custom policy by its name ``package:object``."""

from __future__ import annotations

import importlib
from typing import Any

from router.errors import ConfigError
from router.policy import Policy

_KEY = "policy.implementation"


def load_policy(name: str) -> Policy:
    """Return the object of that name, or an instance of it where it is a class.

    Raises:
        ConfigError: If it cannot be imported, made, or has no ``decide`` method.
    """
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
        policy = found() if isinstance(found, type) else found
    except Exception as error:
        # It is somebody else's code, which may raise anything.
        msg = f"{_KEY}: {name} cannot be loaded: {type(error).__name__}"
        raise ConfigError(msg) from error
    if not isinstance(policy, Policy) or not callable(policy.decide):
        msg = f"{_KEY}: {name} has no method decide(signals)"
        raise ConfigError(msg)
    return policy
