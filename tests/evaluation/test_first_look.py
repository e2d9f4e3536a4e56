"""What an operator tries first counts what the service would do, abstentions included."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from router.artifact import FORMAT, Artifact, ArtifactConfig
from router.calibration import RouteCalibration
from router.domain import EncoderInput, Encoding
from router.evaluation.bootstrap import Resampling
from router.evaluation.first_look import measure_first_look
from router.evaluation.settings import Settings
from router.evaluation.skipped import SectionSkipped
from router.evaluation.subject import Subject
from router.features import FEATURE_NAMES
from router.outlier_detector import OutlierDetector


@dataclass(frozen=True)
class ScriptedEncoder:
    """Greetings are easy, and one of them is in no known language; tools always tempt."""

    routes: Sequence[str]
    unknown: str = "Hello humor"

    def run(self, items: Sequence[EncoderInput]) -> list[Encoding]:
        return [self._encoding(item.text) for item in items]

    def _encoding(self, text: str) -> Encoding:
        easy = 3.0 if text.startswith("Hello") else -3.0
        logits = {"fast": easy, "slow": 0.0, "tool": 9.0, "medium": 0.0}
        return Encoding(
            route_logits=np.asarray([logits[name] for name in self.routes], dtype=np.float32),
            strong_gain=0.0,
            temperature=0.7,
            output_tokens_p50=5,
            output_tokens_p95=9,
            embedding=np.zeros(2, dtype=np.float32),
            features=dict.fromkeys(FEATURE_NAMES, 0.0),
            input_tokens=3,
            truncated=False,
            in_distribution=True,
            language_known=text != self.unknown,
            queue_ns=0,
            encode_ns=0,
        )


def subject(routes: tuple[str, ...]) -> Subject:
    dim = 2 + len(FEATURE_NAMES)
    config = ArtifactConfig.model_validate(
        {
            "format": FORMAT,
            "name": "scripted",
            "routes": routes,
            "languages": ["en"],
            "features": FEATURE_NAMES,
            "embedding_dim": 2,
            "max_tokens": 64,
            "threshold": 0.6,
            "semantic_threshold": 0.9,
            "calibration": {"temperature": 1.0, "bias": [0.0] * len(routes)},
            "out_of_distribution_threshold": 1.0,
            "graphs": {"int8": "none.onnx"},
        }
    )
    artifact = Artifact(
        folder=Path("none"),
        config=config,
        revision="scripted@0",
        calibration=RouteCalibration(routes=routes),
        detector=OutlierDetector(
            mean=np.zeros(dim, np.float32), whitening=np.eye(dim, dtype=np.float32), threshold=1.0
        ),
    )
    return Subject(artifact=artifact, encoder=ScriptedEncoder(routes=routes))


def settings(data: Path, work: Path) -> Settings:
    return Settings(data=data, work=work, resampling=Resampling(resamples=20))


def test_an_abstention_counts_as_slow_and_tools_do_not_tempt(data: Path, tmp_path: Path) -> None:
    """Six hard prompts; of six greetings one is in an unknown language."""
    found = measure_first_look(subject(("fast", "slow", "tool")), settings(data, tmp_path))
    hard, talk = found["arena_hard_v01_sent_slow"], found["small_talk_sent_fast"]
    assert (found["n"], hard["n"], talk["n"]) == (12, 6, 6)
    assert hard["share"]["router"]["value"] == 1.0
    assert talk["share"]["router"]["value"] == pytest.approx(5 / 6)
    assert talk["abstaining"] == pytest.approx(1 / 6)
    assert found["auc_small_talk"]["router"]["value"] == 1.0


def test_an_artifact_without_a_fast_route_is_skipped(data: Path, tmp_path: Path) -> None:
    with pytest.raises(SectionSkipped, match="no fast route"):
        measure_first_look(subject(("medium", "slow")), settings(data, tmp_path))


@pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is not None, reason="the library is installed"
)
def test_without_the_library_the_baselines_are_missing_by_name(data: Path, tmp_path: Path) -> None:
    found = measure_first_look(subject(("fast", "slow")), settings(data, tmp_path))
    assert set(found["missing"]) >= {"length", "tfidf"}
    assert not {"length", "tfidf"} & set(found["arena_hard_v01_sent_slow"]["share"])


@pytest.mark.train
def test_learned_baselines_stand_beside_the_router_with_thresholds_of_their_own(
    data: Path, tmp_path: Path
) -> None:
    found = measure_first_look(subject(("fast", "slow")), settings(data, tmp_path))
    assert not {"length", "tfidf"} & set(found["missing"])
    for name in ("length", "tfidf"):
        assert 0.0 <= found["thresholds"][name] <= 1.0
        assert 0.0 <= found["small_talk_sent_fast"]["share"][name]["value"] <= 1.0
    # Hard rows are long and easy ones short, which is all that length has to learn.
    assert found["auc_small_talk"]["length"]["value"] > 0.9
