"""Tell inputs unlike anything seen in training by their distance to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from router.array_file import read_arrays
from router.errors import ArtifactError


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlierDetector:
    """Mahalanobis distance to the training inputs.

    Source: Lee et al., "A Simple Unified Framework for Detecting Out-of-Distribution Samples
    and Adversarial Attacks", NeurIPS 2018, arXiv:1807.03888, section 2.1; one Gaussian over
    the embedding and the explicit features of the text.

    Attributes:
        mean: Shape ``(dim,)``, float32.
        whitening: Shape ``(dim, dim)``, float32; its product with its transpose is the
            inverse covariance.
        threshold: Largest distance that counts as in distribution.
    """

    mean: NDArray[np.float32]
    whitening: NDArray[np.float32]
    threshold: float

    @classmethod
    def load(cls, path: Path, *, dim: int, threshold: float) -> Self:
        """Return the detector over inputs of ``dim`` numbers.

        Raises:
            ArtifactError: If the file cannot be read or its arrays have other shapes.
        """
        mean, whitening = read_arrays(path, "mean", "whitening").values()
        if mean.shape != (dim,) or whitening.shape != (dim, dim):
            msg = f"{path}: expected shapes {(dim,)} and {(dim, dim)}, got {mean.shape} and "
            msg += f"{whitening.shape}"
            raise ArtifactError(msg)
        return cls(mean=mean, whitening=whitening, threshold=threshold)

    def distance(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the distance of each row of ``(batch, dim)``, shape ``(batch,)``, >= 0.

        Scaled by the square root of the dimension, so that training inputs lie around 1.
        """
        # Row by row: a matrix product may round differently with another number of rows.
        whitened = np.stack([(row - self.mean) @ self.whitening for row in vectors])
        scaled: NDArray[np.float32] = np.sqrt(np.square(whitened).mean(axis=1))
        return scaled
