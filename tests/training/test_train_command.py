"""`train` writes a whole artifact or nothing, and says why."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from router.cli.app import app

pytestmark = [pytest.mark.train, pytest.mark.timeout(300)]


@pytest.fixture
def rows(made_up: ModuleType, tmp_path: Path) -> Path:
    path: Path = made_up.write_rows(tmp_path / "rows.jsonl", made_up.made_up_rows("fast", "slow"))
    return path


@pytest.fixture
def train(rows: Path, tiny_encoder: Path, tmp_path: Path) -> Any:
    """Return what runs the command over the rows, by default into a fresh folder."""

    def run(*options: str, rows: Path = rows, base: Path | str = tiny_encoder) -> Result:
        out = () if "--out" in options else ("--out", str(tmp_path / "out"))
        arguments = ["train", str(rows), "--base", str(base), "--epochs", "1", *out, *options]
        return CliRunner().invoke(app, arguments)

    return run


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"rows.jsonl"}


def break_dynamic(full: Path, small: Path) -> None:
    """Write a graph whose route logits are the float32 ones with the sign turned."""
    import onnx

    model = onnx.load(str(full))
    for node in model.graph.node:
        node.output[:] = ["kept" if name == "route_logits" else name for name in node.output]
    model.graph.node.append(onnx.helper.make_node("Neg", ["kept"], ["route_logits"]))
    onnx.save(model, str(small))


def test_a_quantised_model_that_loses_too_much_is_refused_with_the_figure(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from router.training import graph_choice

    monkeypatch.setattr(graph_choice, "quantise_dynamic", break_dynamic)
    result = train("--quantisation", "dynamic", "--head-lr", "3e-3", "--epochs", "20")
    assert result.exit_code == 1
    assert "may lose 0.5 points of AUC; dynamic loses" in result.output
    lost = float(result.output.split("dynamic loses ")[1].split(" points")[0])
    # An AUC of a turned around is 1 - a.
    assert lost > 80.0
    assert left(tmp_path) == set()


def test_static_is_tried_where_dynamic_loses_too_much(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from router.artifact import load_artifact
    from router.encoder import Encoder
    from router.training import graph_choice

    monkeypatch.setattr(graph_choice, "quantise_dynamic", break_dynamic)
    result = train("--json", "--max-auc-loss", "0.02", "--head-lr", "3e-3", "--epochs", "20")
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["quantisation"] == "static"
    assert report["auc_loss"]["dynamic"] > 0.5
    assert report["auc_loss"]["static"] <= 0.02
    encoder = Encoder.load(load_artifact(tmp_path / "out"))
    encoder.warm_up()
    encoder.close()


def test_a_float32_graph_is_served_at_that_precision(train: Any, tmp_path: Path) -> None:
    from router.config import Settings
    from router.wiring import load_encoder

    result = train("--quantisation", "none")
    assert result.exit_code == 0, result.output
    assert "encoder.precision: fp32" in result.output
    encoder = {"artifact": str(tmp_path / "out"), "precision": "fp32"}
    loaded = load_encoder(Settings(encoder=encoder))
    loaded.warm_up()
    loaded.close()


def test_a_folder_that_is_there_is_kept_unless_forced(train: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert train().exit_code == 0
    first = (out / "SHA256SUMS").read_bytes()
    refused = train("--seed", "7")
    assert refused.exit_code == 2
    assert f"--out {out}: exists; --force replaces it" in refused.output
    assert (out / "SHA256SUMS").read_bytes() == first
    assert train("--seed", "7", "--force").exit_code == 0
    assert (out / "SHA256SUMS").read_bytes() != first
    assert left(tmp_path) == {"out"}


def test_what_is_no_artifact_is_never_replaced(train: Any, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear", encoding="utf-8")
    result = train("--out", str(home), "--force")
    assert result.exit_code == 2
    assert "is no artifact folder" in result.output
    assert (home / "letter.txt").read_text(encoding="utf-8") == "dear"


def test_ctrl_c_leaves_nothing_behind(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from router.training import user_training

    def interrupted(*_: Any, **__: Any) -> None:
        # The folder is all but whole by then.
        assert left(tmp_path)
        raise KeyboardInterrupt

    monkeypatch.setattr(user_training, "write_artifact", interrupted)
    result = train()
    assert result.exit_code == 130
    assert "nothing was written" in result.output
    assert left(tmp_path) == set()


def test_the_threshold_is_judged_on_rows_that_did_not_choose_it(
    train: Any, tmp_path: Path, made_up: ModuleType
) -> None:
    from router.training.user_rows import UserRow

    assert train().exit_code == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["at_threshold"]["split"] == "test"
    kept = [row for row in made_up.made_up_rows("fast", "slow") if UserRow(**row).split != "test"]
    path = made_up.write_rows(tmp_path / "rows.jsonl", kept)
    result = train("--out", str(tmp_path / "again"), rows=path)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "again" / "report.json").read_text(encoding="utf-8"))
    assert report["at_threshold"]["split"] == "dev"


def test_temperatures_that_collapsed_to_one_value_are_warned_of(
    train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from router.training import route_figures

    # Predictions lie in [0.1, 1.5], so this spread is beyond them.
    monkeypatch.setattr(route_figures, "COLLAPSED_STD", 0.8)
    result = train()
    assert result.exit_code == 0, result.output
    assert "warning: predicted temperatures have collapsed to one value" in result.output
    assert "raise --regression-lr" in result.output


def test_heads_that_nobody_taught_say_a_constant(
    train: Any, made_up: ModuleType, tmp_path: Path
) -> None:
    from router import LayaRouter

    plain = [
        {name: value for name, value in row.items() if name != "temperature"}
        for row in made_up.made_up_rows("fast", "slow")
    ]
    result = train(rows=made_up.write_rows(tmp_path / "rows.jsonl", plain))
    assert result.exit_code == 0, result.output
    assert "the temperature head is a constant" in result.output
    router = LayaRouter.from_pretrained(tmp_path / "out")
    for text in ("sunny breakfast", "theorem lemma"):
        assert router.route(text).temperature == pytest.approx(0.7, abs=1e-3)
        assert router.route(text).expected_output_tokens == 256


def test_a_route_without_dev_rows_is_named(train: Any, made_up: ModuleType, tmp_path: Path) -> None:
    from router.training.user_rows import UserRow

    kept = [
        row
        for row in made_up.made_up_rows("fast", "slow")
        if row["route"] == "fast" or UserRow(text=row["text"], route="slow").split != "dev"
    ]
    result = train(rows=made_up.write_rows(tmp_path / "rows.jsonl", kept))
    assert result.exit_code == 2
    assert "route slow: no row among the" in result.output
    assert "split dev" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--routes", "fast,slow,fast"), "--routes: names a route twice"),
        (("--routes", ","), "--routes: names fewer than two routes"),
        (("--routes", "fast,law"), "line 61, route: is no known route; allowed: fast, law"),
        (("--max-length", "4096"), "max_length: is 4096, tiny reads at most 512"),
        (("--unfreeze-last", "9"), "unfreeze_last: is 9, the encoder has 2 layers"),
        (("--unfreeze-last", "1", "--lora", "2"), "not together with lora_rank"),
        (("--device", "nowhere"), "--device nowhere: torch has no such device here"),
        (("--device", "meta"), "--device meta: torch has no such device here"),
        (("--name", "a b"), "name: must be 1 to 64"),
        (("--languages", "english"), "languages: must be ISO 639-1 codes"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_trained(
    train: Any, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = train(*options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert left(tmp_path) == set()


def test_the_artifact_of_an_older_format_is_refused_by_its_format(
    train: Any, tiny_encoder: Path, tmp_path: Path
) -> None:
    from router.artifact import load_artifact, write_config, write_sums

    out = tmp_path / "out"
    assert train().exit_code == 0
    write_config(out, load_artifact(out).config.model_copy(update={"format": 1}))
    (out / "encoder.json").unlink()
    write_sums(out, [p.name for p in out.iterdir() if p.name != "SHA256SUMS"])
    result = train("--out", str(tmp_path / "again"), base=out)
    assert result.exit_code == 2
    assert "is of format 1 and has no encoder.json" in result.output
    assert "use an artifact of format 2" in result.output


def test_no_text_of_a_row_is_printed(train: Any, rows: Path, tmp_path: Path) -> None:
    secret = "kitten-4711"
    lines = rows.read_text(encoding="utf-8").splitlines()
    bad = json.dumps({"text": secret, "route": "fast", "temperature": 9.0})
    rows.write_text("\n".join([*lines, bad]), encoding="utf-8")
    result = train()
    assert result.exit_code == 2
    assert "line 121, temperature: must be" in result.output
    assert secret not in result.output
    rows.write_text("\n".join([*lines, bad.replace("9.0", "0.9")]), encoding="utf-8")
    result = train("--json")
    assert result.exit_code == 0
    assert secret not in result.output
    for path in (tmp_path / "out").iterdir():
        assert secret.encode() not in path.read_bytes()


def test_what_told_strange_texts_from_the_bases_lets_the_users_own_pass(
    train: Any, tmp_path: Path
) -> None:
    import numpy as np

    from router.artifact import FAMILIARITY, load_artifact, write_sums
    from router.familiarity import Familiarity

    base, own = tmp_path / "out", tmp_path / "own"
    assert train().exit_code == 0
    # Without weights every text is of each kind with a third, which these let not pass.
    table = np.zeros(500, np.float32)
    weights, bias = np.zeros((27, 3), np.float32), np.zeros(3, np.float32)
    Familiarity(
        rarity=table,
        foreign_odds=table,
        weights=weights,
        bias=bias,
        thresholds=np.asarray([0.1, 0.6], np.float32),
    ).save(base / FAMILIARITY)
    write_sums(base, [p.name for p in base.iterdir() if p.name != "SHA256SUMS"])
    assert train("--out", str(own), base=base).exit_code == 0
    familiarity = load_artifact(own).familiarity
    assert familiarity is not None
    np.testing.assert_allclose(familiarity.thresholds, [1 / 3, 0.6], rtol=1e-6)
    result = train("--out", str(tmp_path / "german"), "--languages", "en,de", base=base)
    assert result.exit_code == 0
    assert load_artifact(tmp_path / "german").familiarity is None
    assert "nothing tells other languages and noise" in result.output


def test_lora_and_unfrozen_layers_run_through_to_an_artifact(train: Any, tmp_path: Path) -> None:
    from router.artifact import load_artifact

    for option in (("--lora", "2"), ("--unfreeze-last", "1")):
        out = tmp_path / option[0].strip("-")
        result = train(*option, "--out", str(out), "--name", "mine")
        assert result.exit_code == 0, result.output
        assert load_artifact(out).config.semantic_threshold == 1.0
        assert load_artifact(out).config.name == "mine"
