"""Read and verify a router artifact: the folder a trained encoder ships as.

The folder holds ``config.json``, one ONNX graph a precision, ``tokenizer.json``,
``out_of_distribution.npz``, ``model.safetensors`` with ``encoder.json`` for further training,
and ``SHA256SUMS`` over all of them. Nothing is used before its checksum is verified.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from router.calibration import RouteCalibration
from router.errors import ArtifactError
from router.familiarity import Familiarity
from router.features import FEATURE_NAMES
from router.outlier_detector import OutlierDetector

FORMAT = 2
# Format 1 reads the offered tools as one text; format 2 ends every tool with a separator and
# carries the encoder's shape for further training.
FORMATS = (1, FORMAT)
SUMS = "SHA256SUMS"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
DETECTOR = "out_of_distribution.npz"
WEIGHTS = "model.safetensors"
SHAPE = "encoder.json"
FAMILIARITY = "familiarity.npz"

REGISTERED: Mapping[str, Path] = {"laya-base": Path(__file__).parent / "weights" / "laya-base"}


class CalibrationConfig(BaseModel):
    """Fitted calibration of the route head, in the order of the routes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    temperature: float
    bias: tuple[float, ...]


class ThresholdSearch(BaseModel):
    """How the artifact's threshold was chosen.

    Attributes:
        threshold: The one of least mean cost.
        complex_to_fast: Cost of sending fast what the weak model fails on.
        simple_to_slow: Cost of sending slow what the weak model masters.
        rows: Held-out rows it was chosen on.
        curve: ``(threshold, mean cost a row)``, ascending.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    threshold: float = Field(ge=0.0, le=1.0, allow_inf_nan=False)
    complex_to_fast: float = Field(ge=0.0, allow_inf_nan=False)
    simple_to_slow: float = Field(ge=0.0, allow_inf_nan=False)
    rows: int = Field(ge=1)
    curve: tuple[tuple[float, float], ...] = Field(min_length=1)


class ArtifactConfig(BaseModel):
    """The artifact's ``config.json``.

    Attributes:
        format: Version of this layout.
        name: Registered name.
        routes: Route names in the order of the logits.
        languages: ISO 639-1 codes of the languages it was trained for.
        features: Names of the explicit features its heads were fitted on.
        embedding_dim: Length of the embedding.
        max_tokens: Longest input the encoder can read, tokens.
        threshold: Probability a route has to reach unless configured otherwise.
        threshold_search: How that threshold was chosen; ``None`` where it was set by hand.
        semantic_threshold: Least cosine similarity of a semantic hit unless configured
            otherwise.
        calibration: Calibration of the route head.
        out_of_distribution_threshold: Distances above it make the encoder abstain.
        graphs: File name of the graph by precision.
        training: What it was trained on and how.
        metrics: What the evaluation measured.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: int
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    routes: tuple[str, ...] = Field(min_length=2)
    languages: tuple[str, ...] = Field(min_length=1)
    features: tuple[str, ...]
    embedding_dim: int = Field(ge=1, le=8192)
    max_tokens: int = Field(ge=16)
    threshold: float = Field(ge=0.0, le=1.0, allow_inf_nan=False)
    threshold_search: ThresholdSearch | None = None
    semantic_threshold: float = Field(gt=0.0, le=1.0, allow_inf_nan=False)
    calibration: CalibrationConfig
    out_of_distribution_threshold: float = Field(gt=0.0, allow_inf_nan=False)
    graphs: dict[str, str] = Field(min_length=1)
    training: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> ArtifactConfig:
        if self.format not in FORMATS:
            msg = f"format is {self.format}, this version reads {list(FORMATS)}"
            raise ValueError(msg)
        unknown = sorted(set(self.features) - set(FEATURE_NAMES))
        if unknown or len(set(self.features)) != len(self.features):
            msg = f"features: unknown {unknown} or doubled; retrain the artifact"
            raise ValueError(msg)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A verified artifact.

    Attributes:
        folder: Where it lies.
        config: Its ``config.json``.
        revision: Its name and the first 12 digits of the SHA-256 of its checksums.
        calibration: Calibration of the route head.
        detector: What decides "unlike anything seen in training".
        familiarity: What tells other languages and noise; ``None`` where none was fitted.
    """

    folder: Path
    config: ArtifactConfig
    revision: str
    calibration: RouteCalibration
    detector: OutlierDetector
    familiarity: Familiarity | None = None

    @property
    def routes(self) -> tuple[str, ...]:
        """Route names in the order of the logits."""
        return self.config.routes

    @property
    def threshold(self) -> float:
        """Probability a route has to reach unless configured otherwise."""
        return self.config.threshold

    @property
    def semantic_threshold(self) -> float:
        """Least cosine similarity of a semantic hit unless configured otherwise."""
        return self.config.semantic_threshold

    @property
    def embedding_dim(self) -> int:
        """Length of the embedding."""
        return self.config.embedding_dim

    def graph(self, precision: str) -> Path:
        """Return the path of the graph of ``precision``.

        Raises:
            ArtifactError: If the artifact has none, naming those it has.
        """
        if precision not in self.config.graphs:
            msg = f"{self.folder}: no {precision} graph, only {sorted(self.config.graphs)}"
            raise ArtifactError(msg)
        return self.folder / self.config.graphs[precision]


def load_artifact(name_or_path: str | Path) -> Artifact:
    """Return the verified artifact of a registered name or a folder.

    Raises:
        ArtifactError: Naming the file that is missing, has another checksum or is damaged.
    """
    folder = REGISTERED.get(str(name_or_path), Path(name_or_path))
    if not folder.is_dir():
        known = ", ".join(sorted(REGISTERED))
        msg = f"{name_or_path}: no such artifact folder; registered names: {known}"
        raise ArtifactError(msg)
    sums = read_sums(folder)
    try:
        raw = (folder / CONFIG).read_bytes()
    except OSError as error:
        msg = f"{folder / CONFIG}: cannot be read: {error.strerror}"
        raise ArtifactError(msg) from error
    _verify(folder, CONFIG, sums)
    try:
        config = ArtifactConfig.model_validate_json(raw)
        calibration = RouteCalibration(
            routes=config.routes,
            temperature=config.calibration.temperature,
            bias=config.calibration.bias,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "(top)"
        msg = f"{folder / CONFIG}: {where}: {first['msg']}"
        raise ArtifactError(msg) from None
    except ValueError as error:
        msg = f"{folder / CONFIG}: calibration: {error}"
        raise ArtifactError(msg) from error
    optional = [FAMILIARITY] if FAMILIARITY in sums else []
    for name in (*config.graphs.values(), TOKENIZER, DETECTOR, *optional):
        _verify(folder, name, sums)
    digest = hashlib.sha256((folder / SUMS).read_bytes()).hexdigest()
    return Artifact(
        folder=folder,
        config=config,
        revision=f"{config.name}@{digest[:12]}",
        calibration=calibration,
        detector=OutlierDetector.load(
            folder / DETECTOR,
            dim=config.embedding_dim + len(config.features),
            threshold=config.out_of_distribution_threshold,
        ),
        familiarity=Familiarity.load(folder / FAMILIARITY) if optional else None,
    )


def read_sums(folder: Path) -> dict[str, str]:
    """Return the expected SHA-256 by file name from ``SHA256SUMS``.

    Raises:
        ArtifactError: If the file is missing or a line is malformed, naming the line.
    """
    path = folder / SUMS
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path}: cannot be read: {type(error).__name__}"
        raise ArtifactError(msg) from error
    sums: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = re.fullmatch(r"([0-9a-f]{64})  ([A-Za-z0-9_.-]+)", line)
        if match is None:
            msg = f"{path}, line {number}: expected a SHA-256, two spaces and a file name"
            raise ArtifactError(msg)
        sums[match[2]] = match[1]
    return sums


def verify_all(folder: Path) -> dict[str, str]:
    """Verify every file listed in ``SHA256SUMS`` and return the sums by file name.

    Raises:
        ArtifactError: Naming the first file that is missing or has another checksum.
    """
    sums = read_sums(folder)
    for name in sums:
        _verify(folder, name, sums)
    return sums


def write_sums(folder: Path, names: list[str]) -> None:
    """Write ``SHA256SUMS`` over the named files of ``folder``."""
    lines = [f"{_sha256(folder / name)}  {name}\n" for name in sorted(names)]
    (folder / SUMS).write_text("".join(lines), encoding="ascii")


def _verify(folder: Path, name: str, sums: Mapping[str, str]) -> None:
    path = folder / name
    if name not in sums:
        msg = f"{path}: not listed in {SUMS}"
        raise ArtifactError(msg)
    try:
        found = _sha256(path)
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise ArtifactError(msg) from error
    if found != sums[name]:
        msg = f"{path}: sha256 is {found}, {SUMS} says {sums[name]}"
        raise ArtifactError(msg)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_config(folder: Path, config: ArtifactConfig) -> None:
    """Write ``config.json``, readable by people."""
    text = json.dumps(config.model_dump(mode="json"), indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
