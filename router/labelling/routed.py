"""Say where a trained artifact would send the labelled prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from router.laya_router import LayaRouter

# Sent slow whatever the probabilities say, see router.policy.
_ABSTENTIONS = frozenset({"INPUT_TRUNCATED", "ABSTAINED_LANGUAGE", "ABSTAINED_OUT_OF_DISTRIBUTION"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedPrompts:
    """Decisions of an artifact.

    Attributes:
        p_fast: Shape ``(prompts,)``, float64; calibrated P(fast), -1 where it abstains.
        fast: Shape ``(prompts,)``, bool; sent fast at the artifact's own threshold.
    """

    p_fast: NDArray[np.float64]
    fast: NDArray[np.bool_]


def route_prompts(router: LayaRouter, texts: Sequence[str]) -> RoutedPrompts:
    """Return the decision for each text; blocks while they are computed."""
    routed = router.route_many(texts)
    return RoutedPrompts(
        p_fast=np.array(
            [
                -1.0 if each.reason in _ABSTENTIONS else each.probabilities.get("fast", 0.0)
                for each in routed
            ]
        ),
        fast=np.array([each.tier == "fast" for each in routed]),
    )
