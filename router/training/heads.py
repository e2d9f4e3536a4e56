"""Define the heads: small networks on the pooled states plus the explicit features."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from router.encoder import TEMPERATURE_RANGE
from router.features import FEATURE_NAMES
from router.training.example import ROUTES
from router.training.student import Pooled, Student

if TYPE_CHECKING:
    from collections.abc import Sequence

MATCH_DIM = 32
GIST_DIM = 32
_FAR_BELOW = -1e4
# Deviations below are rounding: the mean of equal float32 values is not quite the value.
_CONSTANT = 1e-5


class HeadOutputs(NamedTuple):
    """What the heads say.

    Attributes:
        route_members: Logits of every member of the route ensemble, shape
            ``(members, batch, routes)``; their mean is what is served.
        strong_gain: Expected strong minus weak score in [-1, 1], shape ``(batch,)``.
        temperature: Sampling temperature in [0.1, 1.5], shape ``(batch,)``.
        log_tokens_p50: Natural logarithm of the answer's tokens, median, shape ``(batch,)``.
        log_tokens_p95: The same, 95 % quantile.
    """

    route_members: torch.Tensor
    strong_gain: torch.Tensor
    temperature: torch.Tensor
    log_tokens_p50: torch.Tensor
    log_tokens_p95: torch.Tensor


def _head(inputs: int, hidden: int, outputs: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Dropout(0.1),
        nn.Linear(inputs, hidden),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, outputs),
    )


class Standardised(nn.Module):
    """Inputs shifted and scaled to mean 0 and deviation 1 on the training rows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mean: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def fit(self, rows: torch.Tensor) -> None:
        """Take mean and deviation from ``rows``, shape ``(rows, width)``."""
        self.mean.copy_(rows.mean(dim=0))
        deviation = rows.std(dim=0)
        # What never varies here must not explode when it once does: a flag of 0 or 1 that is
        # new would else be 100 deviations away.
        constant = deviation < _CONSTANT
        self.scale.copy_(deviation.clamp(min=1e-2).masked_fill(constant, 1.0))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the rows standardised."""
        return (rows - self.mean) / self.scale


class ToolMatch(nn.Module):
    """How well the best of the offered tools fits the text.

    Every tool is compared with the text alone, and each compared trait is the best over the
    tools, so neither their number nor their order matters (Zaheer et al., "Deep Sets",
    arXiv:1703.06114, section 2).
    """

    def __init__(self, hidden: int, embedding_dim: int) -> None:
        super().__init__()
        self.text = nn.Linear(hidden, 64)
        self.tool = nn.Linear(hidden, 64)
        self.traits = nn.Sequential(
            nn.LayerNorm(64 + embedding_dim + 1), nn.Linear(64 + embedding_dim + 1, MATCH_DIM)
        )

    def forward(self, student: Student, pooled: Pooled) -> torch.Tensor:
        """Return traits and cosine of the best tool, ``(batch, MATCH_DIM + 1)``; 0 = no tool."""
        text, tools = student.embed(pooled.text).unsqueeze(1), student.embed(pooled.tools)
        product = text * tools
        cosine = product.sum(dim=-1, keepdim=True)
        compared = torch.cat(
            [self.text(pooled.text).unsqueeze(1) * self.tool(pooled.tools), product, cosine], dim=-1
        )
        offered = pooled.offered.unsqueeze(-1)
        values = torch.cat([self.traits(compared), cosine], dim=-1)
        best = (values * offered + _FAR_BELOW * (1.0 - offered)).amax(dim=1)
        return best * offered.amax(dim=1)


class RouteEnsemble(nn.Module):
    """Route heads whose logits are averaged.

    Deep ensembles (Lakshminarayanan et al., arXiv:1612.01474, section 2.4) are better
    calibrated than their members. Half of them see the text through a narrow bottleneck,
    which keeps the gist and loses the subject: alone they are worse on subjects they know
    and better on those they do not.
    """

    def __init__(
        self, hidden: int, embedding_dim: int, *, routes: int, members: int, dropout: float
    ) -> None:
        super().__init__()
        rest = len(FEATURE_NAMES) + MATCH_DIM + 1
        narrow = range(members // 2)
        self.bottlenecks = nn.ModuleList([nn.Linear(embedding_dim, GIST_DIM) for _ in narrow])
        self.narrow = nn.ModuleList([_head(GIST_DIM + rest, 128, routes, dropout) for _ in narrow])
        wide = range(members - members // 2)
        self.wide = nn.ModuleList([_head(hidden + rest, 192, routes, dropout) for _ in wide])

    def forward(
        self, text: torch.Tensor, embedding: torch.Tensor, rest: torch.Tensor
    ) -> torch.Tensor:
        """Return every member's logits, shape ``(members, batch, routes)``."""
        narrow = [
            head(torch.cat([bottleneck(embedding), rest], dim=-1))
            for bottleneck, head in zip(self.bottlenecks, self.narrow, strict=True)
        ]
        wide = [head(torch.cat([text, rest], dim=-1)) for head in self.wide]
        return torch.stack([*narrow, *wide])

    def change_routes(self, old: Sequence[str], new: Sequence[str]) -> None:
        """Give every member a last layer for ``new``; names also in ``old`` keep their weights."""
        for head in (*self.narrow, *self.wide):
            before, after = head[-1], nn.Linear(head[-1].in_features, len(new))
            with torch.no_grad():
                for index, name in enumerate(new):
                    if name in old:
                        after.weight[index] = before.weight[old.index(name)]
                        after.bias[index] = before.bias[old.index(name)]
            head[-1] = after


class Heads(nn.Module):
    """Routes, strong gain, sampling temperature and answer length (median and 95 %)."""

    def __init__(
        self,
        hidden: int,
        embedding_dim: int,
        *,
        routes: int = len(ROUTES),
        members: int = 6,
        dropout: float = 0.4,
    ) -> None:
        super().__init__()
        inputs = hidden + len(FEATURE_NAMES)
        self.text = Standardised(hidden)
        self.features = Standardised(len(FEATURE_NAMES))
        self.match = ToolMatch(hidden, embedding_dim)
        self.route = RouteEnsemble(
            hidden, embedding_dim, routes=routes, members=members, dropout=dropout
        )
        self.gain = _head(inputs, 128, 1, dropout)
        self.temperature = _head(inputs, 64, 1, dropout)
        self.length = _head(inputs, 64, 2, dropout)

    def forward(self, student: Student, pooled: Pooled, features: torch.Tensor) -> HeadOutputs:
        """Return all heads' outputs; ``features`` has shape ``(batch, features)``."""
        text, features = self.text(pooled.text), self.features(features)
        inputs = torch.cat([text, features], dim=-1)
        # A unit vector's coordinates are small; this makes their deviation about 1.
        embedding = student.embed(pooled.text) * student.embedding_dim**0.5
        rest = torch.cat([features, self.match(student, pooled)], dim=-1)
        members = self.route(text, embedding, rest)
        low, high = TEMPERATURE_RANGE
        length = self.length(inputs)
        # Softplus keeps the 95 % quantile above the median whatever the weights.
        return HeadOutputs(
            route_members=members,
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
        members, *others = self.heads(self.student, pooled, features)
        return members.mean(dim=0), *others, self.student.embed(pooled.text)
