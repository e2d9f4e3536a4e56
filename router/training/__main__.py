"""Rebuild the router artifact: ``python -m router.training --data DIR``.

Stages run in order and keep their results under ``--work``; an interrupted run goes on where
it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from router.artifact import load_artifact, write_config, write_sums
from router.encoder import Encoder
from router.tokens import InputTokenizer
from router.training.calibrate import fit_calibration, fit_detector
from router.training.card import write_card
from router.training.distill import DistillSettings, distill
from router.training.examples import ROUTES, Example, all_examples
from router.training.export import draft_config, export_graphs, write_artifact
from router.training.fit import FitSettings, Inputs, fit_heads, inputs_of, pooled_inputs
from router.training.heads import Heads, Router
from router.training.measure import measure, to_json
from router.training.sources import distillation_corpus
from router.training.student import Student, student_config
from router.training.teacher import teacher_folder

# Ordinary requests are more varied than any training set, so few of its own may be outliers.
FALSE_ALARM_RATE = 0.005
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
    parser.add_argument("--limit", type=int, default=0, help="first rows of the corpus, 0 = all")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    settings = DistillSettings(
        presentations=arguments.presentations, limit=arguments.limit, seed=arguments.seed
    )
    metrics = build(arguments.data, arguments.work, arguments.out, settings, arguments.device)
    print(to_json(metrics))  # noqa: T201 - the command's result


def build(
    data: Path, work: Path, out: Path, settings: DistillSettings, device: str
) -> dict[str, Any]:
    """Distil, fit, calibrate, export, measure; return the figures."""
    weights = distill(data, work, settings, device)
    tokenizer_path = teacher_folder() / "tokenizer.json"
    tokenizer = InputTokenizer(tokenizer_path, max_tokens=HEAD_TOKENS)
    student = load_student(weights, device)
    examples = all_examples(data, seed=settings.seed)
    inputs = pooled_inputs(student, tokenizer, inputs_of(examples), cache=work, device=device)
    heads, history = fit_heads(examples, inputs, FitSettings(seed=settings.seed))
    calibration = _calibration(heads, inputs, examples)
    detector = _detector(student, inputs, examples)
    router = Router(student, heads)
    _, graph = export_graphs(router, work)
    config = draft_config(calibration=calibration, detector_threshold=detector[2], routes=ROUTES)
    write_artifact(
        out, router=router, graph=graph, tokenizer=tokenizer_path, detector=detector, config=config
    )
    artifact = load_artifact(out)
    encoder = Encoder.load(artifact)
    metrics: dict[str, Any] = json.loads(to_json(measure(artifact, encoder, data, device=device)))
    encoder.close()
    run = {
        "corpus": f"{len(distillation_corpus(data)):,}",
        "presentations": settings.presentations,
        "seed": settings.seed,
    }
    config = config.model_copy(
        update={
            "metrics": metrics,
            "training": {
                **run,
                "distillation": dataclasses.asdict(settings),
                "head_examples": len(examples),
                "head_epochs": len(history),
            },
        }
    )
    write_config(out, config)
    write_sums(
        out, sorted(p.name for p in out.iterdir() if p.name not in {"SHA256SUMS", "README.md"})
    )
    write_card(out, config, run)
    return metrics


def load_student(weights: Path, device: str) -> Student:
    """Return the distilled student of ``student.pt``."""
    state = torch.load(weights, map_location=device, weights_only=False)["model"]
    vocabulary = state["encoder.embeddings.tok_embeddings.weight"].shape[0]
    student = Student(student_config(vocab_size=vocabulary)).to(device)
    student.load_state_dict(state)
    student.eval()
    return student


def _calibration(
    heads: Heads, inputs: Inputs, examples: list[Example]
) -> tuple[float, tuple[float, ...]]:
    dev = [i for i, e in enumerate(examples) if e.split == "dev"]
    with torch.inference_mode():
        outputs = heads(
            torch.from_numpy(inputs.pooled[dev]), torch.from_numpy(inputs.features[dev])
        )
    return fit_calibration(outputs.route_logits.numpy(), [examples[i] for i in dev])


def _detector(student: Student, inputs: Inputs, examples: list[Example]) -> tuple[Any, Any, float]:
    """Fit on what ordinary requests look like: every row except the Chinese ones."""
    with torch.inference_mode():
        embeddings = student.embed(torch.from_numpy(inputs.pooled)).numpy()
    seen = np.concatenate([embeddings, inputs.features], axis=1)
    english = [i for i, e in enumerate(examples) if "belle" not in e.source]
    train = [i for i in english if examples[i].split == "train"]
    dev = [i for i in english if examples[i].split == "dev"]
    return fit_detector(seen[train], seen[dev], false_alarm_rate=FALSE_ALARM_RATE)


if __name__ == "__main__":
    main()
