"""Run the encoder: one forward pass gives every head and the embedding of a text.

Forward passes run in a bounded thread pool behind a batcher, never on the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from router.artifact import Artifact
from router.batcher import TokenBudgetBatcher
from router.domain import EncoderInput, Encoding
from router.errors import ArtifactError
from router.features import FEATURE_NAMES, explicit_features
from router.tokens import InputTokenizer, TokenRow

OUTPUTS = (
    "route_logits",
    "strong_gain",
    "temperature",
    "log_tokens_p50",
    "log_tokens_p95",
    "embedding",
)
TEMPERATURE_RANGE = (0.1, 1.5)


class Encoder:
    """A loaded artifact.

    Use :meth:`load`. All methods are safe to call from several threads; the async ones from
    one event loop.
    """

    def __init__(
        self,
        artifact: Artifact,
        session: ort.InferenceSession,
        tokenizer: InputTokenizer,
        *,
        workers: int,
        max_batch: int,
        max_tokens: int,
    ) -> None:
        self._artifact = artifact
        self._session = session
        self._tokenizer = tokenizer
        self._features = [FEATURE_NAMES.index(name) for name in artifact.config.features]
        self._batcher: TokenBudgetBatcher[EncoderInput, Encoding] = TokenBudgetBatcher(
            self.run,
            max_tokens=4 * max_tokens,
            max_rows=max_batch,
            workers=workers,
            name="encoder",
        )

    @classmethod
    def load(
        cls,
        artifact: Artifact,
        *,
        precision: str = "int8",
        threads: int = 1,
        workers: int = 1,
        max_tokens: int = 512,
        max_batch: int = 32,
    ) -> Self:
        """Return an encoder over a verified artifact.

        Args:
            artifact: What to load.
            precision: Which of its graphs.
            threads: Threads of one forward pass.
            workers: Forward passes run at once.
            max_tokens: Longest input read whole, at most the artifact's own limit.
            max_batch: Most texts in one forward pass.

        Raises:
            ArtifactError: If the graph cannot be loaded or has other outputs than expected, or
                the tokenizer has tokens that the familiarity tables lack.
        """
        path = artifact.graph(precision)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Spinning threads would steal the cores of whatever shares the pod.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            session = ort.InferenceSession(
                str(path), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            # onnxruntime raises one class a cause, none of them public.
            msg = f"{path}: not a loadable ONNX graph ({type(error).__name__})"
            raise ArtifactError(msg) from error
        names = tuple(output.name for output in session.get_outputs())
        if set(OUTPUTS) - set(names):
            msg = f"{path}: expected outputs {list(OUTPUTS)}, got {list(names)}"
            raise ArtifactError(msg)
        limit = min(max_tokens, artifact.config.max_tokens)
        tokenizer = InputTokenizer(
            artifact.folder / "tokenizer.json",
            max_tokens=limit,
            separate_tools=artifact.config.format > 1,
        )
        known = artifact.familiarity
        if known is not None and len(known.rarity) < tokenizer.vocabulary_size:
            msg = (
                f"{artifact.folder}: familiarity knows {len(known.rarity)} tokens, the tokenizer "
                f"has {tokenizer.vocabulary_size}"
            )
            raise ArtifactError(msg)
        return cls(
            artifact,
            session,
            tokenizer,
            workers=workers,
            max_batch=max_batch,
            max_tokens=limit,
        )

    @property
    def revision(self) -> str:
        """Identifies the artifact."""
        return self._artifact.revision

    @property
    def dim(self) -> int:
        """Length of the embedding."""
        return self._artifact.embedding_dim

    async def encode(self, item: EncoderInput, *, deadline_s: float) -> Encoding:
        """Return the encoding of one input.

        Raises:
            DeadlinePassed: If ``deadline_s`` (absolute, monotonic) passes in the queue.
        """
        encoding, queue_ns = await self._batcher.submit(
            item, cost_tokens=self._tokenizer.estimate(item), deadline_s=deadline_s
        )
        return replace(encoding, queue_ns=queue_ns)

    def run(self, items: Sequence[EncoderInput]) -> list[Encoding]:
        """Return the encodings of a batch; blocks for the forward pass."""
        started_ns = time.perf_counter_ns()
        rows = [self._tokenizer.row(item) for item in items]
        features = np.stack(
            [
                explicit_features(
                    item.text,
                    item.tools,
                    tokens=row.text_tokens,
                    unknown_tokens=row.unknown_tokens,
                )
                for item, row in zip(items, rows, strict=True)
            ]
        )
        familiarity = self._artifact.familiarity
        judged = [
            (True, True) if familiarity is None else familiarity.judge(row.text_ids, values)
            for row, values in zip(rows, features, strict=True)
        ]
        features = features[:, self._features]
        outputs = self._forward(rows, features)
        seen = np.concatenate([outputs["embedding"], features], axis=1)
        near = self._artifact.detector.distance(seen) <= self._artifact.detector.threshold
        encode_ns = time.perf_counter_ns() - started_ns
        return [
            self._encoding(
                row,
                features[i],
                {name: values[i] for name, values in outputs.items()},
                language_known=judged[i][0],
                in_distribution=judged[i][1] and bool(near[i]),
                encode_ns=encode_ns,
            )
            for i, row in enumerate(rows)
        ]

    def warm_up(self) -> None:
        """Run a short and a long input once, so that no caller pays for lazy set-up."""
        self.run([EncoderInput(text="warm-up")])
        self.run([EncoderInput(text="warm up " * 300, tools="tool: warm-up")])

    def close(self) -> None:
        """Stop the worker threads."""
        self._batcher.close()

    def _forward(
        self, rows: Sequence[TokenRow], features: NDArray[np.float32]
    ) -> dict[str, NDArray[np.float32]]:
        width = max(len(row.ids) for row in rows)
        ids = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row.ids)] = row.ids
            mask[i, : len(row.ids)] = 1
        values = self._session.run(
            list(OUTPUTS), {"input_ids": ids, "attention_mask": mask, "features": features}
        )
        return dict(zip(OUTPUTS, values, strict=True))

    def _encoding(
        self,
        row: TokenRow,
        features: NDArray[np.float32],
        output: dict[str, NDArray[np.float32]],
        *,
        language_known: bool,
        in_distribution: bool,
        encode_ns: int,
    ) -> Encoding:
        low, high = TEMPERATURE_RANGE
        p50 = max(1, round(float(np.exp(np.clip(output["log_tokens_p50"], 0.0, 14.0)))))
        p95 = max(p50, round(float(np.exp(np.clip(output["log_tokens_p95"], 0.0, 14.0)))))
        names = self._artifact.config.features
        return Encoding(
            route_logits=output["route_logits"],
            strong_gain=float(np.clip(output["strong_gain"], -1.0, 1.0)),
            temperature=float(np.clip(output["temperature"], low, high)),
            output_tokens_p50=p50,
            output_tokens_p95=p95,
            embedding=output["embedding"],
            features={name: float(value) for name, value in zip(names, features, strict=True)},
            input_tokens=row.text_tokens,
            truncated=row.truncated,
            in_distribution=in_distribution,
            language_known=language_known,
            queue_ns=0,
            encode_ns=encode_ns,
        )
