"""The exported graph says what the model says, and int8 leaves the heads alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.train, pytest.mark.timeout(300)]

FEATURES = 19


@pytest.fixture(scope="module")
def exported(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a router with random heads and its float32 graph."""
    import torch

    from router.training.base import load_base
    from router.training.export import export_graph
    from router.training.heads import Router

    torch.manual_seed(0)
    base = load_base(str(tiny_encoder))
    router = Router(base.student, base.new_heads(("a", "b", "c", "d")))
    return router, export_graph(router, tmp_path_factory.mktemp("graph"))


def feed(*rows: list[int]) -> dict[str, np.ndarray]:
    width = max(map(len, rows))
    ids = np.asarray([row + [0] * (width - len(row)) for row in rows], dtype=np.int64)
    mask = np.asarray([[1] * len(row) + [0] * (width - len(row)) for row in rows], dtype=np.int64)
    features = np.linspace(0.0, 1.0, len(rows) * FEATURES, dtype=np.float32)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "features": features.reshape(len(rows), FEATURES),
    }


# No tools, one, three; 3 is the separator.
ROWS = ([2, 100, 110, 3], [2, 100, 3, 120, 3], [2, 90, 3, 91, 92, 3, 93, 3, 94, 95, 3])


def run(graph: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    values: list[np.ndarray] = session.run(None, inputs)
    return values


def test_the_graph_answers_as_the_model_at_any_batch_and_number_of_tools(exported: Any) -> None:
    import torch

    router, graph = exported
    for rows in ((ROWS[0],), ROWS, (ROWS[2], ROWS[0])):
        inputs = feed(*rows)
        with torch.inference_mode():
            wanted = router(*(torch.from_numpy(value) for value in inputs.values()))
        for ours, theirs in zip(run(graph, inputs), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


@pytest.mark.parametrize("method", ["dynamic", "static"])
def test_int8_is_close_and_smaller_and_keeps_the_heads_in_float32(
    exported: Any, tmp_path: Path, method: str
) -> None:
    import onnx

    from router.training.quantise import quantise_dynamic, quantise_static

    _, graph = exported
    small = tmp_path / "small.onnx"
    if method == "dynamic":
        quantise_dynamic(graph, small)
    else:
        quantise_static(graph, small, [feed(*ROWS), feed(ROWS[0])])
    full, quantised = run(graph, feed(*ROWS)), run(small, feed(*ROWS))
    assert (full[-1] * quantised[-1]).sum(axis=1).min() > 0.95
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(small).graph.initializer}
    heads = [name for name in tensors if name.startswith("heads.") and name.endswith("weight")]
    assert heads
    assert {tensors[name].dtype for name in heads} == {np.dtype(np.float32)}
    integers = {n: t for n, t in tensors.items() if t.dtype.itemsize == 1 and t.ndim == 2}
    table = [name for name in integers if "tok_embeddings" in name]
    assert len(table) == 1
    del integers[table[0]]
    assert len(integers) > 4
    # reduce_range: seven bits, so that a sum of two products never overflows 16 bits.
    assert max(int(t.max()) - int(t.min()) for t in integers.values()) <= 128


def test_static_quantisation_needs_rows(exported: Any, tmp_path: Path) -> None:
    from router.training.quantise import quantise_static

    with pytest.raises(ValueError, match="needs inputs to calibrate on"):
        quantise_static(exported[1], tmp_path / "small.onnx", [])
