"""Fit the heads on the frozen encoder's pooled states."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm import tqdm

from router.domain import EncoderInput
from router.training.batches import length_batches, pad
from router.training.example import ROUTES, Example
from router.training.feeds import tokenised
from router.training.heads import HeadOutputs, Heads
from router.training.student import Pooled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from router.tokens import InputTokenizer
    from router.training.student import Student

QUANTILES = (0.5, 0.95)
_FAR_BELOW = -1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the heads read of every row.

    Attributes:
        text: Mean states of the texts, shape ``(rows, hidden)``, float32.
        tools: Mean states of all offered tools back to back, shape ``(tools, hidden)``.
        ends: Where each row's tools end in ``tools``, shape ``(rows,)``, int64.
        features: Shape ``(rows, features)``, float32.
    """

    text: NDArray[np.float32]
    tools: NDArray[np.float32]
    ends: NDArray[np.int64]
    features: NDArray[np.float32]

    def batch(self, rows: NDArray[np.int64]) -> tuple[Pooled, torch.Tensor]:
        """Return pooled states and features of the chosen rows."""
        starts = np.concatenate([[0], self.ends[:-1]])
        counts = (self.ends - starts)[rows]
        # At least one column, so that the tools are never an empty axis.
        tools = np.zeros((len(rows), max(1, counts.max()), self.tools.shape[1]), np.float32)
        offered = np.zeros(tools.shape[:2], np.float32)
        for i, (row, count) in enumerate(zip(rows, counts, strict=True)):
            tools[i, :count] = self.tools[starts[row] : self.ends[row]]
            offered[i, :count] = 1.0
        pooled = Pooled(
            torch.from_numpy(self.text[rows]), torch.from_numpy(tools), torch.from_numpy(offered)
        )
        return pooled, torch.from_numpy(self.features[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """What a fit depends on.

    Attributes:
        lr: Learning rate (AdamW). Far above the 2e-5 of full fine-tuning, since only the
            heads train.
        weight_decay: Decoupled weight decay.
        batch_rows: Rows a step.
        max_epochs: Upper limit of passes over the rows.
        patience: Epochs without a better dev loss before stopping.
        seed: Seeds initialisation and shuffling.
    """

    lr: float = 5e-4
    weight_decay: float = 0.05
    batch_rows: int = 128
    max_epochs: int = 40
    patience: int = 4
    seed: int = 0


def pooled_inputs(
    student: Student,
    tokenizer: InputTokenizer,
    items: Sequence[EncoderInput],
    *,
    cache: Path,
    device: str,
) -> Inputs:
    """Return the frozen encoder's view of ``items``, computed once and kept in ``cache``."""
    identity = hashlib.sha256()
    for parameter in student.state_dict().values():
        identity.update(parameter.cpu().numpy().tobytes())
    tokens = tokenised(tokenizer, items)
    identity.update(tokens.lengths.tobytes() + tokens.features.tobytes())
    for ids in tokens.ids:
        identity.update(ids.tobytes())
    path = cache / f"pooled-{identity.hexdigest()[:20]}.npz"
    if path.exists():
        with np.load(path) as arrays:
            return Inputs(**arrays)
    texts: dict[int, NDArray[np.float32]] = {}
    tools: dict[int, NDArray[np.float32]] = {}
    student.eval()
    batches = length_batches(tokens.lengths, batch_tokens=4096, max_rows=128, seed=0)
    kind = device.split(":", maxsplit=1)[0]
    with torch.inference_mode(), torch.autocast(kind, dtype=torch.bfloat16):
        for chosen in tqdm(batches, desc="pooled states", unit="batch", disable=None):
            ids, mask = pad([tokens.ids[i] for i in chosen], device)
            pooled = Pooled(*(t.float().cpu() for t in student.pool(ids, mask)))
            for i, row in enumerate(chosen):
                texts[row] = pooled.text[i].numpy()
                tools[row] = pooled.tools[i][pooled.offered[i] > 0].numpy()
    order = range(len(items))
    inputs = Inputs(
        text=np.stack([texts[i] for i in order]),
        tools=np.concatenate([tools[i] for i in order]),
        ends=np.cumsum([len(tools[i]) for i in order]),
        features=tokens.features,
    )
    cache.mkdir(parents=True, exist_ok=True)
    arrays = {name: getattr(inputs, name) for name in ("text", "tools", "ends", "features")}
    np.savez(path, **arrays)
    return inputs


def inputs_of(examples: Sequence[Example]) -> list[EncoderInput]:
    """Return what the encoder reads of each example."""
    return [EncoderInput(text=example.text, tools=example.tools) for example in examples]


class Labels:
    """The labels of all rows as tensors; NaN and all-false rows mean "no label".

    Args:
        examples: The rows.
        routes: Names in the order of the logits; soft labels need fast and slow among them.
    """

    def __init__(self, examples: Sequence[Example], *, routes: Sequence[str] = ROUTES) -> None:
        self.routes = tuple(routes)
        allowed = [[name in e.routes for name in routes] for e in examples]
        self.allowed = torch.tensor(allowed, dtype=torch.bool)
        p_fast = torch.tensor([e.p_fast for e in examples], dtype=torch.float32)
        self.soft = ~p_fast.isnan()
        # No loss may be infinite or NaN: even where it is not taken its gradient would spoil all.
        self.p_fast = p_fast.nan_to_num(0.5)
        self.route_weight = torch.tensor([e.weight if e.routes else 0.0 for e in examples])
        self.gain = torch.tensor([e.gain for e in examples], dtype=torch.float32)
        self.temperature = torch.tensor([e.temperature for e in examples], dtype=torch.float32)
        self.log_tokens = torch.tensor([e.log_tokens for e in examples], dtype=torch.float32)


def route_loss(log_p: torch.Tensor, labels: Labels, rows: torch.Tensor) -> torch.Tensor:
    """Return the weighted mean loss of log-probabilities ``(batch, routes)``.

    With a soft label: cross-entropy to it, fast against slow. Otherwise: negative log of the
    probability mass on the routes that would be right. Rows without a label count nothing.
    """
    loss = -log_p.masked_fill(~labels.allowed[rows], _FAR_BELOW).logsumexp(dim=-1)
    if labels.soft.any():
        fast, slow = (log_p[:, labels.routes.index(name)] for name in ("fast", "slow"))
        p_fast = labels.p_fast[rows]
        soft = -(p_fast * fast + (1.0 - p_fast) * slow)
        loss = torch.where(labels.soft[rows], soft, loss)
    weight = labels.route_weight[rows]
    return (loss * weight).sum() / weight.sum().clamp(min=1e-6)


def heads_loss(outputs: HeadOutputs, labels: Labels, rows: torch.Tensor) -> torch.Tensor:
    """Return the summed loss of the labels that are there.

    Routes: mean of the members' losses, so that members stay different. Gain and
    temperature: squared error. Length: pinball loss at the median and the 95 % quantile
    (Koenker & Bassett, Econometrica 1978).
    """
    members = torch.log_softmax(outputs.route_members, dim=-1)
    total = torch.stack([route_loss(log_p, labels, rows) for log_p in members]).mean()
    for predicted, wanted in (
        (outputs.strong_gain, labels.gain[rows]),
        (outputs.temperature, labels.temperature[rows]),
    ):
        known = ~wanted.isnan()
        if known.any():
            total = total + (predicted[known] - wanted[known]).square().mean()
    wanted = labels.log_tokens[rows]
    known = ~wanted.isnan()
    if known.any():
        for quantile, predicted in zip(
            QUANTILES, (outputs.log_tokens_p50, outputs.log_tokens_p95), strict=True
        ):
            error = wanted[known] - predicted[known]
            total = total + 0.5 * torch.maximum(quantile * error, (quantile - 1) * error).mean()
    return total


def fit_heads(
    student: Student, examples: Sequence[Example], inputs: Inputs, settings: FitSettings
) -> tuple[Heads, list[float]]:
    """Return the heads of the epoch with the lowest dev loss, and every epoch's dev loss."""
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    labels = Labels(examples)
    train = np.flatnonzero([e.split == "train" for e in examples])
    dev = np.flatnonzero([e.split == "dev" for e in examples])
    heads = Heads(inputs.text.shape[1], student.embedding_dim)
    heads.text.fit(torch.from_numpy(inputs.text[train]))
    heads.features.fit(torch.from_numpy(inputs.features[train]))
    optimiser = torch.optim.AdamW(
        heads.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    student.requires_grad_(requires_grad=False)
    best, best_state, stale = float("inf"), heads.state_dict(), 0
    history: list[float] = []
    for _ in tqdm(range(settings.max_epochs), desc="heads", unit="epoch"):
        heads.train()
        order = rng.permutation(train)
        for start in range(0, len(order), settings.batch_rows):
            rows = order[start : start + settings.batch_rows]
            loss = heads_loss(heads(student, *inputs.batch(rows)), labels, torch.from_numpy(rows))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(heads.parameters(), 1.0)
            optimiser.step()
        heads.eval()
        with torch.inference_mode():
            value = float(
                heads_loss(heads(student, *inputs.batch(dev)), labels, torch.from_numpy(dev))
            )
        history.append(value)
        if value < best - 1e-4:
            best, stale = value, 0
            best_state = {name: tensor.clone() for name, tensor in heads.state_dict().items()}
        else:
            stale += 1
            if stale >= settings.patience:
                break
    heads.load_state_dict(best_state)
    heads.eval()
    return heads, history


def predict(student: Student, heads: Heads, inputs: Inputs, rows: NDArray[np.int64]) -> HeadOutputs:
    """Return what the heads say of the chosen rows."""
    with torch.inference_mode():
        parts = [
            heads(student, *inputs.batch(part))
            for part in np.array_split(rows, -(-len(rows) // 512))
        ]
    members, *others = (list(values) for values in zip(*parts, strict=True))
    return HeadOutputs(torch.cat(members, dim=1), *(torch.cat(v) for v in others))
