"""The in-process API routes texts without a server."""

import numpy as np
import pytest

from router import LayaRouter
from router.artifact import REGISTERED
from router.errors import ArtifactError


@pytest.fixture(scope="module")
def router() -> LayaRouter:
    return LayaRouter.from_pretrained("laya-base")


def test_a_routed_text_has_every_field(router: LayaRouter) -> None:
    routed = router.route("What is the capital of France?")
    assert routed.tier in {"fast", "slow", "tool"}
    assert set(routed.probabilities) == {"fast", "slow", "tool"}
    assert sum(routed.probabilities.values()) == pytest.approx(1.0)
    assert 0.1 <= routed.temperature <= 1.5
    assert routed.expected_output_tokens >= 1
    assert routed.embedding.shape == (256,)
    assert routed.embedding.dtype == np.float32


def test_a_sure_route_is_taken_and_a_doubtful_one_goes_slow(router: LayaRouter) -> None:
    never = LayaRouter.from_pretrained("laya-base", threshold=1.0)
    always = LayaRouter.from_pretrained("laya-base", threshold=0.0)
    text = "Hello, how are you today?"
    assert never.route(text).tier == "slow"
    assert never.route(text).reason == "BELOW_THRESHOLD"
    sure = always.route(text)
    assert sure.tier == max(sure.probabilities, key=lambda name: sure.probabilities[name])


def test_many_texts_come_back_in_their_order(router: LayaRouter) -> None:
    texts = ["Hi there", "word " * 60, "Who wrote Faust?"] * 12
    together = router.route_many(texts)
    assert len(together) == 36
    for text, routed in zip(texts[:3], together[:3], strict=True):
        assert float(router.route(text).embedding @ routed.embedding) > 0.99


def test_no_texts_give_no_results(router: LayaRouter) -> None:
    assert router.route_many([]) == []


@pytest.mark.parametrize("texts", [["fine", " \n"], ["fine", ""]])
def test_a_blank_text_is_named_by_its_position(router: LayaRouter, texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"texts\[1\]: blank"):
        router.route_many(texts)


def test_a_lone_surrogate_is_named_by_its_position(router: LayaRouter) -> None:
    with pytest.raises(ValueError, match=r"texts\[0\]: holds a lone surrogate"):
        router.route("\ud800")


def test_a_path_works_as_well_as_a_name() -> None:
    by_path = LayaRouter.from_pretrained(REGISTERED["laya-base"])
    assert by_path.route("Hi").embedding.shape == (256,)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ArtifactError, match="laya-base"):
        LayaRouter.from_pretrained("no-such-model")
