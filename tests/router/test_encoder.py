"""The shipped encoder gives every head and the embedding in one run."""

import asyncio
import math
from collections.abc import Iterator

import numpy as np
import pytest

from router.artifact import load_artifact
from router.domain import EncoderInput, Encoding
from router.encoder import Encoder
from router.errors import DeadlinePassed
from router.features import FEATURE_NAMES


@pytest.fixture(scope="module")
def encoder() -> Iterator[Encoder]:
    loaded = Encoder.load(load_artifact("laya-base"), max_tokens=128)
    loaded.warm_up()
    yield loaded
    loaded.close()


async def encode_all(encoder: Encoder, items: list[EncoderInput]) -> list[Encoding]:
    return list(await asyncio.gather(*(encoder.encode(i, deadline_s=math.inf) for i in items)))


def test_every_output_is_in_its_range(encoder: Encoder) -> None:
    texts = [
        "Hi",
        "Prove that there are infinitely many primes.",
        "x" * 5000,
        "帮我写一个排序",
        "\t",
    ]
    for encoding in encoder.run([EncoderInput(text=text) for text in texts]):
        assert encoding.route_logits.shape == (3,)
        assert np.isfinite(encoding.route_logits).all()
        assert -1.0 <= encoding.strong_gain <= 1.0
        assert 0.1 <= encoding.temperature <= 1.5
        assert 1 <= encoding.output_tokens_p50 <= encoding.output_tokens_p95
        assert np.linalg.norm(encoding.embedding) == pytest.approx(1.0, abs=1e-3)
        assert tuple(encoding.features) == FEATURE_NAMES


def test_one_text_gives_the_same_encoding_every_time(encoder: Encoder) -> None:
    runs = [encoder.run([EncoderInput(text="What is 2 + 2?")])[0] for _ in range(3)]
    for other in runs[1:]:
        np.testing.assert_array_equal(other.embedding, runs[0].embedding)
        np.testing.assert_array_equal(other.route_logits, runs[0].route_logits)


def test_company_in_a_batch_hardly_moves_an_encoding(encoder: Encoder) -> None:
    """int8 activations are scaled per forward pass, so equality is not exact."""
    alone = encoder.run([EncoderInput(text="What is the capital of France?")])[0]
    items = [EncoderInput(text=t) for t in ("What is the capital of France?", "Hi", "Sort " * 30)]
    beside = encoder.run(items)[0]
    assert float(alone.embedding @ beside.embedding) > 0.99


def test_a_paraphrase_is_closer_than_another_question(encoder: Encoder) -> None:
    texts = ("How do I reset my password?", "How can I reset my password?", "Who painted Guernica?")
    one, two, three = (e.embedding for e in encoder.run([EncoderInput(text=t) for t in texts]))
    assert float(one @ two) > float(one @ three) + 0.2


async def test_concurrent_callers_share_passes_and_get_their_own_results(
    encoder: Encoder,
) -> None:
    texts = [f"What is {n} plus {n}?" for n in range(20)]
    items = [EncoderInput(text=t) for t in texts]
    together = await encode_all(encoder, items)
    for text, encoding in zip(texts, together, strict=True):
        alone = encoder.run([EncoderInput(text=text)])[0]
        assert float(alone.embedding @ encoding.embedding) > 0.99


async def test_a_passed_deadline_is_an_error_and_not_a_forward_pass(encoder: Encoder) -> None:
    with pytest.raises(DeadlinePassed):
        await encoder.encode(EncoderInput(text="late"), deadline_s=0.0)


async def test_the_event_loop_runs_on_during_a_forward_pass(encoder: Encoder) -> None:
    ticks = 0
    running = asyncio.create_task(encode_all(encoder, [EncoderInput(text="word " * 120)] * 16))
    while not running.done():
        await asyncio.sleep(0)
        ticks += 1
    assert len(running.result()) == 16
    assert ticks > 10


def test_a_long_input_is_flagged_and_counted(encoder: Encoder) -> None:
    encoding = encoder.run([EncoderInput(text="word " * 1000)])[0]
    assert encoding.truncated
    assert encoding.input_tokens == pytest.approx(1000, rel=0.01)
