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


def build(data: Path, work: Path, out: Path, presentations: int = 320) -> dict[str, Any]:
    import torch

    from router.training.__main__ import build as run
    from router.training.distill import DistillSettings

    torch.set_num_threads(1)
    settings = DistillSettings(presentations=presentations, max_rows=32, seed=3)
    work.mkdir(exist_ok=True)
    return run(data, work, out, settings, "cpu")


@pytest.fixture(scope="module")
def built(
    tiny_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, dict[str, Any]]:
    work = tmp_path_factory.mktemp("work")
    out = tmp_path_factory.mktemp("weights") / "tiny"
    return work, out, build(tiny_data, work, out)


def test_the_artifact_is_whole_and_serves(built: tuple[Path, Path, dict[str, Any]]) -> None:
    _, out, _ = built
    assert set(verify_all(out)) == {
        "config.json",
        "model.int8.onnx",
        "model.safetensors",
        "out_of_distribution.npz",
        "tokenizer.json",
    }
    routed = LayaRouter.from_pretrained(out).route("What is a river number 3?")
    assert sum(routed.probabilities.values()) == pytest.approx(1.0)


def test_the_heads_learnt_what_the_rows_say(built: tuple[Path, Path, dict[str, Any]]) -> None:
    """Easy and hard rows differ in every word, so anything but a clear margin is a bug."""
    _, _, metrics = built
    assert metrics["routing"]["pooled/test"]["auc_weak_fails"] > 0.75


def test_the_card_and_the_config_hold_the_measured_figures(
    built: tuple[Path, Path, dict[str, Any]],
) -> None:
    _, out, metrics = built
    assert load_artifact(out).config.metrics == metrics
    card = (out / "README.md").read_text(encoding="utf-8")
    assert f"{metrics['routing']['pooled/test']['auc_weak_fails']:.3f}" in card


def test_the_same_seed_gives_the_same_rows_and_figures_within_noise(
    built: tuple[Path, Path, dict[str, Any]], tiny_data: Path, tmp_path: Path
) -> None:
    work, _, metrics = built
    fresh = tmp_path / "work"
    shutil.copytree(work / "teacher", fresh / "teacher")
    again = build(tiny_data, fresh, tmp_path / "out")
    key = "pooled/test"
    assert again["routing"][key]["rows"] == metrics["routing"][key]["rows"]
    assert again["routing"][key]["auc_weak_fails"] == pytest.approx(
        metrics["routing"][key]["auc_weak_fails"], abs=0.05
    )


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
    settings = module.DistillSettings(presentations=320, max_rows=32, seed=3)
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
        module.distill(tiny_data, resumed, settings, "cpu")
    shown = torch.load(resumed / "distill.ckpt", weights_only=False)["shown"]
    assert 0 < shown < 320
    monkeypatch.setattr(module, "distillation_loss", original)
    final = module.distill(tiny_data, resumed, settings, "cpu")
    weights = [
        torch.load(path, weights_only=False)["model"]["embedding.weight"].numpy()
        for path in (final, work / "student.pt")
    ]
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-3)
