"""Read the arrays of an artifact's ``.npz`` file."""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from router.errors import ArtifactError


def read_arrays(path: Path, *names: str) -> dict[str, NDArray[np.float32]]:
    """Return the named arrays as float32.

    Raises:
        ArtifactError: If the file cannot be read or lacks one of them.
    """
    try:
        # Given the path alone, numpy leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name], dtype=np.float32) for name in names}
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        msg = f"{path}: cannot be read: {type(error).__name__}"
        raise ArtifactError(msg) from error
