"""Export the trained router as an artifact folder: ONNX graph, weights, checksums."""

from __future__ import annotations

import shutil
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch

from router.artifact import (
    CONFIG,
    DETECTOR,
    FAMILIARITY,
    FORMAT,
    SHAPE,
    TOKENIZER,
    WEIGHTS,
    ArtifactConfig,
    ThresholdSearch,
    write_config,
    write_sums,
)
from router.encoder import OUTPUTS
from router.familiarity import Familiarity
from router.features import FEATURE_NAMES
from router.training.quantise import quantise_dynamic

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from router.training.heads import Router

INT8_GRAPH = "model.int8.onnx"
FP32_GRAPH = "model.fp32.onnx"
OPSET = 17


def export_graphs(router: Router, work: Path) -> tuple[Path, Path]:
    """Write the float32 graph and its dynamically quantised int8 form; return both paths."""
    full, small = export_graph(router, work), work / INT8_GRAPH
    quantise_dynamic(full, small)
    return full, small


def export_graph(router: Router, work: Path) -> Path:
    """Write the float32 graph into ``work``; return its path."""
    router.eval()
    router.student.encoder.config._attn_implementation = "eager"  # noqa: SLF001 - traced plainly
    full = work / FP32_GRAPH
    rows, width = 2, 9
    example = (
        torch.ones((rows, width), dtype=torch.int64),
        torch.ones((rows, width), dtype=torch.int64),
        torch.zeros((rows, len(FEATURE_NAMES))),
    )
    sequence = {0: "batch", 1: "tokens"}
    with warnings.catch_warnings(), torch.inference_mode():
        # The tracer warns about shapes it fixes; the tests compare its graph with the model.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            router,
            example,
            str(full),
            input_names=["input_ids", "attention_mask", "features"],
            output_names=list(OUTPUTS),
            dynamic_axes={
                "input_ids": sequence,
                "attention_mask": sequence,
                "features": {0: "batch"},
                **{name: {0: "batch"} for name in OUTPUTS},
            },
            opset_version=OPSET,
            dynamo=False,
        )
    return full


def write_artifact(
    folder: Path,
    *,
    router: Router,
    graph: Path,
    tokenizer: Path,
    detector: tuple[NDArray[np.float32], NDArray[np.float32], float],
    config: ArtifactConfig,
    familiarity: Familiarity | None = None,
) -> None:
    """Write everything the service loads into ``folder``, checksums last.

    ``graph`` gets the one name that ``config.graphs`` has.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (graph_name,) = config.graphs.values()
    shutil.copyfile(graph, folder / graph_name)
    shutil.copyfile(tokenizer, folder / TOKENIZER)
    mean, whitening, _ = detector
    np.savez(folder / DETECTOR, mean=mean, whitening=whitening)
    tensors = {
        name: tensor.detach().half().contiguous() for name, tensor in router.state_dict().items()
    }
    save_file(tensors, str(folder / WEIGHTS), metadata={"format": "pt"})
    router.student.encoder.config.to_json_file(str(folder / SHAPE), use_diff=True)
    write_config(folder, config)
    names = [graph_name, TOKENIZER, DETECTOR, WEIGHTS, SHAPE, CONFIG]
    if familiarity is not None:
        familiarity.save(folder / FAMILIARITY)
        names.append(FAMILIARITY)
    write_sums(folder, names)


def draft_config(
    *,
    calibration: tuple[float, tuple[float, ...]],
    detector_threshold: float,
    search: ThresholdSearch,
    routes: tuple[str, ...],
) -> ArtifactConfig:
    """Return a config without metrics, to be completed."""
    temperature, bias = calibration
    return ArtifactConfig.model_validate(
        {
            "format": FORMAT,
            "name": "laya-base",
            "routes": routes,
            "languages": ["en"],
            "features": FEATURE_NAMES,
            "embedding_dim": 256,
            "max_tokens": 1024,
            "threshold": search.threshold,
            "threshold_search": search,
            # Conservative until a bound on false hits is fitted; figures in the card.
            "semantic_threshold": 0.97,
            "calibration": {"temperature": temperature, "bias": bias},
            "out_of_distribution_threshold": detector_threshold,
            "graphs": {"int8": INT8_GRAPH},
        }
    )
