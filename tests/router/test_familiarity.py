"""Other languages and noise are told from ordinary text by the artifact's own tables."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from router.errors import ArtifactError
from router.familiarity import STATISTICS, TEXT_FEATURES, Familiarity, classifier_inputs
from router.features import FEATURE_NAMES

FEATURES = np.arange(len(FEATURE_NAMES), dtype=np.float32)
INPUTS = len(TEXT_FEATURES) + len(STATISTICS)
# Token 0 is common and native, 1 common and foreign, 2 rare and neither.
RARITY = np.asarray([-1.0, -1.0, 5.0], np.float32)
ODDS = np.asarray([-2.0, 3.0, 0.0], np.float32)


def weights(**columns: tuple[int, float]) -> np.ndarray:
    """One weight a named statistic, in the given column."""
    values = np.zeros((INPUTS, 3), np.float32)
    for name, (kind, weight) in columns.items():
        values[len(TEXT_FEATURES) + STATISTICS.index(name), kind] = weight
    return values


@pytest.fixture
def familiarity() -> Familiarity:
    return Familiarity(
        rarity=RARITY,
        foreign_odds=ODDS,
        weights=weights(mean_foreign_odds=(1, 2.0), mean_rarity=(2, 1.0)),
        bias=np.zeros(3, np.float32),
        thresholds=np.asarray([0.9, 0.8], np.float32),
    )


def ids(*tokens: int) -> np.ndarray:
    return np.asarray(tokens, np.int64)


def test_the_statistics_are_those_worked_out_by_hand() -> None:
    values = classifier_inputs(ids(0, 1, 1, 2), FEATURES, RARITY, ODDS)
    found = dict(zip(STATISTICS, values[len(TEXT_FEATURES) :].tolist(), strict=True))
    assert found == pytest.approx(
        {
            "mean_rarity": 0.5,
            "high_rarity": -1.0,
            "spread_of_rarity": np.std([-1, -1, -1, 5]),
            "rare_share": 0.25,
            "repeated_share": 0.25,
            "mean_foreign_odds": 1.0,
            "evidence_of_foreign": 2.0,
            "foreign_share": 0.5,
            "native_share": 0.25,
            "mean_native_odds": -0.5,
        }
    )


def test_what_is_offered_beside_the_text_does_not_count() -> None:
    values = classifier_inputs(ids(0), FEATURES, RARITY, ODDS)[: len(TEXT_FEATURES)]
    left_out = {FEATURE_NAMES.index(n) for n in ("tools_known", "log_tools")}
    assert values.tolist() == [i for i in range(len(FEATURE_NAMES)) if i not in left_out]


def test_each_kind_is_named_by_its_own_test(familiarity: Familiarity) -> None:
    assert familiarity.judge(ids(0, 0, 0), FEATURES) == (True, True)
    assert familiarity.judge(ids(1, 1, 1), FEATURES) == (False, True)
    assert familiarity.judge(ids(2, 2, 2), FEATURES) == (True, False)


def test_the_probabilities_sum_to_one_and_follow_the_softmax(familiarity: Familiarity) -> None:
    shares = familiarity.probabilities(ids(1, 0), FEATURES)
    logits = np.asarray([0.0, 2.0 * 0.5, -1.0])
    assert shares == pytest.approx(np.exp(logits) / np.exp(logits).sum(), rel=1e-6)


def test_a_text_without_a_token_is_judged_by_its_features_alone(familiarity: Familiarity) -> None:
    assert familiarity.probabilities(ids(), FEATURES) == pytest.approx([1 / 3] * 3)


def test_what_is_saved_is_what_is_loaded(familiarity: Familiarity, tmp_path: Path) -> None:
    familiarity.save(tmp_path / "f.npz")
    loaded = Familiarity.load(tmp_path / "f.npz")
    for tokens in ((0, 1), (2, 2, 1), ()):
        assert loaded.probabilities(ids(*tokens), FEATURES) == pytest.approx(
            familiarity.probabilities(ids(*tokens), FEATURES), abs=1e-3
        )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bias", np.zeros(2, np.float32), r"bias: expected shape \(3,\), got \(2,\)"),
        ("foreign_odds", np.zeros(2, np.float32), r"foreign_odds: expected shape \(3,\)"),
        ("thresholds", np.asarray([0.5, np.nan], np.float32), "thresholds: .*not finite"),
    ],
)
def test_a_damaged_array_is_named(
    familiarity: Familiarity, name: str, value: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(familiarity, **{name: value})


def test_a_file_that_lacks_an_array_is_an_artifact_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", rarity=RARITY)
    with pytest.raises(ArtifactError, match=r"f\.npz: cannot be read: KeyError"):
        Familiarity.load(tmp_path / "f.npz")
    (tmp_path / "g.npz").write_bytes(b"not an archive")
    with pytest.raises(ArtifactError, match=r"g\.npz: cannot be read"):
        Familiarity.load(tmp_path / "g.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short"])
def test_a_file_cut_short_is_an_artifact_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.npz").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"f\.npz: cannot be read"):
        Familiarity.load(tmp_path / "f.npz")


def test_a_table_without_a_length_is_named(familiarity: Familiarity) -> None:
    with pytest.raises(ValueError, match=r"rarity: expected shape \(1,\), got \(\)"):
        replace(familiarity, rarity=np.float32(1.0).reshape(()))
