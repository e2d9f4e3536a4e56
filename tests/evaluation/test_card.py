"""The model card says what was measured and hides nothing that was missed."""

from pathlib import Path
from typing import Any

import pytest

from router.artifact import FORMAT, ArtifactConfig
from router.evaluation.card import card, write_card
from router.evaluation.targets import target_table
from router.features import FEATURE_NAMES

CONFIG = ArtifactConfig.model_validate(
    {
        "format": FORMAT,
        "name": "tiny",
        "routes": ["fast", "slow", "tool"],
        "languages": ["en", "zh"],
        "features": FEATURE_NAMES,
        "embedding_dim": 4,
        "max_tokens": 64,
        "threshold": 0.71,
        "semantic_threshold": 0.97,
        "calibration": {"temperature": 1.0, "bias": [0.0, 0.0, 0.0]},
        "out_of_distribution_threshold": 1.5,
        "graphs": {"int8": "model.int8.onnx"},
        "training": {"presentations": 1500000, "distillation": {"seed": 0}},
    }
)


def figure(value: float) -> dict[str, Any]:
    return {"value": value, "low": value - 0.05, "high": value + 0.05, "n": 40}


def report(**changes: Any) -> dict[str, Any]:
    sections: dict[str, Any] = {
        "routing": {
            "groups": {
                "routellm_mmlu/ood": {
                    "n": 40,
                    "metrics": {"auc_weak_fails": {"router": figure(0.6912)}},
                    "calibration": {"ece_debiased": figure(0.0432)},
                }
            }
        },
        "temperature": {
            "n": 40,
            "mean_absolute_error": figure(0.15),
            "best_constant": figure(0.3),
            "ratio": figure(0.5),
            "spearman": figure(0.55),
        },
        "latency": {"skipped": "the teacher is not installed"},
    }
    return {
        "artifact": {
            "name": "tiny",
            "revision": "tiny@000000000000",
            "routes": ["fast", "slow", "tool"],
            "languages": ["en", "zh"],
            "threshold": 0.71,
        },
        "settings": {"quick": False, "resamples": 1000, "seed": 0},
        "sections": sections,
        "targets": target_table(sections),
        **changes,
    }


def lines_with(text: str, what: str) -> list[str]:
    return [line for line in text.splitlines() if what in line]


def test_a_met_a_missed_and_an_unmeasured_target_are_told_apart() -> None:
    text = card(CONFIG, report())
    missed = lines_with(text, "- Missed: ")
    unmeasured = lines_with(text, "- Not measured: ")
    assert "- Missed: Temperature: Spearman" in missed
    assert any("MMLU test" in line for line in unmeasured)
    assert not any("relative to the best constant" in line for line in missed + unmeasured)
    asked = [row for row in report()["targets"] if row["target"] is not None]
    assert len(missed) + len(unmeasured) + sum(row["met"] is True for row in asked) == len(asked)


def test_a_figure_without_a_target_is_no_missed_target() -> None:
    assert not lines_with(card(CONFIG, report()), "- Not measured: AUC weak fails, GSM8K")


def test_figures_stand_with_their_intervals() -> None:
    text = card(CONFIG, report())
    assert "| routellm_mmlu/ood | 40 | .691 [.641, .741] | .043 [-.007, .093] |" in text
    assert ".550 [.500, .600]" in text


def test_every_section_stands_once_below_the_chapter_and_says_when_it_was_skipped() -> None:
    text = card(CONFIG, report())
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert len(titles) == len(set(titles))
    assert [title for title in titles if title.startswith("## ")] == [
        "## What it was trained on",
        "## How good it is",
        "## Limits",
    ]
    assert "### Sampling temperature" in titles
    assert "Skipped: the teacher is not installed." in text


def test_what_the_configuration_says_is_read_from_it() -> None:
    text = card(CONFIG, report())
    assert "Routes: fast, slow, tool. Languages: en, zh. Threshold: .710" in text
    assert "This run: presentations 1,500,000." in text


def test_a_report_of_the_targets_alone_still_makes_a_card() -> None:
    text = card(CONFIG, report(sections={}, targets=target_table({})))
    assert "0 of " in text
    assert "### " not in text


def test_the_card_lies_beside_the_weights(tmp_path: Path) -> None:
    path = write_card(tmp_path, CONFIG, report())
    assert path == tmp_path / "README.md"
    assert path.read_text(encoding="utf-8") == card(CONFIG, report())


def test_a_report_of_another_artifact_is_refused(tmp_path: Path) -> None:
    other = report(artifact={**report()["artifact"], "name": "huge"})
    with pytest.raises(ValueError, match="is of huge, the card is of tiny"):
        write_card(tmp_path, CONFIG, other)
    assert not list(tmp_path.iterdir())


def test_a_report_of_a_quick_run_is_refused(tmp_path: Path) -> None:
    quick = report(settings={"quick": True, "resamples": 50, "seed": 0})
    with pytest.raises(ValueError, match="quick run"):
        write_card(tmp_path, CONFIG, quick)
