"""Export the trained router as an artifact folder: int8 ONNX graph, weights, checksums."""

from __future__ import annotations

import shutil
import warnings
from typing import TYPE_CHECKING

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from router.artifact import (
    CONFIG,
    DETECTOR,
    FORMAT,
    TOKENIZER,
    WEIGHTS,
    ArtifactConfig,
    write_config,
    write_sums,
)
from router.encoder import OUTPUTS
from router.features import FEATURE_NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from router.training.heads import Router

INT8_GRAPH = "model.int8.onnx"
OPSET = 17


def export_graphs(router: Router, work: Path) -> tuple[Path, Path]:
    """Write the float32 graph and its int8 form; return both paths.

    Matrix products and the token table become int8, per channel, with ``reduce_range``
    because AVX2 without VNNI saturates at full range. The heads stay in float32: they are
    tiny, and their outputs are what thresholds are compared with.
    """
    router.eval()
    router.student.encoder.config._attn_implementation = "eager"  # noqa: SLF001 - traced plainly
    full = work / "model.fp32.onnx"
    rows, width = 2, 9
    example = (
        torch.ones((rows, width), dtype=torch.int64),
        torch.ones((rows, width), dtype=torch.int64),
        torch.zeros((rows, len(FEATURE_NAMES))),
    )
    sequence = {0: "batch", 1: "tokens"}
    with warnings.catch_warnings(), torch.inference_mode():
        # The tracer warns about shapes it fixes; the parity check below is what counts.
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
    graph = onnx.load(str(full))
    kept = [node.name for node in graph.graph.node if "/heads/" in node.name]
    small = work / INT8_GRAPH
    quantize_dynamic(
        str(full),
        str(small),
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        op_types_to_quantize=["MatMul", "Gemm", "Gather"],
        nodes_to_exclude=kept,
        extra_options={"MatMulConstBOnly": True},
    )
    return full, small


def write_artifact(
    folder: Path,
    *,
    router: Router,
    graph: Path,
    tokenizer: Path,
    detector: tuple[NDArray[np.float32], NDArray[np.float32], float],
    config: ArtifactConfig,
) -> None:
    """Write everything the service loads into ``folder``, checksums last."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(graph, folder / INT8_GRAPH)
    shutil.copyfile(tokenizer, folder / TOKENIZER)
    mean, whitening, _ = detector
    np.savez(folder / DETECTOR, mean=mean, whitening=whitening)
    tensors = {
        name: tensor.detach().half().contiguous() for name, tensor in router.state_dict().items()
    }
    save_file(tensors, str(folder / WEIGHTS), metadata={"format": "pt"})
    write_config(folder, config)
    write_sums(folder, [INT8_GRAPH, TOKENIZER, DETECTOR, WEIGHTS, CONFIG])


def draft_config(
    *,
    calibration: tuple[float, tuple[float, ...]],
    detector_threshold: float,
    routes: tuple[str, ...],
) -> ArtifactConfig:
    """Return a config without thresholds and metrics of its own, to be completed."""
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
            "threshold": 0.6,
            # Conservative until a bound on false hits is fitted; figures in the card.
            "semantic_threshold": 0.97,
            "calibration": {"temperature": temperature, "bias": bias},
            "out_of_distribution_threshold": detector_threshold,
            "graphs": {"int8": INT8_GRAPH},
        }
    )
