"""Measure an exported artifact, as shipped, on rows no training step has seen."""

from __future__ import annotations

import base64
import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from tqdm import tqdm

from cache.guard import refusal
from router.calibration import RouteCalibration, route_probabilities
from router.domain import EncoderInput
from router.training.examples import CHARS_PER_TOKEN, temperature_tables
from router.training.sources import (
    chatterbot_turns,
    read_rows,
    routing_rows,
    split_of,
    tool_rows,
    tool_text,
)
from router.training.teacher import load_teacher

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from router.artifact import Artifact
    from router.domain import Encoding
    from router.encoder import Encoder

SMALL_TALK = ("conversations", "greetings", "emotion", "humor", "gossip", "botprofile")
ECE_BINS = 15
QQP_ROWS = 4000


def expected_calibration_error(
    probability: NDArray[np.float64], happened: NDArray[np.bool_], bins: int = ECE_BINS
) -> float:
    """Return the ECE over equal-mass bins, in [0, 1].

    Source: Naeini et al., AAAI 2015, with equal-mass bins as in Nixon et al., 2019,
    arXiv:1904.01685, section 3.
    """
    order = np.argsort(probability, kind="stable")
    error = 0.0
    for part in np.array_split(order, bins):
        if len(part):
            gap = abs(probability[part].mean() - happened[part].mean())
            error += gap * len(part) / len(order)
    return float(error)


def measure(artifact: Artifact, encoder: Encoder, data: Path, *, device: str) -> dict[str, Any]:
    """Return every figure of the model card by name."""
    return {
        "routing": _routing(artifact, encoder, data),
        "tools_live": _tools(artifact, encoder, data),
        "operators_first_look": _first_look(artifact, encoder, data),
        "temperature": _temperature(encoder, data),
        "length_spearman": _lengths(encoder, data),
        "embedding_qqp": _qqp(artifact, encoder, data, device),
        "abstention": _abstention(encoder, data),
    }


def _encode(encoder: Encoder, items: Sequence[EncoderInput], name: str) -> list[Encoding]:
    """Encode rows one at a time, as a quiet service would."""
    return [encoder.run([item])[0] for item in tqdm(items, desc=f"measure {name}", unit="row")]


def _p_fast(calibration: RouteCalibration, encodings: Sequence[Encoding]) -> NDArray[np.float64]:
    masked = [route_probabilities(e.route_logits, calibration, masked=("tool",)) for e in encodings]
    return np.asarray([p["fast"] for p in masked])


def _routing(artifact: Artifact, encoder: Encoder, data: Path) -> dict[str, Any]:
    rows = routing_rows(data, "test", "ood")
    encodings = _encode(encoder, [EncoderInput(text=r["prompt"]) for r in rows], "routing")
    fast = _p_fast(artifact.calibration, encodings)
    good = np.asarray([r["weak_score"] >= 0.5 for r in rows])
    keys = np.asarray([f"{r['source']}/{r['split']}" for r in rows])
    splits = np.asarray([r["split"] for r in rows])
    report: dict[str, Any] = {}
    for key in sorted(set(keys)):
        chosen = keys == key
        if len(set(good[chosen])) == 2:
            report[key] = {
                "rows": int(chosen.sum()),
                "auc_weak_fails": float(roc_auc_score(~good[chosen], -fast[chosen])),
            }
    for split in ("test", "ood"):
        chosen = splits == split
        report[f"pooled/{split}"] = {
            "rows": int(chosen.sum()),
            "auc_weak_fails": float(roc_auc_score(~good[chosen], -fast[chosen])),
            "ece": expected_calibration_error(fast[chosen], good[chosen]),
        }
    return report


def _tools(artifact: Artifact, encoder: Encoder, data: Path) -> dict[str, Any]:
    rows = tool_rows(data, live=True)
    items = [EncoderInput(text=r["prompt"], tools=tool_text(r["functions"])) for r in rows]
    encodings = _encode(encoder, items, "tools")
    probabilities = [
        route_probabilities(e.route_logits, artifact.calibration)["tool"] for e in encodings
    ]
    fits = np.asarray([r["tool_fits"] for r in rows])
    predicted = np.asarray(probabilities) >= 0.5
    return {
        "rows": len(rows),
        "auc": float(roc_auc_score(fits, probabilities)),
        "balanced_accuracy": float(balanced_accuracy_score(fits, predicted)),
    }


def _first_look(artifact: Artifact, encoder: Encoder, data: Path) -> dict[str, Any]:
    """Return the share of held-out hard prompts sent slow and of small talk sent fast."""
    arena = read_rows(data / "kinds" / "arena_hard" / "v0.1_question.jsonl.gz")
    hard = [EncoderInput(text=row["prompt"], tools="") for row in arena]
    talk = [EncoderInput(text=t, tools="") for t in chatterbot_turns(data, "english", SMALL_TALK)]
    shares: dict[str, Any] = {}
    for name, items, wants_fast in (
        ("arena_hard_v01_sent_slow", hard, False),
        ("chatterbot_small_talk_sent_fast", talk, True),
    ):
        encodings = _encode(encoder, items, name)
        fast = _p_fast(artifact.calibration, encodings) >= artifact.threshold
        read = np.asarray([e.in_distribution and not e.truncated for e in encodings])
        sent_fast = fast & read
        share = sent_fast.mean() if wants_fast else 1.0 - sent_fast.mean()
        shares[name] = {"rows": len(items), "share": float(share)}
    return shares


def _temperature(encoder: Encoder, data: Path) -> dict[str, Any]:
    tables = temperature_tables(data)
    wanted: list[float] = []
    items: list[EncoderInput] = []
    for file, table in (("question.jsonl", "mt_bench"), ("vicuna80_question.jsonl", "vicuna80")):
        for row in read_rows(data / "kinds" / "mt_bench" / file):
            items.append(EncoderInput(text=row["turns"][0]))
            wanted.append(float(np.clip(tables[table][row["category"]], 0.1, 1.5)))
    predicted = np.asarray([e.temperature for e in _encode(encoder, items, "temperature")])
    target = np.asarray(wanted)
    constant = np.abs(target - np.median(target)).mean()
    return {
        "rows": len(items),
        "mean_absolute_error": float(np.abs(predicted - target).mean()),
        "best_constant": float(constant),
        "spearman": float(spearmanr(predicted, target).statistic),
    }


def _lengths(encoder: Encoder, data: Path) -> dict[str, Any]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in read_rows(data / "kinds" / "lengths.jsonl.gz"):
        if row["split"] == "test":
            groups.setdefault(f"{row['source']}/{row['generator']}", []).append(row)
    report: dict[str, Any] = {}
    for name, rows in sorted(groups.items()):
        encodings = _encode(encoder, [EncoderInput(text=r["prompt"]) for r in rows], name)
        predicted = [e.output_tokens_p50 for e in encodings]
        actual = [r["out_chars"] / CHARS_PER_TOKEN for r in rows]
        report[name] = {
            "rows": len(rows),
            "spearman": float(spearmanr(predicted, actual).statistic),
        }
    return report


def _qqp(artifact: Artifact, encoder: Encoder, data: Path, device: str) -> dict[str, Any]:
    rows = list(read_rows(data / "cache_pairs" / "qqp_eval_only.jsonl.gz"))[:QQP_ROWS]
    labels = [row["label"] for row in rows]
    sides = [[row[key] for row in rows] for key in ("text_a", "text_b")]
    ours = [
        np.stack([e.embedding for e in _encode(encoder, [EncoderInput(text=t) for t in s], "QQP")])
        for s in sides
    ]
    teacher = load_teacher(device)
    theirs = [teacher.encode(s, normalize_embeddings=True, show_progress_bar=False) for s in sides]
    similarity = (ours[0] * ours[1]).sum(axis=1)
    hit = similarity >= artifact.semantic_threshold
    consent = [refusal(row["text_a"], row["text_b"]) is None for row in rows]
    guarded = hit & np.asarray(consent)
    same = np.asarray(labels) == 1
    student_auc = roc_auc_score(labels, similarity)
    teacher_auc = roc_auc_score(labels, (theirs[0] * theirs[1]).sum(axis=1))
    return {
        "rows": len(rows),
        "student": float(student_auc),
        "teacher": float(teacher_auc),
        "threshold": artifact.semantic_threshold,
        "recall": float(hit[same].mean()),
        "negative_hit_rate": float(hit[~same].mean()),
        "guarded_recall": float(guarded[same].mean()),
        "guarded_negative_hit_rate": float(guarded[~same].mean()),
    }


def _abstention(encoder: Encoder, data: Path) -> dict[str, Any]:
    """Return the share of strange inputs, and of held-out ordinary ones, that abstain."""
    rng = random.Random(0)  # noqa: S311 - nothing secret
    letters = "abcdefghijklmnopqrstuvwxyz"
    gibberish = [
        " ".join("".join(rng.choices(letters, k=rng.randint(3, 12))) for _ in range(12))
        for _ in range(200)
    ]
    blobs = [base64.b64encode(rng.randbytes(120)).decode() for _ in range(200)]
    with_zh = data / "kinds" / "belle_zh" / "eval_set.json.gz"
    chinese = [r["question"] for r in read_rows(with_zh) if split_of(r["question"]) == "test"]
    ordinary = [r["prompt"] for r in routing_rows(data, "test")][:1000]
    report: dict[str, Any] = {}
    for name, texts in (
        ("gibberish", gibberish),
        ("base64", blobs),
        ("chinese", chinese),
        ("routing_test", ordinary),
    ):
        encodings = _encode(encoder, [EncoderInput(text=t) for t in texts], name)
        share = float(np.mean([not e.in_distribution for e in encodings]))
        report[name] = {"rows": len(texts), "share_abstaining": share}
    return report


def to_json(metrics: dict[str, Any]) -> str:
    """Return the figures as JSON, rounded to four places."""

    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rounded(part) for key, part in value.items()}
        return round(value, 4) if isinstance(value, float) else value

    return json.dumps(rounded(metrics), indent=2)
