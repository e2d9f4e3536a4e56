"""A damaged artifact is refused with the file's name, before anything of it is used."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from router import LayaRouter
from router.artifact import (
    CONFIG,
    DETECTOR,
    FAMILIARITY,
    REGISTERED,
    SUMS,
    load_artifact,
    verify_all,
    write_sums,
)
from router.encoder import Encoder
from router.errors import ArtifactError
from router.familiarity import STATISTICS, TEXT_FEATURES, Familiarity
from router.outlier_detector import OutlierDetector

SHIPPED = REGISTERED["laya-base"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A private copy of the shipped artifact without the weights for further training."""
    copy = tmp_path / "artifact"
    shutil.copytree(SHIPPED, copy, ignore=shutil.ignore_patterns("model.safetensors"))
    return copy


def resum(folder: Path) -> None:
    write_sums(folder, [p.name for p in folder.iterdir() if p.name not in {SUMS, "README.md"}])


def edit_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | changes))
    resum(folder)


def test_every_shipped_file_has_the_checksum_that_is_listed() -> None:
    assert set(verify_all(SHIPPED)) >= {CONFIG, DETECTOR, "tokenizer.json", "model.safetensors"}


def test_every_shipped_file_stays_under_forty_megabytes() -> None:
    assert max(path.stat().st_size for path in SHIPPED.iterdir()) < 40_000_000


def test_the_revision_names_the_artifact_and_changes_with_its_content(folder: Path) -> None:
    before = load_artifact(folder).revision
    assert before.startswith("laya-base@")
    assert len(before) == len("laya-base@") + 12
    edit_config(folder, threshold=0.7)
    assert load_artifact(folder).revision != before


@pytest.mark.parametrize("name", ["model.int8.onnx", "tokenizer.json", CONFIG, DETECTOR])
def test_one_flipped_bit_is_a_checksum_error_that_names_the_file(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=rf"{name}: sha256 is [0-9a-f]{{64}}, SHA256SUMS says"):
        load_artifact(folder)


@pytest.mark.parametrize("name", ["model.int8.onnx", "tokenizer.json", CONFIG, DETECTOR, SUMS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=rf"{name}: cannot be read"):
        load_artifact(folder)


def test_a_truncated_graph_with_a_matching_checksum_is_still_refused(folder: Path) -> None:
    graph = folder / "model.int8.onnx"
    graph.write_bytes(graph.read_bytes()[:100_000])
    resum(folder)
    with pytest.raises(ArtifactError, match=r"model\.int8\.onnx: not a loadable ONNX graph"):
        Encoder.load(load_artifact(folder))


def test_a_malformed_checksum_line_is_named(folder: Path) -> None:
    (folder / SUMS).write_text("nonsense\n")
    with pytest.raises(ArtifactError, match="SHA256SUMS, line 1"):
        load_artifact(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 99}, "format is 99"),
        ({"features": ["other"]}, "unknown \\['other'\\]"),
        ({"threshold": 1.5}, "threshold: "),
        ({"routes": ["fast"]}, "routes: "),
        (
            {"calibration": {"temperature": 0.0, "bias": [0.0, 0.0, 0.0]}},
            "calibration: temperature",
        ),
        ({"surprise": 1}, "surprise: "),
    ],
)
def test_a_bad_config_names_the_key(folder: Path, changes: dict[str, object], message: str) -> None:
    edit_config(folder, **changes)
    with pytest.raises(ArtifactError, match=message):
        load_artifact(folder)


def test_a_detector_of_another_shape_is_refused_with_both_shapes(folder: Path) -> None:
    np.savez(folder / DETECTOR, mean=np.zeros(3), whitening=np.eye(3))
    resum(folder)
    with pytest.raises(ArtifactError, match=r"expected shapes .*, got \(3,\) and \(3, 3\)"):
        load_artifact(folder)


def test_an_unknown_name_lists_the_registered_ones() -> None:
    with pytest.raises(ArtifactError, match="registered names: laya-base"):
        load_artifact("laya-bose")


def test_an_unknown_precision_lists_those_there_are() -> None:
    with pytest.raises(ArtifactError, match=r"no fp32 graph, only \['int8'\]"):
        load_artifact("laya-base").graph("fp32")


def test_the_distance_is_the_root_mean_square_of_whitened_coordinates() -> None:
    """Variances 4 and 1: (2, 1) is one deviation away on both axes, (4, 0) two on one."""
    detector = OutlierDetector(
        mean=np.zeros(2, np.float32),
        whitening=np.diag([0.5, 1.0]).astype(np.float32),
        threshold=1.0,
    )
    distances = detector.distance(np.array([[2.0, 1.0], [4.0, 0.0]], np.float32))
    np.testing.assert_allclose(distances, [1.0, np.sqrt(2.0)], rtol=1e-6)


def familiarity(tokens: int, bias: tuple[float, ...] = (9.0, 0.0, 0.0)) -> Familiarity:
    return Familiarity(
        rarity=np.zeros(tokens, np.float32),
        foreign_odds=np.zeros(tokens, np.float32),
        weights=np.zeros((len(TEXT_FEATURES) + len(STATISTICS), 3), np.float32),
        bias=np.asarray(bias, np.float32),
        thresholds=np.asarray([0.5, 0.5], np.float32),
    )


def test_tables_for_fewer_tokens_than_there_are_are_refused(folder: Path) -> None:
    familiarity(100).save(folder / FAMILIARITY)
    resum(folder)
    with pytest.raises(ArtifactError, match="knows 100 tokens, the tokenizer has 30522"):
        Encoder.load(load_artifact(folder))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"text"])
def test_a_detector_that_is_no_array_file_is_named(folder: Path, content: bytes) -> None:
    (folder / DETECTOR).write_bytes(content)
    resum(folder)
    with pytest.raises(ArtifactError, match=rf"{DETECTOR}: cannot be read"):
        load_artifact(folder)


@pytest.mark.parametrize(
    ("bias", "reason"),
    [
        ((9.0, 0.0, 0.0), None),
        ((0.0, 9.0, 0.0), "ABSTAINED_LANGUAGE"),
        ((0.0, 0.0, 9.0), "ABSTAINED_OUT_OF_DISTRIBUTION"),
    ],
)
def test_what_the_artifact_calls_unfamiliar_goes_slow_with_its_own_reason(
    folder: Path, bias: tuple[float, ...], reason: str | None
) -> None:
    familiarity(30522, bias).save(folder / FAMILIARITY)
    resum(folder)
    routed = LayaRouter.from_pretrained(folder).route("hello there, how are you?")
    if reason is None:
        assert not routed.reason.startswith("ABSTAINED")
    else:
        assert (routed.tier, routed.reason) == ("slow", reason)


def test_an_artifact_fitted_on_some_of_the_features_gets_those_in_its_order(folder: Path) -> None:
    edit_config(folder, features=["log_words", "log_chars"])
    with pytest.raises(ArtifactError, match=r"expected shapes \(258,\)"):
        load_artifact(folder)
    np.savez(folder / DETECTOR, mean=np.zeros(258), whitening=np.eye(258))
    resum(folder)
    assert load_artifact(folder).config.features == ("log_words", "log_chars")
