"""Time the encoder's forward pass alone: the least that a Route can take on this machine."""

from __future__ import annotations

import time

import numpy as np
import onnxruntime as ort
from k6_load import percentiles_ms

from router.artifact import load_artifact
from router.encoder import OUTPUTS
from router.features import FEATURE_NAMES

LENGTHS_TOKENS = (8, 16, 32, 128)
_WARM_UP = 3


def forward_pass_ms(*, seconds_each: float) -> dict[int, dict[str, float]]:
    """Return percentiles, milliseconds, by input length, tokens; one row, one thread, int8.

    Tokenising, features and calibration are not in it.

    Args:
        seconds_each: How long to measure each length.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(
        str(load_artifact("laya-base").graph("int8")),
        sess_options=options,
        providers=["CPUExecutionProvider"],
    )
    return {length: _measure(session, length, seconds_each) for length in LENGTHS_TOKENS}


def _measure(session: ort.InferenceSession, length: int, seconds: float) -> dict[str, float]:
    # Which tokens they are makes no difference to the work.
    inputs = {
        "input_ids": np.arange(1, length + 1, dtype=np.int64)[None],
        "attention_mask": np.ones((1, length), dtype=np.int64),
        "features": np.zeros((1, len(FEATURE_NAMES)), dtype=np.float32),
    }
    for _ in range(_WARM_UP):
        session.run(list(OUTPUTS), inputs)
    took_s: list[float] = []
    ends_s = time.perf_counter() + seconds
    while not took_s or time.perf_counter() < ends_s:
        started_s = time.perf_counter()
        session.run(list(OUTPUTS), inputs)
        took_s.append(time.perf_counter() - started_s)
    return {**percentiles_ms(np.asarray(took_s)), "passes": len(took_s)}
