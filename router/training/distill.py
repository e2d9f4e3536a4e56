"""Distil the teacher's sentence embeddings into the student.

Loss: one minus the cosine to the teacher's vector (projected on its leading axes), plus the
squared difference of the two in-batch similarity matrices, which keeps neighbourhoods
intact (relational distillation: Park et al., CVPR 2019, arXiv:1904.05068, section 3.1).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from router.training.batches import epochs, pad
from router.training.sources import distillation_corpus
from router.training.student import (
    EMBEDDING_DIM,
    Student,
    initialise_tokens,
    principal_axes,
    student_config,
)
from router.training.teacher import MAX_TOKENS, embed_corpus, teacher_folder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

CHECKPOINT_EVERY_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillSettings:
    """What a distillation run depends on.

    Attributes:
        presentations: Texts shown in all, counting repeats; sets the length of the schedule.
        peak_lr: Learning rate after warm-up (AdamW), decayed by a half cosine to zero.
        warmup_ratio: Share of the presentations spent warming up.
        batch_tokens: Padded tokens a batch.
        max_rows: Rows a batch.
        similarity_weight: Factor of the similarity-matrix term.
        seed: Seeds initialisation and shuffling.
        limit: Use only the first rows of the corpus; 0 means all.
    """

    presentations: int = 330_000
    peak_lr: float = 1e-3
    warmup_ratio: float = 0.03
    batch_tokens: int = 4096
    max_rows: int = 160
    similarity_weight: float = 20.0
    seed: int = 0
    limit: int = 0


def tokenise(texts: list[str], tokenizer: Tokenizer, max_tokens: int) -> list[NDArray[np.int32]]:
    """Return WordPiece ids with ``[CLS]`` and ``[SEP]``, cut to ``max_tokens``."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=max_tokens)
    rows: list[NDArray[np.int32]] = []
    for start in range(0, len(texts), 4096):
        encodings = tokenizer.encode_batch(texts[start : start + 4096])
        rows.extend(np.asarray(e.ids, dtype=np.int32) for e in encodings)
    return rows


def distillation_loss(
    student: torch.Tensor, teacher: torch.Tensor, similarity_weight: float
) -> torch.Tensor:
    """Return the scalar loss of unit-norm rows ``(batch, dim)`` against the teacher's."""
    cosine = 1.0 - (student * teacher).sum(dim=-1).mean()
    difference = student @ student.T - teacher @ teacher.T
    return cosine + similarity_weight * difference.square().mean()


def _learning_rate(shown: int, settings: DistillSettings) -> float:
    progress = min(1.0, shown / settings.presentations)
    if progress < settings.warmup_ratio:
        return settings.peak_lr * progress / settings.warmup_ratio
    rest = (progress - settings.warmup_ratio) / (1.0 - settings.warmup_ratio)
    return settings.peak_lr * 0.5 * (1.0 + math.cos(math.pi * rest))


@dataclass(slots=True)
class _Run:
    """Everything a checkpoint holds."""

    model: Student
    optimiser: torch.optim.Optimizer
    shown: int = 0
    step: int = 0

    def save(self, path: Path, settings: DistillSettings) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "settings": settings,
            "shown": self.shown,
            "step": self.step,
        }
        _write(path, state)

    def resume(self, path: Path, settings: DistillSettings) -> None:
        """Go on from ``path`` if it holds a run with the same settings."""
        if not path.exists():
            return
        state = torch.load(path, weights_only=False)
        if state["settings"] == settings:
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.shown, self.step = state["shown"], state["step"]


def distill(data: Path, work: Path, settings: DistillSettings, device: str) -> Path:
    """Train the student and return the path of its weights, ``work/student.pt``.

    Resumes from ``work/distill.ckpt`` where one with the same settings exists.
    """
    final = work / "student.pt"
    if final.exists():
        return final
    torch.manual_seed(settings.seed)
    texts = distillation_corpus(data)
    if settings.limit:
        texts = texts[: settings.limit]
    targets = embed_corpus(texts, work / "teacher", device)
    projection = torch.from_numpy(principal_axes(targets, EMBEDDING_DIM)).to(device)
    tokenizer = Tokenizer.from_file(str(teacher_folder() / "tokenizer.json"))
    rows = tokenise(texts, tokenizer, MAX_TOKENS)
    lengths = np.asarray([len(row) for row in rows], dtype=np.int64)

    run = _new_run(tokenizer.get_vocab_size(), settings, device)
    checkpoint = work / "distill.ckpt"
    run.resume(checkpoint, settings)
    batches = epochs(
        lengths,
        batch_tokens=settings.batch_tokens,
        max_rows=settings.max_rows,
        seed=settings.seed,
    )
    for _ in range(run.step):
        next(batches)
    bar = tqdm(total=settings.presentations, initial=run.shown, desc="distil", unit="text")
    saved_at_s = time.monotonic()
    running: float | None = None
    run.model.train()
    while run.shown < settings.presentations:
        chosen = next(batches)
        target = torch.from_numpy(targets[chosen].astype(np.float32)).to(device) @ projection
        value = _step(run, [rows[i] for i in chosen], target, settings, device)
        running = value if running is None else 0.99 * running + 0.01 * value
        bar.update(len(chosen))
        bar.set_postfix(loss=f"{running:.4f}", refresh=False)
        if time.monotonic() - saved_at_s > CHECKPOINT_EVERY_S:
            run.save(checkpoint, settings)
            saved_at_s = time.monotonic()
    bar.close()
    _write(final, {"model": run.model.state_dict(), "settings": settings, "loss": running})
    return final


def _new_run(vocabulary: int, settings: DistillSettings, device: str) -> _Run:
    model = Student(student_config(vocab_size=vocabulary)).to(device)
    initialise_tokens(model, teacher_folder())
    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.01},
            {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=settings.peak_lr,
        betas=(0.9, 0.98),
        fused=True,
    )
    return _Run(model, optimiser)


def _step(
    run: _Run,
    rows: list[NDArray[np.int32]],
    target: torch.Tensor,
    settings: DistillSettings,
    device: str,
) -> float:
    """Take one optimiser step and return its loss."""
    for group in run.optimiser.param_groups:
        group["lr"] = _learning_rate(run.shown, settings)
    ids, mask = pad(rows, device)
    with torch.autocast(device.split(":", maxsplit=1)[0], dtype=torch.bfloat16):
        vectors = run.model(ids, mask)
    target = torch.nn.functional.normalize(target, dim=-1)
    loss = distillation_loss(vectors.float(), target, settings.similarity_weight)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    run.optimiser.step()
    run.optimiser.zero_grad(set_to_none=True)
    run.shown += len(rows)
    run.step += 1
    return float(loss.detach())


def _write(path: Path, state: dict[str, Any]) -> None:
    """Save through a temporary name, so that a kill never leaves half a file."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)
