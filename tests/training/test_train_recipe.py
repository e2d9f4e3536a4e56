"""What trains, at which rate, for how long."""

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.train, pytest.mark.timeout(300)]

ROUTES = ("fast", "slow")


@pytest.fixture
def parts(made_up: ModuleType, tiny_encoder: Path) -> Any:
    """Return base, fresh heads and rows of the splits train and dev."""
    import torch

    from router.training.base import load_base
    from router.training.route_rows import RouteRows
    from router.training.user_rows import UserRow

    torch.manual_seed(0)
    rows = [UserRow(**row) for row in made_up.made_up_rows(*ROUTES, each=40)]
    examples = [e for e in RouteRows.of(rows, ROUTES).examples if e.split != "test"]
    base = load_base(str(tiny_encoder))
    return base, base.new_heads(ROUTES), examples


def run(parts: Any, work: Path, **settings: Any) -> Any:
    from router.tokens import InputTokenizer
    from router.training.finetune import finetune
    from router.training.recipe import Recipe

    base, heads, examples = parts
    recipe = Recipe(**{"epochs": 1, **settings})
    tokenizer = InputTokenizer(base.tokenizer, max_tokens=recipe.max_tokens)
    return finetune(
        base.student,
        heads,
        examples,
        tokenizer,
        routes=ROUTES,
        recipe=recipe,
        fresh_heads=True,
        device="cpu",
        work=work,
    )


def state(module: Any) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def changed(before: dict[str, Any], module: Any) -> set[str]:
    after = module.state_dict()
    assert set(after) == set(before)
    return {name for name, tensor in before.items() if not tensor.equal(after[name])}


def test_a_frozen_encoder_keeps_every_bit(parts: Any, tmp_path: Path) -> None:
    base, heads, _ = parts
    student, before = state(base.student), state(heads)
    run(parts, tmp_path, head_lr=1e-2)
    assert changed(student, base.student) == set()
    assert any(name.startswith("route.wide") for name in changed(before, heads))


def test_unfreezing_one_layer_changes_that_layer_alone(parts: Any, tmp_path: Path) -> None:
    base, _, _ = parts
    before = state(base.student)
    run(parts, tmp_path, unfreeze_last=1, encoder_lr=1e-2)
    names = changed(before, base.student)
    assert names
    assert all(name.startswith("encoder.layers.1.") for name in names)


def test_more_layers_than_there_are_cannot_be_unfrozen(parts: Any, tmp_path: Path) -> None:
    from router.errors import ConfigError

    with pytest.raises(ConfigError, match="unfreeze_last: is 3, the encoder has 2 layers"):
        run(parts, tmp_path, unfreeze_last=3)


def test_lora_is_merged_into_weights_that_answer_the_same(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from peft import PeftModel

    base, _, _ = parts
    before = state(base.student)
    ids = torch.tensor([[2, 100, 110, 120, 3]])
    seen = []
    merge = PeftModel.__getattr__

    def spied(self: Any, name: str) -> Any:
        if name == "merge_and_unload":
            base.student.eval()
            with torch.inference_mode():
                seen.append(base.student(ids, torch.ones_like(ids)))
        return merge(self, name)

    monkeypatch.setattr(PeftModel, "__getattr__", spied)
    run(parts, tmp_path, lora_rank=4, encoder_lr=1e-2, epochs=2)
    with torch.inference_mode():
        merged = base.student(ids, torch.ones_like(ids))
    torch.testing.assert_close(merged, seen[0], atol=1e-5, rtol=0)
    names = changed(before, base.student)
    assert "encoder.layers.0.attn.Wqkv.weight" in names
    assert not any("embeddings" in name or "norm" in name for name in names)


def test_training_stops_when_dev_gets_no_better_and_keeps_the_best(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from router.training import finetune as module

    losses = iter([1.0, 0.8, 0.6, 0.7, 0.65, 0.9, 0.1])
    best: list[Any] = []

    def dev_loss(student: Any, heads: Any, *rest: Any) -> float:
        value = next(losses)
        if value == 0.6:
            best.append(state(heads))
        return value

    monkeypatch.setattr(module, "_dev_loss", dev_loss)
    history = run(parts, tmp_path, epochs=10, patience=3)
    assert history.dev_loss == (0.8, 0.6, 0.7, 0.65, 0.9)
    assert history.best_epoch == 2
    assert changed(best[0], parts[1]) == set()


def test_what_never_gets_better_than_the_start_ends_as_it_started(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from router.training import finetune as module

    losses = iter([0.5, 0.6, 0.7])
    monkeypatch.setattr(module, "_dev_loss", lambda *_: next(losses))
    before = state(parts[1])
    history = run(parts, tmp_path, epochs=9, patience=2)
    assert history.best_epoch == 0
    assert changed(before, parts[1]) <= {
        "text.mean",
        "text.scale",
        "features.mean",
        "features.scale",
    }


def test_a_loss_that_is_no_number_ends_the_run(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from router.training import finetune as module

    losses = iter([1.0, float("nan")])
    monkeypatch.setattr(module, "_dev_loss", lambda *_: next(losses))
    with pytest.raises(module.TrainingFailed, match="epoch 1: the dev loss is nan"):
        run(parts, tmp_path)


@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({}, {"route": 5e-4, "regression": 2.5e-4}),
        ({"unfreeze_last": 1}, {"route": 2e-5, "regression": 1e-5, "encoder": 1e-5}),
        ({"lora_rank": 2}, {"route": 2e-5, "regression": 1e-5, "encoder": 2e-4}),
        ({"head_lr": 1e-3, "regression_lr": 1e-4}, {"route": 1e-3, "regression": 1e-4}),
        (
            {"unfreeze_last": 2, "encoder_lr": 3e-6},
            {"route": 2e-5, "regression": 1e-5, "encoder": 3e-6},
        ),
    ],
)
def test_every_part_trains_at_its_own_rate(parts: Any, settings: Any, rates: Any) -> None:
    from router.training.finetune import choose_trainable, optimiser_for
    from router.training.recipe import Recipe

    base, heads, examples = parts
    recipe = Recipe(**settings)
    choose_trainable(base.student, heads, recipe, examples)
    optimiser, _ = optimiser_for(base.student, heads, recipe, steps=10)
    groups = optimiser.param_groups
    assert {group["name"]: group["initial_lr"] for group in groups} == pytest.approx(rates)
    for group in groups:
        matrices = {parameter.ndim > 1 for parameter in group["params"]}
        assert matrices == {group["weight_decay"] == 0.01}
    optimised = {id(parameter) for group in groups for parameter in group["params"]}
    modules = (*base.student.parameters(), *heads.parameters())
    assert optimised == {id(p) for p in modules if p.requires_grad}
    # No row carries a score or a length, so those heads are left alone.
    assert not any(p.requires_grad for p in (*heads.gain.parameters(), *heads.length.parameters()))


def test_rates_rise_over_the_warm_up_and_fall_to_zero(parts: Any) -> None:
    from router.training.finetune import optimiser_for
    from router.training.recipe import Recipe

    base, heads, _ = parts
    base.student.requires_grad_(requires_grad=False)
    recipe = Recipe(head_lr=1.0, warmup_ratio=0.25)
    optimiser, schedule = optimiser_for(base.student, heads, recipe, steps=8)
    rates = []
    for _ in range(8):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    expected = [0.0, 1 / 2, 6 / 6, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert rates == pytest.approx(expected)
    assert optimiser.param_groups[0]["lr"] == 0.0


def test_gradients_are_clipped_to_the_norm(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    norms = []
    step = torch.optim.AdamW.step

    def spied(self: Any, *arguments: Any) -> Any:
        gradients = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        norms.append(float(torch.stack([g.norm() for g in gradients]).norm()))
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", spied)
    run(parts, tmp_path, clip_norm=1e-3)
    assert norms
    assert max(norms) <= 1e-3 * 1.01


def test_routes_that_the_base_has_keep_their_weights(parts: Any) -> None:
    base, old, _ = parts
    from router.artifact import load_artifact

    config = load_artifact("laya-base").config.model_copy(update={"routes": ROUTES})
    known = replace(base, artifact=config, heads=state(old))
    new = known.new_heads(("code", "slow", "law"))
    for before, after in zip(
        (*old.route.narrow, *old.route.wide), (*new.route.narrow, *new.route.wide), strict=True
    ):
        assert after[-1].weight.shape[0] == 3
        assert after[-1].weight[1].equal(before[-1].weight[1])
        assert not after[-1].weight[0].equal(before[-1].weight[0])
        assert after[1].weight.equal(before[1].weight)


def test_the_calibration_of_separated_routes_stays_finite_and_of_noisy_ones_is_right() -> None:
    from router.training.calibrate import fit_route_calibration

    wanted = np.arange(40) % 4
    separated = np.eye(4, dtype=np.float32)[wanted] * 3.0
    temperature, bias = fit_route_calibration(separated, wanted, np.ones(40))
    assert 0.05 < temperature < 1.0
    assert np.abs(bias).max() < 0.1
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3)).astype(np.float32)
    shares = np.exp(logits / 2.0 + np.asarray([0.5, 0.0, -0.5]))
    shares /= shares.sum(axis=1, keepdims=True)
    drawn = (shares.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    temperature, bias = fit_route_calibration(logits, drawn, np.ones(4000))
    assert temperature == pytest.approx(2.0, rel=0.1)
    assert bias[0] - bias[2] == pytest.approx(1.0, abs=0.15)


def test_weights_count_in_the_calibration() -> None:
    from router.training.calibrate import fit_route_calibration

    logits = np.zeros((100, 2), np.float32)
    wanted = np.arange(100) % 2
    weights = np.where(wanted == 0, 9.0, 1.0)
    _, bias = fit_route_calibration(logits, wanted, weights)
    # Nine to one, shrunk a little by the prior.
    assert bias[0] - bias[1] == pytest.approx(np.log(9.0), abs=0.2)


def test_temperatures_that_collapse_are_told(tmp_path: Path) -> None:
    from router.training.route_figures import temperature_figures

    wanted = np.asarray([0.2, 1.0, 0.2, 1.0, np.nan])
    flat = temperature_figures(np.asarray([0.60, 0.61, 0.60, 0.60, 0.9]), wanted)
    assert flat is not None
    assert flat["collapsed"]
    assert flat["mean_absolute_error"] == pytest.approx(0.3975 + 0.005, abs=0.01)
    spread = temperature_figures(np.asarray([0.5, 0.7, 0.5, 0.7, 0.9]), wanted)
    assert spread is not None
    assert not spread["collapsed"]
    # Labels that do not vary cannot be said to have been missed.
    same = temperature_figures(np.full(4, 0.5), np.full(4, 0.7))
    assert same is not None
    assert not same["collapsed"]
    assert temperature_figures(np.full(4, 0.5), np.full(4, np.nan)) is None


def test_the_threshold_of_other_routes_weighs_wrong_ones_against_giving_up() -> None:
    from router.evaluation.threshold import CostMatrix
    from router.training.route_figures import at_threshold, choose_threshold

    p = np.asarray([[0.95, 0.05], [0.9, 0.1], [0.65, 0.35], [0.6, 0.4], [0.3, 0.7]])
    wanted = np.asarray([0, 0, 1, 0, 1])
    search = choose_threshold(p, wanted, ("law", "code"), CostMatrix())
    # Taking the row at .65 costs 10, giving up on those at .60 and .70 costs 1 each.
    assert search.threshold == 0.7
    reached = at_threshold(p, wanted, ("law", "code"), 0.7)
    assert reached["coverage"] == pytest.approx(0.6)
    assert reached["accuracy"] == 1.0


def test_fast_and_slow_are_weighed_without_the_tool_route() -> None:
    from router.training.route_figures import at_threshold

    p = np.asarray([[0.4, 0.1, 0.5], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    reached = at_threshold(p, np.asarray([0, 1, 2]), ("fast", "slow", "tool"), 0.8)
    # Of the two rows without a tool, the first has P(fast) = .8 once tool is masked.
    assert reached == {"where": "fast", "coverage": 0.5, "accuracy": 1.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs: must be at least 1"),
        ({"warmup_ratio": 1.0}, "warmup_ratio: must be in"),
        ({"head_lr": float("nan")}, "head_lr: must be in"),
        ({"clip_norm": 0.0}, "clip_norm: must be > 0"),
        ({"weight_decay": float("inf")}, "weight_decay: must be finite"),
        ({"lora_rank": 2, "unfreeze_last": 1}, "unfreeze_last: not together with lora_rank"),
    ],
)
def test_a_recipe_that_cannot_be_cooked_names_its_setting(settings: Any, message: str) -> None:
    from router.training.recipe import Recipe

    with pytest.raises(ValueError, match=message):
        Recipe(**settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert', only 'modernbert'"),
        ({"num_hidden_layers": 3}, "is no configuration of a ModernBERT"),
        (
            {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3},
            "lacks .* of the encoder's tensors, .*layers.2",
        ),
        ({"hidden_size": 32}, "does not fit config.json"),
    ],
)
def test_another_model_is_refused_by_what_it_is(
    change: dict[str, Any], message: str, made_up: ModuleType, tmp_path: Path
) -> None:
    from router.training.base import BaseError, load_base

    folder = made_up.write_modernbert(tmp_path / "other")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
    with pytest.raises(BaseError, match=message):
        load_base(str(folder))


def test_a_folder_without_weights_or_separator_is_refused(
    made_up: ModuleType, tmp_path: Path
) -> None:
    from router.training.base import BaseError, load_base

    with pytest.raises(BaseError, match=r"no such folder; .*hf download"):
        load_base(str(tmp_path / "nowhere"))
    folder = made_up.write_modernbert(tmp_path / "other")
    tokenizer = (folder / "tokenizer.json").read_text(encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer.replace("[SEP]", "</s>"), encoding="utf-8")
    with pytest.raises(BaseError, match=r"has no \[SEP\] token"):
        load_base(str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(BaseError, match=r"model.safetensors: is missing"):
        load_base(str(folder))
