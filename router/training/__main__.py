"""Rebuild the router artifact: ``python -m router.training --data DIR``.

Stages run in order and keep their results under ``--work``; an interrupted run goes on where
it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from router.artifact import ThresholdSearch, load_artifact, write_config, write_sums
from router.evaluation.card import write_card
from router.evaluation.run import evaluate
from router.evaluation.settings import Settings
from router.evaluation.subject import Subject
from router.evaluation.threshold import CostMatrix, search_threshold
from router.tokens import InputTokenizer
from router.training.calibrate import fit_calibration, fit_detector
from router.training.distill import DistillSettings, distill
from router.training.example import ROUTES, Example
from router.training.examples import all_examples, is_ordinary, ordinary_texts
from router.training.export import draft_config, export_graphs, write_artifact
from router.training.familiar import fit_familiarity
from router.training.fit import (
    FitSettings,
    Inputs,
    fit_heads,
    inputs_of,
    pooled_inputs,
    predict,
)
from router.training.heads import Router
from router.training.sources import distillation_corpus
from router.training.student import Shape, Student, student_config
from router.training.teacher import teacher_folder

# Ordinary requests are more varied than any training set, so few of its own may be outliers.
FALSE_ALARM_RATE = 0.005
STRANGE_FALSE_ALARM_RATE = 0.01
HEAD_TOKENS = 256


def main() -> None:
    """Run every stage that has no result yet."""
    parser = argparse.ArgumentParser(prog="python -m router.training", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--work", type=Path, default=Path("build/weights"), help="intermediates")
    parser.add_argument("--out", type=Path, default=Path("router/weights/laya-base"))
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--presentations", type=int, default=DistillSettings().presentations)
    for name in ("hidden", "layers", "intermediate"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Shape(), name))
    parser.add_argument("--limit", type=int, default=0, help="first rows of the corpus, 0 = all")
    parser.add_argument("--no-evaluation", action="store_true", help="leave figures and card out")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    settings = DistillSettings(
        presentations=arguments.presentations,
        shape=Shape(
            hidden=arguments.hidden,
            layers=arguments.layers,
            intermediate=arguments.intermediate,
        ),
        limit=arguments.limit,
        seed=arguments.seed,
    )
    build(arguments.data, arguments.work, arguments.out, settings, arguments.device)
    if not arguments.no_evaluation:
        report = describe(arguments.out, arguments.data, arguments.work, arguments.device)
        print(json.dumps(report["targets"], indent=1))  # noqa: T201 - the command's result


def build(data: Path, work: Path, out: Path, settings: DistillSettings, device: str) -> None:
    """Distil, fit, calibrate, choose the threshold, export."""
    weights = distill(data, work, settings, device)
    tokenizer_path = teacher_folder() / "tokenizer.json"
    tokenizer = InputTokenizer(tokenizer_path, max_tokens=HEAD_TOKENS)
    student = load_student(weights, settings, device)
    examples = all_examples(data, seed=settings.seed)
    inputs = pooled_inputs(student, tokenizer, inputs_of(examples), cache=work, device=device)
    student = student.cpu()
    heads, history = fit_heads(student, examples, inputs, FitSettings(seed=settings.seed))
    dev = np.flatnonzero([e.split == "dev" for e in examples])
    logits = predict(student, heads, inputs, dev).route_members.mean(dim=0).numpy()
    calibration = fit_calibration(logits, [examples[i] for i in dev])
    detector = _detector(student, inputs, examples)
    familiarity = fit_familiarity(
        tokenizer_path,
        train=ordinary_texts(data, examples, "train"),
        dev=ordinary_texts(data, examples, "dev"),
        false_alarm_rate=STRANGE_FALSE_ALARM_RATE,
        seed=settings.seed,
    )
    search = _threshold(logits, [examples[i] for i in dev], calibration)
    router = Router(student, heads)
    _, graph = export_graphs(router, work)
    config = draft_config(
        calibration=calibration, detector_threshold=detector[2], search=search, routes=ROUTES
    ).model_copy(
        update={
            "training": {
                "corpus": f"{len(distillation_corpus(data)):,}",
                "presentations": settings.presentations,
                "seed": settings.seed,
                "distillation": dataclasses.asdict(settings),
                "head_examples": len(examples),
                "head_epochs": len(history),
            }
        }
    )
    write_artifact(
        out,
        router=router,
        graph=graph,
        tokenizer=tokenizer_path,
        detector=detector,
        familiarity=familiarity,
        config=config,
    )


def describe(out: Path, data: Path, work: Path, device: str) -> dict[str, Any]:
    """Measure the artifact as shipped; write its figures and its card beside it."""
    subject = Subject.load(out)
    try:
        report = evaluate(subject, Settings(data=data, work=work / "evaluation", device=device))
    finally:
        subject.close()
    measured = {row["key"]: row["measured"] for row in report["targets"]}
    config = load_artifact(out).config.model_copy(update={"metrics": measured})
    write_config(out, config)
    write_sums(
        out, sorted(p.name for p in out.iterdir() if p.name not in {"SHA256SUMS", "README.md"})
    )
    write_card(out, config, report)
    return report


def load_student(weights: Path, settings: DistillSettings, device: str) -> Student:
    """Return the distilled student of ``student.pt``."""
    state = torch.load(weights, map_location=device)["model"]
    vocabulary = state["encoder.embeddings.tok_embeddings.weight"].shape[0]
    student = Student(student_config(settings.shape, vocab_size=vocabulary)).to(device)
    student.load_state_dict(state)
    student.eval()
    return student


def _threshold(
    logits: NDArray[np.float32],
    examples: list[Example],
    calibration: tuple[float, tuple[float, ...]],
) -> ThresholdSearch:
    """Search on the dev rows whose weak score is known, with tools masked."""
    temperature, bias = calibration
    rows = [i for i, e in enumerate(examples) if not math.isnan(e.p_fast)]
    fast, slow = (
        logits[rows, ROUTES.index(n)] / temperature + bias[ROUTES.index(n)]
        for n in ("fast", "slow")
    )
    p_fast = 1.0 / (1.0 + np.exp(slow.astype(np.float64) - fast))
    fails = np.asarray([examples[i].p_fast < 0.5 for i in rows])
    return search_threshold(p_fast, fails, CostMatrix())


def _detector(student: Student, inputs: Inputs, examples: list[Example]) -> tuple[Any, Any, float]:
    """Fit on what ordinary requests look like, with or without tools beside them."""
    with torch.inference_mode():
        embeddings = student.embed(torch.from_numpy(inputs.text)).numpy()
    seen = np.concatenate([embeddings, inputs.features], axis=1)
    ordinary = [i for i, e in enumerate(examples) if is_ordinary(e)]
    train = [i for i in ordinary if examples[i].split == "train"]
    dev = [i for i in ordinary if examples[i].split == "dev"]
    return fit_detector(seen[train], seen[dev], false_alarm_rate=FALSE_ALARM_RATE)


if __name__ == "__main__":
    main()
