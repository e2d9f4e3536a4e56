"""Define the heads: small networks on the pooled states plus the explicit features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from router.encoder import TEMPERATURE_RANGE
from router.features import FEATURE_NAMES
from router.training.examples import ROUTES
from router.training.student import Student


class HeadOutputs(NamedTuple):
    """What the heads say; every tensor's first dimension is the batch."""

    route_logits: torch.Tensor
    strong_gain: torch.Tensor
    temperature: torch.Tensor
    log_tokens_p50: torch.Tensor
    log_tokens_p95: torch.Tensor


def _head(inputs: int, hidden: int, outputs: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(inputs),
        nn.Linear(inputs, hidden),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, outputs),
    )


class Heads(nn.Module):
    """Route, strong gain, sampling temperature and answer length (median and 95 %)."""

    def __init__(self, pooled_dim: int, *, routes: int = len(ROUTES), dropout: float = 0.2) -> None:
        super().__init__()
        inputs = pooled_dim + len(FEATURE_NAMES)
        self.route = _head(inputs, 192, routes, dropout)
        self.gain = _head(inputs, 64, 1, dropout)
        self.temperature = _head(inputs, 64, 1, dropout)
        self.length = _head(inputs, 64, 2, dropout)

    def forward(self, pooled: torch.Tensor, features: torch.Tensor) -> HeadOutputs:
        """Return all heads' outputs for ``(batch, pooled_dim)`` and ``(batch, features)``."""
        inputs = torch.cat([pooled, features], dim=-1)
        low, high = TEMPERATURE_RANGE
        length = self.length(inputs)
        # Softplus keeps the 95 % quantile above the median whatever the weights.
        return HeadOutputs(
            route_logits=self.route(inputs),
            strong_gain=torch.tanh(self.gain(inputs)[:, 0]),
            temperature=low + (high - low) * torch.sigmoid(self.temperature(inputs)[:, 0]),
            log_tokens_p50=length[:, 0],
            log_tokens_p95=length[:, 0] + nn.functional.softplus(length[:, 1]),
        )


class Router(nn.Module):
    """Encoder and heads in one graph, as exported."""

    def __init__(self, student: Student, heads: Heads) -> None:
        super().__init__()
        self.student = student
        self.heads = heads

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, features: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return the heads' outputs and the unit-norm embedding, in the exported order."""
        pooled = self.student.pool(input_ids, attention_mask)
        return (*self.heads(pooled, features), self.student.embed(pooled))
