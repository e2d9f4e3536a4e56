"""Define the student: a small ModernBERT encoder with an embedding head.

Architecture: Warner et al., "Smarter, Better, Faster, Longer" (ModernBERT),
arXiv:2412.13663: RoPE, GeGLU, alternating local and global attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import ModernBertConfig, ModernBertModel

if TYPE_CHECKING:
    from pathlib import Path

EMBEDDING_DIM = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Size of the encoder; ``EXPERIMENTS.md`` says why the default is what it is.

    Attributes:
        hidden: Width of the states, a multiple of 64 (one attention head each).
        layers: Transformer layers.
        intermediate: Width of the GeGLU.
    """

    hidden: int = 384
    layers: int = 4
    intermediate: int = 384


def student_config(shape: Shape, *, vocab_size: int) -> ModernBertConfig:
    """Return the encoder's shape; special-token ids are those of BERT's WordPiece vocabulary."""
    return ModernBertConfig(
        vocab_size=vocab_size,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        intermediate_size=shape.intermediate,
        num_attention_heads=max(1, shape.hidden // 64),
        max_position_embeddings=1024,
        global_attn_every_n_layers=3,
        local_attention=128,
        pad_token_id=0,
        cls_token_id=101,
        bos_token_id=101,
        sep_token_id=102,
        eos_token_id=102,
        attn_implementation="sdpa",
    )


class Pooled(NamedTuple):
    """Mean states of a batch's texts and of the tools offered beside each.

    Attributes:
        text: Shape ``(batch, hidden)``.
        tools: Shape ``(batch, tools, hidden)``, padded.
        offered: Which of ``tools`` are there, 1 or 0, shape ``(batch, tools)``.
    """

    text: torch.Tensor
    tools: torch.Tensor
    offered: torch.Tensor


class Student(nn.Module):
    """ModernBERT, a mean a segment, and a linear embedding head.

    A sequence is ``[CLS] text [SEP] tool [SEP] tool [SEP]``; every ``[SEP]`` ends a segment.

    Args:
        config: The encoder's shape.
        embedding_dim: Width of the embedding; ``None`` = the text's mean as it is.
    """

    def __init__(
        self, config: ModernBertConfig, *, embedding_dim: int | None = EMBEDDING_DIM
    ) -> None:
        super().__init__()
        self.encoder = ModernBertModel(config)
        self.separator = int(config.sep_token_id)
        self.embedding_dim = embedding_dim or int(config.hidden_size)
        self.embedding: nn.Module = (
            nn.Identity()
            if embedding_dim is None
            else nn.Linear(config.hidden_size, embedding_dim, bias=False)
        )

    def states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the last hidden states, shape ``(batch, tokens, hidden)``."""
        output = self.encoder(input_ids=input_ids, attention_mask=attention_mask)
        states: torch.Tensor = output.last_hidden_state
        return states

    def pool(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Pooled:
        """Return the mean state of every segment."""
        states = self.states(input_ids, attention_mask)
        separators = (input_ids == self.separator).to(input_ids.dtype) * attention_mask
        segment = separators.cumsum(dim=1) - separators
        # One more than there are, so that the tools are never an empty axis.
        numbers = torch.arange(segment.max() + 2, device=segment.device)
        belongs = (segment.unsqueeze(1) == numbers.view(1, -1, 1)) & (
            attention_mask.unsqueeze(1) > 0
        )
        weights = belongs.to(states.dtype)
        count = weights.sum(dim=2, keepdim=True)
        means = (weights @ states) / count.clamp(min=1.0)
        return Pooled(means[:, 0], means[:, 1:], (count[:, 1:, 0] > 0).to(states.dtype))

    def embed(self, mean: torch.Tensor) -> torch.Tensor:
        """Return unit-norm embeddings, shape ``(..., embedding_dim)``, of mean states."""
        return nn.functional.normalize(self.embedding(mean), dim=-1)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the texts' unit-norm embeddings, shape ``(batch, embedding_dim)``."""
        return self.embed(self.pool(input_ids, attention_mask).text)


def principal_axes(vectors: NDArray[np.floating], dim: int) -> NDArray[np.float32]:
    """Return the ``dim`` leading right singular vectors, shape ``(columns, dim)``.

    Not centred, so that inner products between rows are what is preserved.
    """
    gram = vectors.astype(np.float64).T @ vectors.astype(np.float64)
    _, axes = np.linalg.eigh(gram)
    return np.ascontiguousarray(axes[:, ::-1][:, :dim]).astype(np.float32)


def initialise_tokens(student: Student, teacher_folder: Path) -> None:
    """Copy the teacher's word embeddings into the student, projected on their leading axes."""
    from safetensors.torch import load_file

    words = load_file(str(teacher_folder / "model.safetensors"))
    table = words["embeddings.word_embeddings.weight"].float().numpy()
    table = table - table.mean(axis=0, keepdims=True)
    hidden = student.encoder.config.hidden_size
    projected = table @ principal_axes(table, hidden)
    projected *= 0.02 / projected.std()
    with torch.no_grad():
        weight = student.encoder.embeddings.tok_embeddings.weight
        weight.copy_(torch.from_numpy(projected.astype(np.float32)))
