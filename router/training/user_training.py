"""Train, calibrate, quantise, measure a router on a user's rows: one call, one artifact."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from router.artifact import FORMAT, ArtifactConfig
from router.errors import ConfigError
from router.features import FEATURE_NAMES
from router.tokens import InputTokenizer
from router.training.base import load_base
from router.training.calibrate import fit_detector
from router.training.export import FP32_GRAPH, INT8_GRAPH, export_graph, write_artifact
from router.training.feeds import run_graph, tokenised
from router.training.finetune import finetune, taught
from router.training.fit import inputs_of
from router.training.graph_choice import GraphChoice
from router.training.heads import Router
from router.training.output_folder import check_output, placed_whole
from router.training.recipe import MANY_ROWS
from router.training.route_figures import (
    FAST,
    SLOW,
    at_threshold,
    choose_threshold,
    temperature_figures,
)
from router.training.route_rows import RouteRows
from router.training.user_rows import routes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from router.artifact import ThresholdSearch
    from router.familiarity import Familiarity
    from router.training.base import Base
    from router.training.feeds import TokenisedRows
    from router.training.graph_choice import Measured
    from router.training.heads import Heads
    from router.training.train_settings import TrainSettings
    from router.training.user_rows import UserRow

REPORT = "report.json"
# What a service reads unless configured otherwise; figures are of what it would have read.
SERVED_TOKENS = 512
FALSE_ALARM_RATE = 0.005
# What the last layer of a head says that nobody taught: 0.7 in [0.1, 1.5]; no gain; 256 tokens,
# 95 % of answers below 1,024.
_UNTAUGHT = {
    "temperature": (math.log(0.6 / 0.8),),
    "gain": (0.0,),
    "length": (math.log(256.0), math.log(math.expm1(math.log(4.0)))),
}


def train(
    rows: Sequence[UserRow], settings: TrainSettings, *, routes: Sequence[str] | None = None
) -> dict[str, Any]:
    """Write an artifact trained on ``rows``; return its report, which lies in it too.

    Args:
        rows: Checked rows.
        settings: How, from where and whereto.
        routes: Order of the logits; None = fast, slow, tool where present, then by name.

    Raises:
        OutputRefused: If ``settings.out`` is taken or cannot be written.
        RowsTooFew: If a route has no row in train or dev.
        BaseError: If the base cannot be trained further.
        ConfigError: If the recipe does not fit the base.
        TrainingFailed: If the loss diverges.
        QuantisationRefused: If every quantised graph loses too much.
    """
    started_s = time.monotonic()
    check_output(settings.out, force=settings.force)
    data = RouteRows.of(rows, tuple(routes or routes_of(rows)))
    base = load_base(settings.base)
    recipe = settings.recipe
    if recipe.max_tokens > base.max_tokens:
        msg = f"max_length: is {recipe.max_tokens}, {base.name} reads at most {base.max_tokens}"
        raise ConfigError(msg)
    torch.manual_seed(recipe.seed)
    heads = base.new_heads(data.routes)
    states = _heads_without_labels(heads, data, base)
    with placed_whole(settings.out, force=settings.force) as (work, filled):
        history = finetune(
            base.student,
            heads,
            [example for example in data.examples if example.split != "test"],
            InputTokenizer(base.tokenizer, max_tokens=recipe.max_tokens),
            routes=data.routes,
            recipe=recipe,
            fresh_heads=base.artifact is None,
            device=settings.device,
            work=work,
        )
        router = Router(base.student, heads)
        tokenizer = InputTokenizer(base.tokenizer, max_tokens=min(SERVED_TOKENS, base.max_tokens))
        served = tokenised(tokenizer, inputs_of(data.examples))
        choice = GraphChoice(rows=data, served=served, threads=settings.threads)
        full = choice.measure(export_graph(router, work))
        shipped, lost = choice.choose(
            full, settings.quantisation, max_auc_loss=settings.max_auc_loss
        )
        report: dict[str, Any] = {
            "name": settings.artifact_name,
            "base": base.name,
            "routes": list(data.routes),
            "rows": {split: len(data.at(split)) for split in ("train", "dev", "test")},
            "recipe": asdict(recipe),
            "rates": recipe.rates,
            "heads": states,
            **asdict(history),
            "quantisation": shipped.method,
            "auc_loss": lost,
            "fp32": choice.figures(full),
            "shipped": choice.figures(shipped),
            "temperature": _temperatures(shipped, choice),
        }
        of_dev = data.splits[choice.held] == "dev"
        wanted, p = data.wanted[choice.held], shipped.p
        search = choose_threshold(p[of_dev], wanted[of_dev], data.routes, settings.cost_matrix)
        report["threshold"] = search.threshold
        # Dev chose the threshold, so it would flatter it.
        unseen = ~of_dev if len(data.at("test")) else of_dev
        report["at_threshold"] = {
            "split": "dev" if unseen is of_dev else "test",
            **at_threshold(p[unseen], wanted[unseen], data.routes, search.threshold),
        }
        report["notes"] = _notes(report, settings, base)
        detector = _detector(shipped, choice)
        config = _config(report, settings, base, shipped, search, detector[2])
        write_artifact(
            filled,
            router=router,
            graph=shipped.graph,
            tokenizer=base.tokenizer,
            detector=detector,
            config=config,
            familiarity=_familiarity(settings, base, served.take(data.at("dev"))),
        )
        report["seconds"] = round(time.monotonic() - started_s, 1)
        text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)
        (filled / REPORT).write_text(text + "\n", encoding="utf-8")
    return report


def _heads_without_labels(heads: Heads, data: RouteRows, base: Base) -> dict[str, str]:
    """Return how each head came about; one that nobody taught says a constant from now on."""
    learnt = taught(data.examples)
    states = {"route": "trained"}
    for name, constant in _UNTAUGHT.items():
        states[name] = "trained" if name in learnt else "kept from the base"
        if name not in learnt and base.artifact is None:
            states[name] = "a constant: neither labels nor a base that had it"
            last = getattr(heads, name)[-1]
            with torch.no_grad():
                last.weight.zero_()
                last.bias.copy_(torch.tensor(constant))
    return states


def _temperatures(measured: Measured, choice: GraphChoice) -> dict[str, Any] | None:
    wanted = np.asarray([e.temperature for e in choice.rows.examples])[choice.held]
    return temperature_figures(measured.outputs["temperature"].astype(np.float64), wanted)


def _detector(
    measured: Measured, choice: GraphChoice
) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """Fit on what the shipped graph makes of the user's own rows."""
    data, served = choice.rows, choice.served
    train = data.at("train")
    outputs = run_graph(measured.graph, served.take(train), threads=choice.threads)
    seen = np.concatenate([outputs["embedding"], served.features[train]], axis=1)
    dev = data.splits[choice.held] == "dev"
    held = np.concatenate(
        [measured.outputs["embedding"][dev], served.features[data.at("dev")]], axis=1
    )
    return fit_detector(seen, held, false_alarm_rate=FALSE_ALARM_RATE)


def _familiarity(settings: TrainSettings, base: Base, dev: TokenisedRows) -> Familiarity | None:
    """Return the base's, which lets the user's own rows pass as well as what it did before.

    It knows the base's languages alone, so for others there is none.
    """
    known = base.familiarity
    if known is None or (base.artifact and _languages(settings, base) != base.artifact.languages):
        return None
    shares = [
        known.probabilities(ids, features)[1:]
        for ids, features in zip(dev.text_ids, dev.features, strict=True)
    ]
    own = np.quantile(shares, 1.0 - FALSE_ALARM_RATE, axis=0).astype(np.float32)
    return replace(known, thresholds=np.maximum(known.thresholds, own))


def _notes(report: dict[str, Any], settings: TrainSettings, base: Base) -> list[str]:
    """Return what a user should know of this run."""
    notes = []
    temperature, rows = report["temperature"], report["rows"]
    if temperature is not None and temperature["collapsed"]:
        notes.append(
            f"warning: predicted temperatures have collapsed to one value (standard deviation "
            f"{temperature['predicted_std']:.3f}, of the labels {temperature['labels_std']:.3f}); "
            "raise --regression-lr or --epochs"
        )
    if rows["train"] >= MANY_ROWS and not settings.recipe.encoder_trains:
        notes.append(f"hint: with over {MANY_ROWS:,} rows, --unfreeze-last 2 is advised")
    if not report["best_epoch"]:
        notes.append("no epoch was better on dev than the start, so the heads are as they were")
    if not rows["test"]:
        notes.append("no row fell into the test split, so the figures are of dev alone")
    for head, state in report["heads"].items():
        if state.startswith("a constant"):
            notes.append(f"the {head} head is {state}")
    if _semantic_threshold(settings, base) == 1.0:
        notes.append(
            "nobody measured which cosine of this encoder means the same question, so only equal "
            "embeddings hit the semantic cache until cache.semantic_threshold is set"
        )
    if base.artifact is not None and _languages(settings, base) != base.artifact.languages:
        notes.append("nothing tells other languages and noise from requests in these languages")
    if report["quantisation"] == "none":
        notes.append("float32 graph: serve it with encoder.precision: fp32")
    return notes


def _languages(settings: TrainSettings, base: Base) -> tuple[str, ...]:
    inherited = ("en",) if base.artifact is None else base.artifact.languages
    return settings.languages or inherited


def _semantic_threshold(settings: TrainSettings, base: Base) -> float:
    """Return the base's, which holds as long as its embeddings do."""
    if base.artifact is None or settings.recipe.encoder_trains:
        return 1.0
    return base.artifact.semantic_threshold


def _config(
    report: dict[str, Any],
    settings: TrainSettings,
    base: Base,
    shipped: Measured,
    search: ThresholdSearch,
    detector_threshold: float,
) -> ArtifactConfig:
    temperature, bias = shipped.calibration
    quantised = shipped.method != "none"
    kept = ("base", "rows", "recipe", "rates", "heads", "best_epoch", "quantisation", "auc_loss")
    # The search's costs are named for fast and slow; with other routes they mean something else.
    of_fast = {FAST, SLOW} <= set(report["routes"])
    training = {name: report[name] for name in kept}
    return ArtifactConfig.model_validate(
        {
            "format": FORMAT,
            "name": report["name"],
            "routes": report["routes"],
            "languages": _languages(settings, base),
            "features": FEATURE_NAMES,
            "embedding_dim": base.student.embedding_dim,
            "max_tokens": base.max_tokens,
            "threshold": search.threshold,
            "threshold_search": search if of_fast else None,
            "semantic_threshold": _semantic_threshold(settings, base),
            "calibration": {"temperature": temperature, "bias": bias},
            "out_of_distribution_threshold": detector_threshold,
            "graphs": {"int8": INT8_GRAPH} if quantised else {"fp32": FP32_GRAPH},
            "training": training,
            "metrics": report["shipped"],
        }
    )
