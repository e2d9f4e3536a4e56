"""Fit on the dev part what turns head outputs into decisions one can trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from router.training.example import ROUTES, Example

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

SHRINKAGE = 0.05


def fit_calibration(
    logits: NDArray[np.float32], examples: Sequence[Example]
) -> tuple[float, tuple[float, ...]]:
    """Return temperature and bias a route, by maximum likelihood on rows with route labels.

    First temperature and the fast-slow bias on rows that need no tool, with the tool route
    masked as the service masks it; then the tool bias on all rows with those fixed. The
    order keeps P(fast) calibrated for callers that offer no tools, whatever the tool rows
    look like.

    Args:
        logits: Shape ``(rows, 3)``.
        examples: As many rows, with split ``dev``.

    Raises:
        ValueError: If there are no rows of either kind.
    """
    decided = [i for i, e in enumerate(examples) if e.gain == e.gain and len(e.routes) == 1]
    labelled = [i for i, e in enumerate(examples) if e.routes]
    if not decided or not labelled:
        msg = "calibration needs dev rows with scores and with route labels"
        raise ValueError(msg)
    values = torch.from_numpy(logits).double()
    fast = torch.tensor([examples[i].routes == {"fast"} for i in decided]).double()
    log_temperature = torch.zeros((), dtype=torch.float64, requires_grad=True)
    margin = torch.zeros((), dtype=torch.float64, requires_grad=True)
    difference = values[decided, 0] - values[decided, 1]

    def fast_loss() -> torch.Tensor:
        scaled = difference / log_temperature.exp() + margin
        return torch.nn.functional.binary_cross_entropy_with_logits(scaled, fast)

    _minimise(fast_loss, [log_temperature, margin])
    temperature = float(log_temperature.exp().detach())
    base = values[labelled] / temperature
    half = float(margin.detach()) / 2.0
    allowed = torch.tensor([[n in examples[i].routes for n in ROUTES] for i in labelled])
    weight = torch.tensor([examples[i].weight for i in labelled]).double()
    tool_bias = torch.zeros((), dtype=torch.float64, requires_grad=True)

    def tool_loss() -> torch.Tensor:
        bias = torch.stack([torch.tensor(half).double(), torch.tensor(-half).double(), tool_bias])
        log_p = torch.log_softmax(base + bias, dim=-1)
        mass = log_p.masked_fill(~allowed, -torch.inf).logsumexp(dim=-1)
        return -(mass * weight).sum() / weight.sum()

    _minimise(tool_loss, [tool_bias])
    return temperature, (half, -half, float(tool_bias.detach()))


def fit_route_calibration(
    logits: NDArray[np.float32], labels: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[float, tuple[float, ...]]:
    """Return temperature and bias a route for any number of routes, without masking.

    Most likely values under a unit normal prior on the biases and the logarithm of the
    temperature, which keeps both finite on rows that the routes separate perfectly.

    Args:
        logits: Shape ``(rows, routes)``.
        labels: Index of each row's route, shape ``(rows,)``.
        weights: How much each row counts, > 0, shape ``(rows,)``.
    """
    values, wanted = torch.from_numpy(logits).double(), torch.from_numpy(labels)
    weight = torch.from_numpy(weights).double() * (len(labels) / weights.sum())
    log_temperature = torch.zeros((), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(logits.shape[1], dtype=torch.float64, requires_grad=True)

    def loss() -> torch.Tensor:
        scaled = values / log_temperature.exp() + bias
        rows = torch.nn.functional.cross_entropy(scaled, wanted, reduction="none")
        prior = 0.5 * (log_temperature.square() + bias.square().sum())
        return ((rows * weight).sum() + prior) / len(labels)

    _minimise(loss, [log_temperature, bias])
    return float(log_temperature.exp().detach()), tuple(bias.detach().tolist())


def fit_detector(
    seen: NDArray[np.float32], dev: NDArray[np.float32], *, false_alarm_rate: float
) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """Return mean, whitening and threshold (> 0) of the Mahalanobis detector.

    Args:
        seen: Training inputs, shape ``(rows, dim)``.
        dev: Held-out inputs of the same kind.
        false_alarm_rate: Share of ``dev`` that may lie above the threshold, in (0, 1).
    """
    mean = seen.mean(axis=0, dtype=np.float64)
    centred = seen.astype(np.float64) - mean
    covariance = centred.T @ centred / len(seen)
    # Constant and collinear features would make the inverse explode.
    variances = np.maximum(np.diag(covariance), 1e-6)
    covariance = (1.0 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(variances)
    covariance[np.diag_indices_from(covariance)] += 1e-6
    whitening = np.linalg.cholesky(np.linalg.inv(covariance))
    distances = np.sqrt(np.square((dev - mean) @ whitening).mean(axis=1))
    # Rows that all look the same are all at distance 0, which still is one of them.
    threshold = max(1e-6, float(np.quantile(distances, 1.0 - false_alarm_rate)))
    return mean.astype(np.float32), whitening.astype(np.float32), threshold


def _minimise(loss: Callable[[], torch.Tensor], parameters: list[torch.Tensor]) -> None:
    optimiser = torch.optim.LBFGS(parameters, max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    optimiser.step(closure)
