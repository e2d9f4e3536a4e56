"""Distil the teacher's sentence embeddings into the student.

Loss: one minus the cosine to the teacher's vector (projected on its leading axes), plus the
squared difference of the two in-batch similarity matrices, which keeps neighbourhoods
intact (relational distillation: Park et al., CVPR 2019, arXiv:1904.05068, section 3.1).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    presentations: int = 700_000
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
    axes = principal_axes(targets, EMBEDDING_DIM)
    folder = teacher_folder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = tokenise(texts, tokenizer, MAX_TOKENS)
    lengths = np.asarray([len(row) for row in rows], dtype=np.int64)

    model = Student(student_config(vocab_size=tokenizer.get_vocab_size())).to(device)
    initialise_tokens(model, folder)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=settings.peak_lr,
        betas=(0.9, 0.98),
        fused=True,
    )
    checkpoint = work / "distill.ckpt"
    shown = step = 0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=False)
        if state["settings"] == settings:
            model.load_state_dict(state["model"])
            optimiser.load_state_dict(state["optimiser"])
            shown, step = state["shown"], state["step"]

    bar = tqdm(total=settings.presentations, initial=shown, desc="distil", unit="text")
    saved_at = time.monotonic()
    running: float | None = None
    model.train()
    batches = epochs(
        lengths,
        batch_tokens=settings.batch_tokens,
        max_rows=settings.max_rows,
        seed=settings.seed,
    )
    for _ in range(step):
        next(batches)
    projection = torch.from_numpy(axes).to(device)
    while shown < settings.presentations:
        chosen = next(batches)
        for group in optimiser.param_groups:
            group["lr"] = _learning_rate(shown, settings)
        ids, mask = pad([rows[i] for i in chosen], device)
        target = torch.from_numpy(targets[chosen].astype(np.float32)).to(device) @ projection
        target = torch.nn.functional.normalize(target, dim=-1)
        with torch.autocast(device.split(":", maxsplit=1)[0], dtype=torch.bfloat16):
            vectors = model(ids, mask)
        loss = distillation_loss(vectors.float(), target, settings.similarity_weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        shown += len(chosen)
        step += 1
        value = float(loss.detach())
        running = value if running is None else 0.99 * running + 0.01 * value
        bar.update(len(chosen))
        bar.set_postfix(loss=f"{running:.4f}", refresh=False)
        if time.monotonic() - saved_at > CHECKPOINT_EVERY_S:
            _save(checkpoint, model, optimiser, settings, shown, step)
            saved_at = time.monotonic()
    bar.close()
    partial = final.with_suffix(".partial")
    torch.save({"model": model.state_dict(), "settings": settings, "loss": running}, partial)
    partial.replace(final)
    return final


def _save(
    path: Path,
    model: Student,
    optimiser: torch.optim.Optimizer,
    settings: DistillSettings,
    shown: int,
    step: int,
) -> None:
    partial = path.with_suffix(".partial")
    state = {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "settings": settings,
        "shown": shown,
        "step": step,
    }
    torch.save(state, partial)
    partial.replace(path)
