"""Quantise an exported graph to int8.

Matrix products with a constant and the token table become int8, per channel, with
``reduce_range`` because AVX2 without VNNI saturates at full range. The heads stay in float32:
they are tiny, and their outputs are what thresholds are compared with.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Feed = dict[str, NDArray[Any]]

_OPERATORS = ["MatMul", "Gemm", "Gather"]


def quantise_dynamic(full: Path, small: Path) -> None:
    """Write the int8 form of ``full`` whose activations are scaled anew in every pass."""
    with _quiet():
        quantize_dynamic(
            str(full),
            str(small),
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            op_types_to_quantize=_OPERATORS,
            nodes_to_exclude=_heads(full),
            extra_options={"MatMulConstBOnly": True},
        )


def quantise_static(full: Path, small: Path, feeds: Sequence[Feed]) -> None:
    """Write the int8 form of ``full`` whose activations have fixed scales (QDQ format).

    Args:
        full: The float32 graph.
        small: Where the int8 graph goes.
        feeds: Inputs of passes over training rows; their extremes set the scales.

    Raises:
        ValueError: If there are no inputs.
    """
    if not feeds:
        msg = "static quantisation needs inputs to calibrate on"
        raise ValueError(msg)
    with _quiet():
        quantize_static(
            str(full),
            str(small),
            _Feeds(feeds),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            op_types_to_quantize=_OPERATORS,
            nodes_to_exclude=_heads(full),
            extra_options={"MatMulConstBOnly": True},
        )


class _Feeds(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: Sequence[Feed]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> Feed | None:
        """Return the next pass's inputs, None at the end."""
        return next(self._feeds, None)


@contextmanager
def _quiet() -> Iterator[None]:
    # The library advises to optimise the graph first, which would rename the heads' nodes.
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _heads(full: Path) -> list[str]:
    graph = onnx.load(str(full), load_external_data=False).graph
    return [node.name for node in graph.node if "/heads/" in node.name]
