"""Fit the heads on the frozen encoder's pooled states."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm import tqdm

from router.domain import EncoderInput
from router.features import explicit_features
from router.training.batches import length_batches, pad
from router.training.examples import ROUTES, Example
from router.training.heads import HeadOutputs, Heads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from router.tokens import InputTokenizer
    from router.training.student import Student

QUANTILES = (0.5, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the heads read: pooled states ``(rows, pooled)`` and features ``(rows, features)``."""

    pooled: NDArray[np.float32]
    features: NDArray[np.float32]


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
    for item in items:
        identity.update(repr((item.text, item.tools)).encode())
    path = cache / f"pooled-{identity.hexdigest()[:20]}.npz"
    if path.exists():
        with np.load(path) as arrays:
            return Inputs(pooled=arrays["pooled"], features=arrays["features"])
    rows = [tokenizer.row(item) for item in items]
    features = np.stack(
        [
            explicit_features(
                item.text, item.tools, tokens=row.text_tokens, unknown_tokens=row.unknown_tokens
            )
            for item, row in zip(items, rows, strict=True)
        ]
    )
    lengths = np.asarray([len(row.ids) for row in rows], dtype=np.int64)
    pooled: NDArray[np.float32] | None = None
    student.eval()
    batches = length_batches(lengths, batch_tokens=4096, max_rows=128, seed=0)
    with torch.inference_mode():
        for chosen in tqdm(batches, desc="pooled states", unit="batch"):
            ids, mask = pad([rows[i].ids.astype(np.int32) for i in chosen], device)
            states = student.pool(ids, mask).float().cpu().numpy()
            if pooled is None:
                pooled = np.zeros((len(rows), states.shape[1]), dtype=np.float32)
            pooled[chosen] = states
    assert pooled is not None
    cache.mkdir(parents=True, exist_ok=True)
    np.savez(path, pooled=pooled, features=features)
    return Inputs(pooled=pooled, features=features)


def inputs_of(examples: Sequence[Example]) -> list[EncoderInput]:
    """Return what the encoder reads of each example."""
    return [EncoderInput(text=example.text, tools=example.tools) for example in examples]


class _Labels:
    """The labels of all rows as tensors; NaN and all-false rows mean "no label"."""

    def __init__(self, examples: Sequence[Example]) -> None:
        allowed = [[name in e.routes for name in ROUTES] for e in examples]
        self.allowed = torch.tensor(allowed, dtype=torch.bool)
        self.weight = torch.tensor([e.weight for e in examples])
        self.gain = torch.tensor([e.gain for e in examples], dtype=torch.float32)
        self.temperature = torch.tensor([e.temperature for e in examples], dtype=torch.float32)
        self.log_tokens = torch.tensor([e.log_tokens for e in examples], dtype=torch.float32)


def heads_loss(outputs: HeadOutputs, labels: _Labels, rows: torch.Tensor) -> torch.Tensor:
    """Return the summed loss of the labels that are there.

    Route: negative log of the probability mass on the routes that would be right. Gain and
    temperature: squared error. Length: pinball loss at the median and the 95 % quantile
    (Koenker & Bassett, Econometrica 1978).
    """
    total = outputs.route_logits.new_zeros(())
    allowed = labels.allowed[rows]
    has_route = allowed.any(dim=-1)
    if has_route.any():
        log_p = torch.log_softmax(outputs.route_logits[has_route], dim=-1)
        mass = log_p.masked_fill(~allowed[has_route], -torch.inf).logsumexp(dim=-1)
        weight = labels.weight[rows][has_route]
        total = total - (mass * weight).sum() / weight.sum()
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
    examples: Sequence[Example], inputs: Inputs, settings: FitSettings
) -> tuple[Heads, list[float]]:
    """Return the heads of the epoch with the lowest dev loss, and every epoch's dev loss."""
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    pooled = torch.from_numpy(inputs.pooled)
    features = torch.from_numpy(inputs.features)
    labels = _Labels(examples)
    train = np.flatnonzero([e.split == "train" for e in examples])
    dev = torch.from_numpy(np.flatnonzero([e.split == "dev" for e in examples]))
    heads = Heads(pooled.shape[1])
    optimiser = torch.optim.AdamW(
        heads.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    best, best_state, stale = float("inf"), heads.state_dict(), 0
    history: list[float] = []
    for _ in tqdm(range(settings.max_epochs), desc="heads", unit="epoch"):
        heads.train()
        order = rng.permutation(train)
        for start in range(0, len(order), settings.batch_rows):
            rows = torch.from_numpy(order[start : start + settings.batch_rows])
            loss = heads_loss(heads(pooled[rows], features[rows]), labels, rows)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(heads.parameters(), 1.0)
            optimiser.step()
        heads.eval()
        with torch.inference_mode():
            value = float(heads_loss(heads(pooled[dev], features[dev]), labels, dev))
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
