"""Read what a user's training starts from: an artifact of ours or a bare ModernBERT folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import ModernBertConfig, ModernBertModel
from transformers.utils.logging import disable_progress_bar

from router.artifact import (
    CONFIG,
    REGISTERED,
    SHAPE,
    SUMS,
    TOKENIZER,
    WEIGHTS,
    ArtifactConfig,
    load_artifact,
    verify_all,
)
from router.errors import ConfigError
from router.familiarity import Familiarity
from router.features import FEATURE_NAMES
from router.training.heads import Heads
from router.training.student import Student

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL_TYPE = "modernbert"
_HOW_TO_FETCH = "a model of a hub is fetched first: hf download NAME --local-dir DIR"


class BaseError(ConfigError):
    """What was given as a base cannot be trained further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """An encoder with what is known of it.

    Attributes:
        name: Of the artifact or the folder.
        student: The encoder with its embedding head, on the CPU.
        tokenizer: Its ``tokenizer.json``.
        max_tokens: Longest input that it reads.
        artifact: The artifact's config; None for a bare encoder, which has no heads.
        heads: The artifact's head weights, float32, empty for a bare encoder.
        familiarity: What the artifact knows of ordinary texts, if anything.
    """

    name: str
    student: Student
    tokenizer: Path
    max_tokens: int
    artifact: ArtifactConfig | None = None
    heads: dict[str, torch.Tensor] = field(default_factory=dict)
    familiarity: Familiarity | None = None

    def new_heads(self, routes: Sequence[str]) -> Heads:
        """Return heads for ``routes``, as far as possible with the base's weights.

        A route that the base has by the same name keeps its row of every last layer; another
        one starts afresh on the layers below, which are the base's too.

        Raises:
            BaseError: If the base's heads have other shapes than this version's.
        """
        hidden, width = self.student.encoder.config.hidden_size, self.student.embedding_dim
        if self.artifact is None:
            return Heads(hidden, width, routes=len(routes))
        heads = Heads(hidden, width, routes=len(self.artifact.routes))
        _load(heads, self.heads, self.name)
        heads.route.change_routes(self.artifact.routes, tuple(routes))
        return heads


def load_base(name_or_path: str) -> Base:
    """Return the base of a registered name, an artifact folder or a ModernBERT folder.

    Raises:
        BaseError: If it is neither, has another format or lacks a file; naming what was found.
        ArtifactError: If an artifact's file is damaged.
    """
    folder = REGISTERED.get(name_or_path, Path(name_or_path))
    if not folder.is_dir():
        known = ", ".join(sorted(REGISTERED))
        msg = f"{name_or_path}: no such folder; registered names: {known}; {_HOW_TO_FETCH}"
        raise BaseError(msg)
    return _artifact(folder) if (folder / SUMS).exists() else _bare(folder)


def _artifact(folder: Path) -> Base:
    artifact = load_artifact(folder)
    config = artifact.config
    if not (folder / SHAPE).exists():
        msg = f"{folder}: is of format {config.format} and has no {SHAPE}, which training reads; "
        msg += "use an artifact of format 2, a rebuilt one (make weights) or a newer version's"
        raise BaseError(msg)
    if config.features != FEATURE_NAMES:
        msg = f"{folder / CONFIG}: features are not those of this version; use a newer artifact"
        raise BaseError(msg)
    sums = verify_all(folder)
    if missing := {SHAPE, WEIGHTS} - set(sums):
        msg = f"{folder / SUMS}: does not list {', '.join(sorted(missing))}"
        raise BaseError(msg)
    parts = _parts(folder)
    embedding = parts["student"].get("embedding.weight")
    shape = ModernBertConfig.from_json_file(str(folder / SHAPE))
    shape._attn_implementation = "sdpa"  # noqa: SLF001 - not stored in the file
    student = Student(shape, embedding_dim=None if embedding is None else len(embedding))
    _load(student, parts["student"], str(folder))
    return Base(
        name=config.name,
        student=student.eval(),
        tokenizer=folder / TOKENIZER,
        max_tokens=config.max_tokens,
        artifact=config,
        heads=parts["heads"],
        familiarity=artifact.familiarity,
    )


def _bare(folder: Path) -> Base:
    config = _json(folder / CONFIG)
    found = config.get("model_type")
    if found != MODEL_TYPE:
        msg = f"{folder / CONFIG}: model_type is {found!r}, only {MODEL_TYPE!r} can be trained"
        raise BaseError(msg)
    for name in (WEIGHTS, TOKENIZER):
        if not (folder / name).exists():
            msg = f"{folder / name}: is missing; a ModernBERT folder has {CONFIG}, {WEIGHTS} "
            msg += f"and {TOKENIZER}"
            raise BaseError(msg)
    try:
        shape = ModernBertConfig.from_pretrained(folder, attn_implementation="sdpa")
    except Exception as error:
        # Each of its checks raises a class of its own.
        msg = f"{folder / CONFIG}: is no configuration of a ModernBERT ({type(error).__name__})"
        raise BaseError(msg) from error
    shape.sep_token_id = _separator(folder, shape.vocab_size)
    student = Student(shape, embedding_dim=None)
    student.encoder = _pretrained(folder, shape)
    return Base(
        name=folder.resolve().name,
        student=student.eval(),
        tokenizer=folder / TOKENIZER,
        max_tokens=shape.max_position_embeddings,
    )


def _separator(folder: Path, known_tokens: int) -> int:
    """Return the id of ``[SEP]`` in a tokenizer whose tokens the encoder knows."""
    path = folder / TOKENIZER
    try:
        vocabulary: dict[str, int] = Tokenizer.from_file(str(path)).get_vocab()
    except Exception as error:
        # The library raises bare Exceptions.
        msg = f"{path}: not a tokenizer file"
        raise BaseError(msg) from error
    for token in ("[CLS]", "[SEP]", "[UNK]"):
        if token not in vocabulary:
            msg = f"{path}: the vocabulary has no {token} token"
            raise BaseError(msg)
    if (last := max(vocabulary.values())) >= known_tokens:
        msg = f"{path}: has token ids up to {last}, the encoder of {CONFIG} knows {known_tokens}"
        msg += " tokens; use the tokenizer it was trained with"
        raise BaseError(msg)
    return vocabulary["[SEP]"]


def _pretrained(folder: Path, shape: ModernBertConfig) -> ModernBertModel:
    # Nothing is fetched, so there is nothing to watch.
    disable_progress_bar()
    try:
        encoder, report = ModernBertModel.from_pretrained(
            folder,
            config=shape,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        msg = f"{folder / WEIGHTS}: is damaged or does not fit {CONFIG} ({type(error).__name__})"
        raise BaseError(msg) from error
    # Weights that are not there would be random numbers that nothing complains about.
    if missing := sorted(report["missing_keys"]):
        msg = (
            f"{folder / WEIGHTS}: lacks {len(missing)} of the encoder's tensors, {missing[0]} first"
        )
        raise BaseError(msg)
    return encoder


def _parts(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Return the tensors of ``student`` and ``heads``, float32, by their names below these."""
    from safetensors.torch import load_file

    parts: dict[str, dict[str, torch.Tensor]] = {"student": {}, "heads": {}}
    for name, tensor in load_file(str(folder / WEIGHTS)).items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = tensor.float()
    return parts


def _load(module: torch.nn.Module, state: dict[str, torch.Tensor], name: str) -> None:
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        msg = f"{name}: {WEIGHTS}: does not fit this version's {type(module).__name__}; use an "
        msg += "artifact that this version made"
        raise BaseError(msg) from error


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{path}: cannot be read ({type(error).__name__}); expected an artifact or a "
        msg += "ModernBERT folder"
        raise BaseError(msg) from error
    if not isinstance(value, dict):
        msg = f"{path}: expected an object"
        raise BaseError(msg)
    return value
