"""Use a policy that an operator wrote, named ``package:object``, without trusting it.

It may raise anything, even what ends a process, or return anything. Whatever goes wrong at start is
a `ConfigError`; later it is a `PolicyFailed` of the one request. No other policy takes over then: a
caller could not tell such decisions from those that the operator wanted.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import structlog

from router.domain import Tier
from router.errors import ConfigError, PolicyFailed
from router.logs import exception_chain
from router.policy import Policy, Signals, Verdict

_KEY = "policy.implementation"

_log = structlog.get_logger(__name__)


class CustomPolicy:
    """An operator's policy whose verdicts are checked.

    Args:
        policy: Decides.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, signals: Signals) -> Verdict:
        """Return the policy's verdict.

        Raises:
            PolicyFailed: If there is none that a request can be routed by.
        """
        try:
            with _foreign_code():
                return _checked(self._policy.decide(signals), signals)
        except _Failed as error:
            _log.error("policy_failed", setting=_KEY, exceptions=exception_chain(error))
            msg = f"the configured policy gave no verdict: {error}"
            raise PolicyFailed(msg, setting=_KEY) from error


def load_policy(name: str, *, tiers: Mapping[str, Tier]) -> CustomPolicy:
    """Return the object of that name, or an instance of it where it is a class, tried once.

    Args:
        name: ``package:object``.
        tiers: Tier by route name, as configured.

    Raises:
        ConfigError: If it cannot be imported, made, has no ``decide`` method, or fails on
            ordinary signals.
    """
    module_name, _, path = name.partition(":")
    try:
        with _foreign_code():
            found: Any = importlib.import_module(module_name)
            for part in path.split("."):
                found = getattr(found, part)
            policy = found() if isinstance(found, type) else found
    except _Failed as error:
        msg = f"{_KEY}: {name} cannot be loaded: {error}"
        raise ConfigError(msg) from error
    if not isinstance(policy, Policy) or not callable(policy.decide):
        msg = f"{_KEY}: {name} has no method decide(signals)"
        raise ConfigError(msg)
    for signals in _ordinary_signals(tiers):
        try:
            with _foreign_code():
                _checked(policy.decide(signals), signals)
        except _Failed as error:
            msg = f"{_KEY}: {name} fails on ordinary signals: {error}"
            raise ConfigError(msg) from error
    return CustomPolicy(policy)


class _Failed(Exception):  # noqa: N818 - says what happened to whom
    """Foreign code did not do what it should."""


@contextmanager
def _foreign_code() -> Iterator[None]:
    """Turn whatever foreign code raises into `_Failed`, which names its type alone."""
    try:
        yield
    except (KeyboardInterrupt, _Failed):
        raise
    except BaseException as error:
        raise _Failed(type(error).__name__) from error


def _checked(verdict: object, signals: Signals) -> Verdict:
    if not isinstance(verdict, Verdict):
        close = getattr(verdict, "close", None)
        if callable(close):
            close()  # a coroutine would warn that nobody awaited it
        msg = f"decide returned a {type(verdict).__name__}, not a Verdict"
        raise _Failed(msg)
    if verdict.route not in signals.probabilities:
        msg = "the verdict's route is none of the signals' probabilities"
        raise _Failed(msg)
    if verdict.tier is Tier.TOOL and Tier.TOOL not in map(signals.tiers.get, signals.probabilities):
        msg = "the verdict's tier is TOOL where no route is one"
        raise _Failed(msg)
    return verdict


def _ordinary_signals(tiers: Mapping[str, Tier]) -> Iterator[Signals]:
    """Yield signals as requests give them: each route ahead, no tools, then the special cases."""
    for ahead in tiers:
        rest = 0.1 / (len(tiers) - 1)
        probabilities = {name: 0.9 if name == ahead else rest for name in tiers}
        yield Signals(probabilities=probabilities, tiers=tiers, threshold=0.5)
    plain = [name for name, tier in tiers.items() if tier is not Tier.TOOL] or list(tiers)
    even = Signals(
        probabilities={name: 1.0 / len(plain) for name in plain}, tiers=tiers, threshold=0.5
    )
    yield even
    yield replace(even, typed=True)
    yield replace(even, truncated=True, language_known=False, in_distribution=False)
    yield replace(even, remaining_s=0.5, slow_floor_s=1.0)
    yield replace(even, max_cost_usd=0.01, slow_cost_usd=0.02, min_quality=0.9)
