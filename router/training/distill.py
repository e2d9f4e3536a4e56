"""Distil the teacher's sentence embeddings into the student.

Optimiser: Muon for the matrices inside the encoder (Jordan et al., 2024, with the update
scale of Liu et al., arXiv:2502.16982, section 2.2), AdamW for the rest. Schedule: warm-up,
plateau, linear decay (Hu et al., arXiv:2404.06395, section 4), so that a finished run can be
made longer from the checkpoint at the end of its plateau.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from router.training.batches import epochs
from router.training.distillation_loss import distillation_loss, targets_of
from router.training.sources import distillation_corpus
from router.training.student import (
    EMBEDDING_DIM,
    Shape,
    Student,
    initialise_tokens,
    principal_axes,
    student_config,
)
from router.training.teacher import TeacherStates, teacher_folder, teacher_states

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

CHECKPOINT_EVERY_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillSettings:
    """What a distillation run depends on.

    Attributes:
        presentations: Texts shown in all, counting repeats; sets the length of the schedule.
        peak_lr: AdamW's learning rate after warm-up.
        matrix_lr: Muon's learning rate after warm-up.
        warmup_presentations: Presentations spent warming up.
        decay_ratio: Share of the presentations at the end over which rates fall to zero.
        batch_tokens: Padded tokens a batch.
        max_rows: Rows a batch.
        similarity_weight: Factor of the similarity-matrix term.
        token_weight: Factor of the token term.
        joined_ratio: Share of the steps in which texts go through in pairs.
        shape: Size of the encoder.
        seed: Seeds initialisation and shuffling.
        limit: Use only the first rows of the corpus; 0 means all.
    """

    presentations: int = 1_000_000
    peak_lr: float = 1e-3
    matrix_lr: float = 2e-3
    warmup_presentations: int = 2_000
    decay_ratio: float = 0.3
    batch_tokens: int = 2048
    max_rows: int = 64
    similarity_weight: float = 20.0
    token_weight: float = 1.0
    joined_ratio: float = 0.3
    shape: Shape = field(default_factory=Shape)
    seed: int = 0
    limit: int = 0


def plateau_end(settings: DistillSettings) -> float:
    """Return after how many presentations the rates begin to fall."""
    return settings.presentations * (1.0 - settings.decay_ratio)


def rate_factor(shown: int, settings: DistillSettings) -> float:
    """Return what peak rates are multiplied by after ``shown`` presentations, in [0, 1]."""
    if shown < settings.warmup_presentations:
        return shown / settings.warmup_presentations
    if shown <= plateau_end(settings):
        return 1.0
    decaying = settings.presentations * settings.decay_ratio
    return max(0.0, (settings.presentations - shown) / decaying)


@dataclass(slots=True)
class _Run:
    """Everything a checkpoint holds."""

    model: Student
    optimisers: tuple[torch.optim.Optimizer, ...]
    shown: int = 0
    step: int = 0

    def save(self, path: Path, settings: DistillSettings) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "settings": asdict(settings),
            "shown": self.shown,
            "step": self.step,
        }
        _write(path, state)

    def resume(self, path: Path, settings: DistillSettings, device: str) -> bool:
        """Go on from ``path`` if its run may become this one; return whether it did."""
        if not path.exists():
            return False
        state = torch.load(path, map_location=device)
        if not _continues(state["settings"], state["shown"], settings):
            return False
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.shown, self.step = state["shown"], state["step"]
        return True


def _continues(earlier: dict[str, Any], shown: int, wanted: DistillSettings) -> bool:
    """Whether a run that has ``shown`` texts so far may become ``wanted``.

    The length may differ as long as neither run has begun to decay.
    """
    settings = asdict(wanted)
    if earlier == settings:
        return True
    length = ("presentations", "decay_ratio")
    if earlier | {name: settings[name] for name in length} != settings:
        return False
    earlier_end = earlier["presentations"] * (1.0 - earlier["decay_ratio"])
    return shown <= min(earlier_end, plateau_end(wanted))


def distill(data: Path, work: Path, settings: DistillSettings, device: str) -> Path:
    """Train the student and return the path of its weights, ``work/student.pt``.

    Resumes from ``work/distill.ckpt``, or from the end of the plateau of a shorter run,
    ``work/plateau.ckpt``.
    """
    final = work / "student.pt"
    if final.exists() and torch.load(final, map_location="cpu")["settings"] == asdict(settings):
        return final
    torch.manual_seed(settings.seed)
    texts = distillation_corpus(data)
    if settings.limit:
        texts = texts[: settings.limit]
    teacher = teacher_states(texts, work / "teacher", device)
    projection = torch.from_numpy(principal_axes(teacher.vectors, EMBEDDING_DIM)).to(device)
    lengths = np.asarray([len(row) for row in teacher.ids], dtype=np.int64)

    run = _new_run(settings, device)
    checkpoint, plateau = work / "distill.ckpt", work / "plateau.ckpt"
    _ = run.resume(checkpoint, settings, device) or run.resume(plateau, settings, device)
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
        before = run.shown
        value = _step(run, teacher, chosen, projection, settings)
        running = value if running is None else 0.99 * running + 0.01 * value
        bar.update(len(chosen))
        bar.set_postfix(loss=f"{running:.4f}", refresh=False)
        if before < plateau_end(settings) - settings.max_rows <= run.shown:
            run.save(plateau, settings)
        if time.monotonic() - saved_at_s > CHECKPOINT_EVERY_S:
            run.save(checkpoint, settings)
            saved_at_s = time.monotonic()
    bar.close()
    _write(final, {"model": run.model.state_dict(), "settings": asdict(settings), "loss": running})
    return final


def _new_run(settings: DistillSettings, device: str) -> _Run:
    vocabulary = Tokenizer.from_file(str(teacher_folder() / "tokenizer.json")).get_vocab_size()
    model = Student(student_config(settings.shape, vocab_size=vocabulary)).to(device)
    initialise_tokens(model, teacher_folder())
    return _Run(model, optimisers(model, matrix_lr=settings.matrix_lr, lr=settings.peak_lr))


def optimisers(
    model: Student, *, matrix_lr: float, lr: float
) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
    """Return Muon for the encoder's inner matrices and AdamW for all other parameters."""
    inner: list[torch.nn.Parameter] = []
    tables: list[torch.nn.Parameter] = []
    vectors: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        kind = vectors if parameter.ndim < 2 else tables if "tok_embeddings" in name else inner
        kind.append(parameter)
    muon = torch.optim.Muon(inner, lr=matrix_lr, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(
        [{"params": tables, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}],
        lr=lr,
        betas=(0.9, 0.98),
        fused=True,
    )
    for optimiser, peak in ((muon, matrix_lr), (adamw, lr)):
        for group in optimiser.param_groups:
            group["peak_lr"] = peak
    return muon, adamw


def _step(
    run: _Run,
    teacher: TeacherStates,
    texts: NDArray[np.int64],
    projection: torch.Tensor,
    settings: DistillSettings,
) -> float:
    """Take one optimiser step and return its loss."""
    device = projection.device
    # Seeded by the step, so that a resumed run draws what it would have drawn.
    draw = np.random.default_rng((settings.seed, run.step)).random()
    joined = draw < settings.joined_ratio and len(texts) > 1
    targets = targets_of(teacher, texts, joined=joined, device=str(device))
    with torch.autocast(device.type, dtype=torch.bfloat16):
        states = run.model.embedding(run.model.states(targets.ids, targets.mask))
    loss = distillation_loss(states.float(), targets.states @ projection, targets, settings)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    factor = rate_factor(run.shown, settings)
    for optimiser in run.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["peak_lr"] * factor
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    run.shown += len(texts)
    run.step += 1
    return float(loss.detach())


def _write(path: Path, state: dict[str, Any]) -> None:
    """Save through a temporary name, so that a kill never leaves half a file."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)
