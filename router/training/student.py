"""Define the student: a small ModernBERT encoder with an embedding head.

Architecture: Warner et al., "Smarter, Better, Faster, Longer" (ModernBERT),
arXiv:2412.13663: RoPE, GeGLU, alternating local and global attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import ModernBertConfig, ModernBertModel

if TYPE_CHECKING:
    from pathlib import Path

EMBEDDING_DIM = 256


def student_config(*, vocab_size: int, hidden: int = 256, layers: int = 7) -> ModernBertConfig:
    """Return the encoder's shape; special-token ids are those of BERT's WordPiece vocabulary."""
    return ModernBertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=hidden * 3 // 2,
        num_attention_heads=max(1, hidden // 64),
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


class Student(nn.Module):
    """ModernBERT, masked mean pooling and a linear embedding head."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.encoder = ModernBertModel(config)
        self.embedding = nn.Linear(config.hidden_size, EMBEDDING_DIM, bias=False)

    def pool(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the pooled states, shape ``(batch, 2 * hidden)``: masked mean, then ``[CLS]``."""
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)
        return torch.cat([mean, states[:, 0]], dim=-1)

    def embed(self, pooled: torch.Tensor) -> torch.Tensor:
        """Return unit-norm embeddings, shape ``(batch, 256)``, from :meth:`pool`'s mean half."""
        mean = pooled[:, : self.embedding.in_features]
        return nn.functional.normalize(self.embedding(mean), dim=-1)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return unit-norm embeddings, shape ``(batch, 256)``."""
        return self.embed(self.pool(input_ids, attention_mask))


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
