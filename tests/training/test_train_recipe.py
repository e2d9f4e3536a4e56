"""What trains, at which rate, for how long."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

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


def test_pooled_states_of_another_window_are_not_taken_from_the_cache(
    parts: Any, tmp_path: Path
) -> None:
    from router.tokens import InputTokenizer
    from router.training.fit import inputs_of, pooled_inputs

    base, _, examples = parts
    items = inputs_of(examples[:4])
    texts = []
    for tokens in (8, 64, 8):
        tokenizer = InputTokenizer(base.tokenizer, max_tokens=tokens)
        inputs = pooled_inputs(base.student, tokenizer, items, cache=tmp_path, device="cpu")
        texts.append(inputs.text)
    assert len(list(tmp_path.iterdir())) == 2
    assert (texts[0] == texts[2]).all()
    assert (texts[0] != texts[1]).any()


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs: must be at least 1"),
        ({"warmup_ratio": 1.0}, "warmup_ratio: must be in"),
        ({"head_lr": float("nan")}, "head_lr: must be in"),
        ({"clip_norm": 0.0}, "clip_norm: must be finite and > 0"),
        ({"clip_norm": float("inf")}, "clip_norm: must be finite and > 0"),
        ({"weight_decay": float("inf")}, "weight_decay: must be finite"),
        ({"lora_rank": 2, "unfreeze_last": 1}, "unfreeze_last: not together with lora_rank"),
    ],
)
def test_a_recipe_that_cannot_be_cooked_names_its_setting(settings: Any, message: str) -> None:
    from router.training.recipe import Recipe

    with pytest.raises(ValueError, match=message):
        Recipe(**settings)
