"""Explicit features are finite, bounded and worth what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.features import FEATURE_NAMES, explicit_features


def named(
    text: str, tools: str | None = None, tokens: int = 8, unknown: int = 0
) -> dict[str, float]:
    values = explicit_features(text, tools, tokens=tokens, unknown_tokens=unknown)
    return dict(zip(FEATURE_NAMES, values.tolist(), strict=True))


@given(
    st.text(),
    st.none() | st.text(),
    st.integers(min_value=0, max_value=10**6),
)
def test_every_feature_of_any_text_is_finite_and_small(
    text: str, tools: str | None, tokens: int
) -> None:
    values = explicit_features(text, tools, tokens=tokens, unknown_tokens=tokens // 2)
    assert values.shape == (len(FEATURE_NAMES),)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    assert (values >= 0.0).all()
    assert (values <= 4.0).all()


def test_shares_are_of_all_characters() -> None:
    features = named("ab12", tokens=2)
    assert features["digit_share"] == pytest.approx(0.5)
    assert features["upper_share"] == 0.0
    assert named("ABcd")["upper_share"] == pytest.approx(0.5)
    assert named("né")["non_ascii_share"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("What is the capital of France?", "asks_fact"),
        ("How does a turbine work?", "asks_explanation"),
        ("Is the sea salt?", "asks_yes_no"),
        ("```\nx\n```", "has_code_block"),
        ("def f():\n    pass", "has_code_block"),
    ],
)
def test_question_types_and_code_are_marked(text: str, mark: str) -> None:
    assert named(text)[mark] == 1.0
    assert named("The weather was fine")[mark] == 0.0


def test_four_option_lines_count_as_one() -> None:
    text = "Which?\nA. one\nB. two\nC. three\nD. four"
    assert named(text)["option_lines"] == pytest.approx(1.0)


def test_unknown_tools_differ_from_none_on_offer() -> None:
    assert named("x", None)["tools_known"] == 0.0
    assert named("x", "")["tools_known"] == 1.0
    assert named("x", "")["log_tools"] == 0.0
    assert named("x", "a: one\nb: two")["log_tools"] == pytest.approx(np.log(3.0) / 3.0, rel=1e-6)


def test_a_long_text_is_read_at_both_ends_only() -> None:
    text = "a" * 5000 + "7" * 200_000 + "b" * 5000
    assert named(text)["digit_share"] == 0.0
