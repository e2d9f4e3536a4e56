"""Train heads, and on request part of the encoder, on a user's rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm import tqdm
from transformers import get_linear_schedule_with_warmup

from router.errors import ConfigError, RouterError
from router.training.batches import pad
from router.training.feeds import tokenised
from router.training.fit import Labels, heads_loss, inputs_of, pooled_inputs
from router.training.heads import HeadOutputs, Heads
from router.training.student import Pooled, Student

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from router.tokens import InputTokenizer
    from router.training.example import Example
    from router.training.recipe import Recipe

    View = Callable[[NDArray[np.int64]], tuple[Pooled, torch.Tensor]]

_ROWS_AT_ONCE = 128


class TrainingFailed(RouterError):  # noqa: N818 - named for what it says to the user
    """The loss is no number any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How a run went.

    Attributes:
        start_loss: Loss on the dev rows before the first epoch.
        train_loss: Mean loss of every epoch's steps.
        dev_loss: Loss on the dev rows after every epoch.
        best_epoch: The epoch whose weights were kept, counted from 1; 0 = those of the start.
    """

    start_loss: float
    train_loss: tuple[float, ...]
    dev_loss: tuple[float, ...]
    best_epoch: int


def finetune(
    student: Student,
    heads: Heads,
    examples: Sequence[Example],
    tokenizer: InputTokenizer,
    *,
    routes: Sequence[str],
    recipe: Recipe,
    fresh_heads: bool,
    device: str,
    work: Path,
) -> History:
    """Train both in place; return the losses. The weights of the best dev loss are kept.

    Where nothing of the encoder trains, it reads every row once and not once an epoch.

    Args:
        student: Encoder; on the CPU before and after.
        heads: As many route logits as ``routes``; on the CPU before and after.
        examples: Rows of the splits train and dev.
        tokenizer: Cuts rows to ``recipe.max_tokens``.
        routes: Names in the order of the logits.
        recipe: How.
        fresh_heads: The heads have yet to learn the scale of their inputs.
        device: Torch device.
        work: Folder for intermediates.

    Raises:
        ConfigError: If the encoder has fewer layers than are to train.
        TrainingFailed: If the loss is no number any more.
    """
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    labels = Labels(examples, routes=routes)
    train = np.flatnonzero([e.split == "train" for e in examples])
    dev = np.flatnonzero([e.split == "dev" for e in examples])
    choose_trainable(student, heads, recipe, examples)
    student.to(device)
    view = _view(student, examples, tokenizer, recipe, device=device, work=work)
    heads.to(device)
    if fresh_heads:
        _fit_scales(heads, view, train)
    modules = torch.nn.ModuleDict({"student": student, "heads": heads})
    steps = math.ceil(len(train) / recipe.batch_rows)
    optimiser, schedule = optimiser_for(student, heads, recipe, steps=steps * recipe.epochs)
    # A base that already knows these routes may be better than anything learnt here.
    best, best_epoch = _dev_loss(student, heads, view, labels, dev), 0
    start_loss, kept = best, _values(modules)
    train_loss: list[float] = []
    dev_loss: list[float] = []
    with tqdm(total=steps * recipe.epochs, desc="training", unit="step", disable=None) as bar:
        for epoch in range(1, recipe.epochs + 1):
            heads.train()
            student.train(recipe.encoder_trains)
            total = 0.0
            for rows in np.array_split(rng.permutation(train), steps):
                loss = heads_loss(_outputs(student, heads, view(rows)), labels, _index(rows))
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(_trainable(modules), recipe.clip_norm)
                optimiser.step()
                schedule.step()
                total += float(loss.detach())
                bar.update()
            train_loss.append(total / steps)
            dev_loss.append(_dev_loss(student, heads, view, labels, dev))
            bar.set_postfix(dev_loss=f"{dev_loss[-1]:.4f}")
            if not math.isfinite(dev_loss[-1]):
                msg = f"epoch {epoch}: the dev loss is {dev_loss[-1]}; lower the learning rates"
                raise TrainingFailed(msg)
            if dev_loss[-1] < best:
                best, best_epoch = dev_loss[-1], epoch
                kept = _values(modules)
            elif epoch - best_epoch >= recipe.patience:
                break
    modules.load_state_dict(kept, strict=False)
    if recipe.lora_rank:
        student.encoder = student.encoder.merge_and_unload()
    for module in (student, heads):
        module.requires_grad_(requires_grad=False)
        module.eval().cpu()
    return History(
        start_loss=start_loss,
        train_loss=tuple(train_loss),
        dev_loss=tuple(dev_loss),
        best_epoch=best_epoch,
    )


def choose_trainable(
    student: Student, heads: Heads, recipe: Recipe, examples: Sequence[Example]
) -> None:
    """Leave gradients on for what the recipe trains and the rows teach, off for the rest.

    Raises:
        ConfigError: If the encoder has fewer layers than are to train.
    """
    student.requires_grad_(requires_grad=False)
    heads.requires_grad_(requires_grad=False)
    for module in (heads.route, heads.match, *(getattr(heads, n) for n in taught(examples))):
        module.requires_grad_(requires_grad=True)
    if recipe.unfreeze_last:
        layers = student.encoder.layers
        if recipe.unfreeze_last > len(layers):
            msg = f"unfreeze_last: is {recipe.unfreeze_last}, the encoder has {len(layers)} layers"
            raise ConfigError(msg)
        layers[-recipe.unfreeze_last :].requires_grad_(requires_grad=True)
    if recipe.lora_rank:
        from peft import LoraConfig, get_peft_model

        rank = recipe.lora_rank
        # Twice the rank: the update then has the same size whatever the rank.
        config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        with warnings.catch_warnings():
            # peft asks transformers by a name that transformers deprecates.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            student.encoder = get_peft_model(student.encoder, config)


def taught(examples: Sequence[Example]) -> tuple[str, ...]:
    """Return the regression heads that a training row says anything about."""
    train = [e for e in examples if e.split == "train"]
    known = {
        "temperature": [e.temperature for e in train],
        "gain": [e.gain for e in train],
        "length": [e.log_tokens for e in train],
    }
    return tuple(name for name, values in known.items() if not all(map(math.isnan, values)))


def optimiser_for(
    student: Student, heads: Heads, recipe: Recipe, *, steps: int
) -> tuple[torch.optim.AdamW, torch.optim.lr_scheduler.LambdaLR]:
    """Return AdamW with a rate each for routes, regressions, encoder, and the rates' schedule."""
    parts = {
        "route": (heads.route, heads.match),
        "regression": (heads.temperature, heads.gain, heads.length),
        "encoder": (student,),
    }
    groups = []
    for name, rate in recipe.rates.items():
        parameters = [p for module in parts[name] for p in _trainable(module)]
        for matrices in (True, False):
            chosen = [p for p in parameters if (p.ndim > 1) is matrices]
            decay = recipe.weight_decay if matrices else 0.0
            if chosen:
                groups.append({"name": name, "params": chosen, "lr": rate, "weight_decay": decay})
    optimiser = torch.optim.AdamW(groups)
    warmup = math.ceil(recipe.warmup_ratio * steps)
    return optimiser, get_linear_schedule_with_warmup(optimiser, warmup, steps)


def _view(
    student: Student,
    examples: Sequence[Example],
    tokenizer: InputTokenizer,
    recipe: Recipe,
    *,
    device: str,
    work: Path,
) -> View:
    """Return what gives the pooled states and features of rows, with gradients if wanted."""
    items = inputs_of(examples)
    if not recipe.encoder_trains:
        inputs = pooled_inputs(student, tokenizer, items, cache=work, device=device)

        def known(rows: NDArray[np.int64]) -> tuple[Pooled, torch.Tensor]:
            pooled, features = inputs.batch(rows)
            return Pooled(*(t.to(device) for t in pooled)), features.to(device)

        return known
    tokens = tokenised(tokenizer, items)

    def fresh(rows: NDArray[np.int64]) -> tuple[Pooled, torch.Tensor]:
        pooled = student.pool(*pad([tokens.ids[i] for i in rows], device))
        return pooled, torch.from_numpy(tokens.features[rows]).to(device)

    return fresh


def _fit_scales(heads: Heads, view: View, train: NDArray[np.int64]) -> None:
    with torch.inference_mode():
        seen = [view(rows) for rows in _chunks(train)]
    heads.text.fit(torch.cat([pooled.text for pooled, _ in seen]))
    heads.features.fit(torch.cat([features for _, features in seen]))


def _outputs(student: Student, heads: Heads, seen: tuple[Pooled, torch.Tensor]) -> HeadOutputs:
    return HeadOutputs(*(values.cpu() for values in heads(student, *seen)))


def _dev_loss(
    student: Student, heads: Heads, view: View, labels: Labels, dev: NDArray[np.int64]
) -> float:
    student.eval()
    heads.eval()
    with torch.inference_mode():
        parts = [_outputs(student, heads, view(rows)) for rows in _chunks(dev)]
        members, *others = zip(*parts, strict=True)
        outputs = HeadOutputs(torch.cat(members, dim=1), *(torch.cat(v) for v in others))
        return float(heads_loss(outputs, labels, _index(dev)))


def _chunks(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.array_split(rows, math.ceil(len(rows) / _ROWS_AT_ONCE))


def _values(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of what trains."""
    named = module.named_parameters()
    return {name: p.detach().clone() for name, p in named if p.requires_grad}


def _trainable(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad]


def _index(rows: NDArray[np.int64]) -> torch.Tensor:
    return torch.from_numpy(rows)
