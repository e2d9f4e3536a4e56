"""The artifact under test is asked once a text and decided as the service would."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from router.artifact import FORMAT, Artifact, ArtifactConfig
from router.calibration import RouteCalibration
from router.domain import EncoderInput, Encoding, Reason, Tier
from router.evaluation.subject import Subject, abstaining, sent_to
from router.features import FEATURE_NAMES
from router.outlier_detector import OutlierDetector


@dataclass
class ScriptedEncoder:
    """Gives a text the logits scripted for it and remembers every batch."""

    logits: dict[str, Sequence[float]]
    batches: list[list[str]] = field(default_factory=list)

    def run(self, items: Sequence[EncoderInput]) -> list[Encoding]:
        self.batches.append([item.text for item in items])
        return [encoding(self.logits[item.text]) for item in items]


def encoding(logits: Sequence[float]) -> Encoding:
    return Encoding(
        route_logits=np.asarray(logits, dtype=np.float32),
        strong_gain=0.0,
        temperature=0.7,
        output_tokens_p50=5,
        output_tokens_p95=9,
        embedding=np.zeros(2, dtype=np.float32),
        features=dict.fromkeys(FEATURE_NAMES, 0.0),
        input_tokens=3,
        truncated=False,
        in_distribution=True,
        language_known=True,
        queue_ns=0,
        encode_ns=0,
    )


def subject(routes: Sequence[str], logits: dict[str, Sequence[float]], threshold: float = 0.6):
    dim = 2 + len(FEATURE_NAMES)
    config = ArtifactConfig.model_validate(
        {
            "format": FORMAT,
            "name": "scripted",
            "routes": list(routes),
            "languages": ["en"],
            "features": FEATURE_NAMES,
            "embedding_dim": 2,
            "max_tokens": 64,
            "threshold": threshold,
            "semantic_threshold": 0.9,
            "calibration": {"temperature": 1.0, "bias": [0.0] * len(routes)},
            "out_of_distribution_threshold": 1.0,
            "graphs": {"int8": "none.onnx"},
        }
    )
    artifact = Artifact(
        folder=None,
        config=config,
        revision="scripted@0",
        calibration=RouteCalibration(routes=tuple(routes)),
        detector=OutlierDetector(
            mean=np.zeros(dim, np.float32), whitening=np.eye(dim, dtype=np.float32), threshold=1.0
        ),
    )
    return Subject(artifact=artifact, encoder=ScriptedEncoder(logits=logits))


LN = np.log
THREE = ("fast", "slow", "tool")


def test_every_text_is_encoded_alone_and_once() -> None:
    tested = subject(THREE, {"a": [0, 0, 0], "b": [1, 0, 0]})
    items = [EncoderInput(text=text) for text in ("a", "b", "a")]
    encodings = tested.encode(items, "rows")
    assert tested.encoder.batches == [["a"], ["b"]]
    assert encodings[0] is encodings[2]
    tested.encode(items[:1], "again")
    assert len(tested.encoder.batches) == 2


def test_the_same_text_beside_tools_is_another_input() -> None:
    tested = subject(THREE, {"a": [0, 0, 0]})
    tested.encode([EncoderInput(text="a"), EncoderInput(text="a", tools="t: x")], "rows")
    assert len(tested.encoder.batches) == 2


def test_masking_tools_renormalises_the_rest() -> None:
    """Odds 1 : 3 : 4 are 1/8 with tools and 1/4 without."""
    tested = subject(THREE, {"a": [0.0, LN(3.0), LN(4.0)]})
    encodings = tested.encode([EncoderInput(text="a")], "rows")
    assert tested.probability(encodings, Tier.FAST, mask_tools=False)[0] == pytest.approx(1 / 8)
    assert tested.probability(encodings, Tier.FAST, mask_tools=True)[0] == pytest.approx(1 / 4)
    assert tested.probability(encodings, Tier.TOOL, mask_tools=True)[0] == 0.0


def test_two_and_four_routes_work_and_an_unknown_name_means_slow() -> None:
    two = subject(("fast", "slow"), {"a": [LN(9.0), 0.0]})
    assert not two.has(Tier.TOOL)
    encodings = two.encode([EncoderInput(text="a")], "rows")
    assert two.probability(encodings, Tier.FAST, mask_tools=True)[0] == pytest.approx(0.9)
    four = subject(("fast", "slow", "tool", "code"), {"a": [0.0, 0.0, 0.0, LN(5.0)]})
    encodings = four.encode([EncoderInput(text="a")], "rows")
    assert four.tiers["code"] is Tier.SLOW
    assert four.probability(encodings, Tier.SLOW, mask_tools=False)[0] == pytest.approx(6 / 8)
    assert four.decide(encodings, mask_tools=False)[0].tier is Tier.SLOW


def test_decisions_take_the_artifacts_threshold_unless_told_otherwise() -> None:
    """P(fast) is .75 against .25."""
    tested = subject(THREE, {"a": [LN(3.0), 0.0, -20.0]}, threshold=0.8)
    encodings = tested.encode([EncoderInput(text="a")], "rows")
    assert not sent_to(tested.decide(encodings, mask_tools=True), Tier.FAST)[0]
    assert sent_to(tested.decide(encodings, mask_tools=True, threshold=0.7), Tier.FAST)[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"truncated": True}, Reason.INPUT_TRUNCATED),
        ({"language_known": False}, Reason.ABSTAINED_LANGUAGE),
        ({"in_distribution": False}, Reason.ABSTAINED_OUT_OF_DISTRIBUTION),
    ],
)
def test_what_is_not_understood_goes_slow_and_counts_as_abstaining(change, reason) -> None:
    tested = subject(THREE, {})
    sure = encoding([20.0, 0.0, 0.0])
    encodings = [sure, replace(sure, **change)]
    verdicts = tested.decide(encodings, mask_tools=True)
    assert [verdict.tier for verdict in verdicts] == [Tier.FAST, Tier.SLOW]
    assert verdicts[1].reason is reason
    np.testing.assert_array_equal(abstaining(encodings), [False, True])


def test_the_outlier_distance_is_the_detectors() -> None:
    """All zero but one feature of 3: 3 / sqrt(dim)."""
    tested = subject(THREE, {})
    far = replace(
        encoding([0, 0, 0]), features={**dict.fromkeys(FEATURE_NAMES, 0.0), "log_chars": 3.0}
    )
    expected = 3.0 / np.sqrt(2 + len(FEATURE_NAMES))
    assert tested.outlier_distance([far])[0] == pytest.approx(expected)
