"""Rows of the tests' own, laid out like the public data sets."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

SUBJECTS = ("river", "planet", "garden", "engine", "violin", "market", "castle", "forest")
VERBS = ("grow", "move", "break", "shine", "sing", "open", "freeze", "burn")


def write_data(folder: Path) -> Path:
    """Write a tiny data folder and return it."""
    easy = [f"What is a {s} number {i}?" for s in SUBJECTS for i in range(8)]
    hard = [
        f"Prove that every {s} with {i + 2} sides must {v} when x^{i} = {i * 7} + y."
        for s in SUBJECTS
        for i, v in enumerate(VERBS)
    ]
    _routing(folder, easy, hard)
    _tools(folder)
    _intents(folder)
    _kinds(folder)
    _sentences(folder, easy)
    return folder


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")


def _routing(folder: Path, easy: list[str], hard: list[str]) -> None:
    splits = ("train", "train", "train", "dev", "test", "ood")
    rows = []
    for texts, weak in ((easy, 1.0), (hard, 0.0)):
        for i, text in enumerate(texts):
            # One label in eight is wrong, as in life: calibration needs something to find.
            score = 1.0 - weak if i % 8 == 7 else weak
            rows.append(
                {
                    "source": "routellm_mmlu",
                    "task": "t",
                    "prompt": text,
                    "weak_score": score,
                    "strong_score": 1.0,
                    "split": splits[i % len(splits)],
                }
            )
    _jsonl(folder / "routing" / "labels.jsonl.gz", rows)


def _tools(folder: Path) -> None:
    rows = []
    for i in range(60):
        fits = i % 2 == 0
        tool = {"name": "get_weather", "description": "Current weather of a city."}
        rows.append(
            {
                "category": ("simple" if fits else "irrelevance") if i < 40 else "live_simple",
                "tool_fits": fits,
                "prompt": f"Weather in city {i}?" if fits else f"Write a poem about {i} birds.",
                "functions": [tool],
            }
        )
    _jsonl(folder / "tools" / "bfcl.jsonl.gz", rows)


def _intents(folder: Path) -> None:
    clinc = folder / "intents" / "clinc150"
    clinc.mkdir(parents=True)
    (clinc / "domains.json").write_text(json.dumps({"small_talk": ["greeting"], "work": ["alarm"]}))
    rows = [[f"hello friend {i}", "greeting"] for i in range(12)]
    rows += [[f"set an alarm for {i} o'clock", "alarm"] for i in range(12)]
    outside = [[f"how deep is lake {i}", "oos"] for i in range(12)]
    parts = {
        "train": rows,
        "val": rows[::4],
        "oos_train": outside[:8],
        "oos_val": outside[8:],
    }
    (clinc / "data_full.json.gz").write_bytes(gzip.compress(json.dumps(parts).encode()))
    for part in ("train", "valid"):
        hwu = folder / "intents" / "hwu64" / part
        hwu.mkdir(parents=True)
        (hwu / "label").write_text("general_joke\nalarm_set\n" * 6)
        (hwu / "seq.in").write_text("tell me a joke\nwake me at six\n" * 6)
    banking = folder / "intents" / "banking77"
    banking.mkdir(parents=True)
    lines = "".join(f"where is my card number {i},card_arrival\n" for i in range(320))
    (banking / "train.csv").write_text("text,category\n" + lines)


def _kinds(folder: Path) -> None:
    kinds = folder / "kinds"
    tables = {
        "note": "made up",
        "mt_bench": {"writing": 0.7, "math": 0.0},
        "vicuna80": {"generic": 0.5, "math": 0.1},
        "arena_hard_v2": {"hard_prompt/coding": 0.1, "creative_writing/creative_writing": 0.9},
        "belle_zh": {"code": 0.1, "generation": 0.8},
        "routing_sources": {"routellm_mmlu": 0.1},
    }
    kinds.mkdir(parents=True)
    (kinds / "temperature_by_category.json").write_text(json.dumps(tables))
    hard, soft = ("hard_prompt", "coding"), ("creative_writing", "creative_writing")
    arena = [
        {
            "category": (hard if i % 2 else soft)[0],
            "subcategory": (hard if i % 2 else soft)[1],
            "prompt": f"Write a compiler pass {i}." if i % 2 else f"A tale of {i} dragons.",
        }
        for i in range(24)
    ]
    _jsonl(kinds / "arena_hard" / "v2.0_question.jsonl.gz", arena)
    _jsonl(kinds / "arena_hard" / "v0.1_question.jsonl.gz", arena[:6])
    belle = [
        {"question": f"写一个程序 {i}", "class": "code" if i % 2 else "generation"}
        for i in range(40)
    ]
    _jsonl(kinds / "belle_zh" / "eval_set.json.gz", belle)
    for name, key in (("question.jsonl", "writing"), ("vicuna80_question.jsonl", "generic")):
        rows = [
            {"category": key if i % 2 else "math", "turns": [f"Question {i} of {key}?"]}
            for i in range(8)
        ]
        _jsonl(kinds / "mt_bench" / name, rows)
    talk = kinds / "chatterbot_corpus"
    talk.mkdir()
    topics = "conversations greetings emotion humor gossip botprofile ai computers food health"
    topics += " history literature money movies politics psychology science sports"
    for topic in topics.split():
        (talk / f"english__{topic}.yml").write_text(
            f"categories:\n- {topic}\nconversations:\n- - Hello {topic}\n  - Hi\n"
        )
    tasks = [
        {"instruction": f"Rewrite line {i}.", "instances": [{"input": f"line {i}", "output": ""}]}
        for i in range(20)
    ]
    _jsonl(kinds / "self_instruct" / "user_oriented_instructions.jsonl.gz", tasks)
    generators = (
        ("arena_hard", "gpt-4-0314"),
        ("routellm_gsm8k", "gpt-4-1106-preview"),
        ("self_instruct_seed", "human"),
        ("belle_zh", "reference"),
    )
    rng = np.random.default_rng(0)
    lengths = [
        {
            "source": source,
            "generator": generator,
            "prompt": f"{source} asks {i} things about a {SUBJECTS[i % 8]}",
            "out_chars": int(rng.integers(40, 4000)),
            "split": ("train", "train", "dev", "test")[i % 4],
        }
        for source, generator in generators
        for i in range(24)
    ]
    _jsonl(kinds / "lengths.jsonl.gz", lengths)


def _sentences(folder: Path, easy: list[str]) -> None:
    rows = [
        {"source": "intent", "text": f"the {s} can {v} {i} times"}
        for s in SUBJECTS
        for i, v in enumerate(VERBS)
    ]
    _jsonl(folder / "sentences" / "sentences.jsonl.gz", rows)
    pairs = [
        {
            "text_a": text,
            "text_b": text.replace("What is", "Tell me what is") if i % 2 else easy[i - 5],
            "label": i % 2,
        }
        for i, text in enumerate(easy)
    ]
    _jsonl(folder / "cache_pairs" / "qqp_eval_only.jsonl.gz", pairs)
