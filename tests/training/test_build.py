"""The whole training path runs on rows of the tests' own, and its artifact serves."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router import LayaRouter
from router.artifact import load_artifact, verify_all

pytestmark = [
    pytest.mark.train,
    pytest.mark.timeout(600),
    # Raised inside torch and transformers by their own calls.
    pytest.mark.filterwarnings("default"),
]


def settings(presentations: int = 320) -> Any:
    from router.training.distill import DistillSettings
    from router.training.student import Shape

    shape = Shape(hidden=64, layers=2, intermediate=96)
    return DistillSettings(
        presentations=presentations, warmup_presentations=32, max_rows=32, shape=shape, seed=3
    )


def build(data: Path, work: Path, out: Path) -> None:
    import torch

    from router.training.__main__ import build as run

    torch.set_num_threads(1)
    work.mkdir(exist_ok=True)
    run(data, work, out, settings(), "cpu")


@pytest.fixture(scope="module")
def built(
    tiny_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, dict[str, Any]]:
    from router.training.__main__ import describe

    work = tmp_path_factory.mktemp("work")
    out = tmp_path_factory.mktemp("weights") / "tiny"
    build(tiny_data, work, out)
    return work, out, describe(out, tiny_data, work, "cpu")


def auc(report: dict[str, Any]) -> float:
    figure = report["sections"]["routing"]["groups"]["pooled/test"]["metrics"]["auc_weak_fails"]
    return float(figure["router"]["value"])


def test_the_artifact_is_whole_and_serves(built: tuple[Path, Path, dict[str, Any]]) -> None:
    _, out, _ = built
    assert set(verify_all(out)) == {
        "config.json",
        "encoder.json",
        "familiarity.npz",
        "model.int8.onnx",
        "model.safetensors",
        "out_of_distribution.npz",
        "tokenizer.json",
    }
    routed = LayaRouter.from_pretrained(out).route("What is a river number 3?")
    assert sum(routed.probabilities.values()) == pytest.approx(1.0)


def test_the_heads_learnt_what_the_rows_say(built: tuple[Path, Path, dict[str, Any]]) -> None:
    """Easy and hard rows differ in every word, so anything but a clear margin is a bug."""
    _, _, report = built
    assert auc(report) > 0.75


def test_the_card_and_the_config_hold_the_measured_figures(
    built: tuple[Path, Path, dict[str, Any]],
) -> None:
    _, out, report = built
    assert load_artifact(out).config.metrics == {
        row["key"]: row["measured"] for row in report["targets"]
    }
    card = (out / "README.md").read_text(encoding="utf-8")
    assert f"{auc(report):.3f}".lstrip("0") in card


def test_the_threshold_is_the_one_its_own_curve_names(
    built: tuple[Path, Path, dict[str, Any]],
) -> None:
    _, out, _ = built
    config = load_artifact(out).config
    assert config.threshold_search is not None
    cost = dict(config.threshold_search.curve)
    assert cost[config.threshold] == min(cost.values())


def test_the_same_seed_gives_the_same_figures_within_noise(
    built: tuple[Path, Path, dict[str, Any]], tiny_data: Path, tmp_path: Path
) -> None:
    from router.training.__main__ import describe

    work, _, report = built
    fresh = tmp_path / "work"
    shutil.copytree(work / "teacher", fresh / "teacher")
    build(tiny_data, fresh, tmp_path / "out")
    again = describe(tmp_path / "out", tiny_data, fresh, "cpu")
    assert auc(again) == pytest.approx(auc(report), abs=0.05)


def test_a_longer_run_starts_at_the_end_of_a_shorter_ones_plateau(
    built: tuple[Path, Path, dict[str, Any]], tiny_data: Path, tmp_path: Path
) -> None:
    import torch

    from router.training.distill import distill, plateau_end

    work, _, _ = built
    longer = tmp_path / "work"
    longer.mkdir()
    shutil.copytree(work / "teacher", longer / "teacher")
    shutil.copy(work / "plateau.ckpt", longer / "plateau.ckpt")
    assert torch.load(longer / "plateau.ckpt")["shown"] <= plateau_end(settings())
    state = torch.load(distill(tiny_data, longer, settings(presentations=400), "cpu"))
    assert state["settings"]["presentations"] == 400


def test_an_interrupted_distillation_goes_on_from_its_checkpoint(
    built: tuple[Path, Path, dict[str, Any]],
    tiny_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from router.training import distill as module

    work, _, _ = built
    resumed = tmp_path / "work"
    shutil.copytree(work / "teacher", resumed / "teacher")
    monkeypatch.setattr(module, "CHECKPOINT_EVERY_S", 0.0)
    losses = 0
    original = module.distillation_loss

    def interrupted(*arguments: Any) -> Any:
        nonlocal losses
        losses += 1
        if losses == 6:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(module, "distillation_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module.distill(tiny_data, resumed, settings(), "cpu")
    shown = torch.load(resumed / "distill.ckpt")["shown"]
    assert 0 < shown < 320
    monkeypatch.setattr(module, "distillation_loss", original)
    final = module.distill(tiny_data, resumed, settings(), "cpu")
    weights = [
        torch.load(path)["model"]["embedding.weight"].numpy()
        for path in (final, work / "student.pt")
    ]
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-3)
