"""Say how far a student's token states are from its teacher's.

Loss: one minus the cosine to the teacher's vector (projected on its leading axes), plus the
squared difference of the two in-batch similarity matrices, which keeps neighbourhoods
intact (relational distillation: Park et al., CVPR 2019, arXiv:1904.05068, section 3.1), plus
the squared error of every token's state (Jiao et al., arXiv:1909.10351, section 3.1): student
and teacher share their tokens, and the states say more about a text than its one vector.

Some sequences hold a second text behind the first, each with the targets it has alone. So
the encoder learns to read what stands behind a ``[SEP]``, the offered tools, without letting
it colour the request's own embedding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from router.training.batches import pad
from router.training.teacher import TEACHER_DIM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from router.training.distill import DistillSettings
    from router.training.teacher import TeacherStates


class Targets(NamedTuple):
    """A batch of sequences and what the teacher says of them.

    Attributes:
        ids: Token ids, shape ``(sequences, tokens)``, int64; zero where ``mask`` is.
        mask: Which tokens are there, int64.
        first: Which of them belong to the sequence's first text, int64.
        states: The teacher's states, shape ``(sequences, tokens, 384)``, float32; zero where
            ``mask`` is.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    first: torch.Tensor
    states: torch.Tensor


def targets_of(
    teacher: TeacherStates, texts: NDArray[np.int64], *, joined: bool, device: str
) -> Targets:
    """Return the texts one a sequence; in pairs when ``joined``, an odd one left out."""
    half = len(texts) // 2
    pairs = np.stack([texts[:half], texts[half : 2 * half]], axis=1)
    sequences = pairs.tolist() if joined else [[text] for text in texts.tolist()]
    # A later text leaves its [CLS] behind, as an offered tool has none.
    ids, mask = pad(
        [np.concatenate([teacher.ids[t][k > 0 :] for k, t in enumerate(s)]) for s in sequences],
        device,
    )
    states = torch.zeros((*ids.shape, TEACHER_DIM))
    first = torch.zeros_like(mask)
    for row, sequence in enumerate(sequences):
        parts = [teacher.tokens(text)[k > 0 :] for k, text in enumerate(sequence)]
        whole = np.concatenate(parts).astype(np.float32)
        states[row, : len(whole)] = torch.from_numpy(whole)
        first[row, : len(parts[0])] = 1
    return Targets(ids, mask, first, states.to(device))


def distillation_loss(
    student: torch.Tensor, teacher: torch.Tensor, targets: Targets, settings: DistillSettings
) -> torch.Tensor:
    """Return the scalar loss of projected token states ``(sequences, tokens, dim)``.

    Args:
        student: The student's states after its embedding head, float32.
        teacher: The teacher's, projected to the same width.
        targets: Says which tokens count for what.
        settings: Weighs the terms.
    """
    there = targets.mask.unsqueeze(-1).to(student.dtype)
    error = ((student - teacher).square() * there).sum() / teacher.square().sum()
    first = targets.first.unsqueeze(-1).to(student.dtype)
    ours = torch.nn.functional.normalize((student * first).sum(dim=1), dim=-1)
    theirs = torch.nn.functional.normalize((teacher * first).sum(dim=1), dim=-1)
    cosine = 1.0 - (ours * theirs).sum(dim=-1).mean()
    difference = (ours @ ours.T - theirs @ theirs.T).square().mean()
    return cosine + settings.similarity_weight * difference + settings.token_weight * error
