"""Turn the route head's logits into probabilities that mean what they say.

Temperature scaling with a bias per class: one scalar and one vector fitted on held-out
prompts. Source: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017,
arXiv:1706.04599, section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCalibration:
    """Fitted calibration of the route head.

    Attributes:
        routes: Route names in the order of the logits; unique, at least two.
        temperature: Divisor of the logits, > 0; above 1 the head was over-confident.
        bias: Added to the scaled logits, one a route, natural-log scale.
    """

    routes: tuple[str, ...]
    temperature: float = 1.0
    bias: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.routes) < 2 or len(set(self.routes)) != len(self.routes):
            msg = f"routes: need at least two distinct names, got {list(self.routes)}"
            raise ValueError(msg)
        if not (math.isfinite(self.temperature) and self.temperature > 0.0):
            msg = f"temperature must be finite and > 0, got {self.temperature}"
            raise ValueError(msg)
        if not self.bias:
            object.__setattr__(self, "bias", (0.0,) * len(self.routes))
        if len(self.bias) != len(self.routes) or not all(map(math.isfinite, self.bias)):
            msg = f"bias: need {len(self.routes)} finite numbers, got {list(self.bias)}"
            raise ValueError(msg)


def route_probabilities(
    logits: NDArray[np.float32],
    calibration: RouteCalibration,
    *,
    masked: Collection[str] = (),
) -> Mapping[str, float]:
    """Return the calibrated probability of every route that is not masked.

    Args:
        logits: Shape ``(routes,)``; natural-log scale, not normalised.
        calibration: Calibration fitted for the head that produced ``logits``.
        masked: Routes that cannot apply; the rest is renormalised.

    Returns:
        Probability in [0, 1] by route name, in the calibration's order; they sum to 1.

    Raises:
        ValueError: If shapes disagree, a logit is not finite or no route is left.
    """
    if logits.shape != (len(calibration.routes),):
        msg = f"logits must have shape ({len(calibration.routes)},), got {logits.shape}"
        raise ValueError(msg)
    if not np.isfinite(logits).all():
        msg = "logits must be finite"
        raise ValueError(msg)
    kept = [i for i, name in enumerate(calibration.routes) if name not in masked]
    if not kept:
        msg = f"every route is masked: {sorted(masked)}"
        raise ValueError(msg)
    scaled = logits.astype(np.float64) / calibration.temperature + np.asarray(calibration.bias)
    scaled = scaled[kept]
    # exp overflows above ~709; softmax is unchanged by a shift.
    exponentials = np.exp(scaled - scaled.max())
    shares = exponentials / exponentials.sum()
    return {calibration.routes[i]: float(p) for i, p in zip(kept, shares, strict=True)}
