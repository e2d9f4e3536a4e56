"""Write the model card that ships beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from router.artifact import ArtifactConfig
from router.evaluation.blocks import Heading, Table
from router.evaluation.figures import figure_text, number_text
from router.evaluation.markdown import markdown, table
from router.evaluation.report_document import document, targets_table

CARD = "README.md"

INTRODUCTION = """\
The router encoder of fastslow: one forward pass of a ModernBERT-architecture model (hidden
256, 7 layers, 4 heads, 11.8 M parameters) gives route probabilities, the expected gain of the
strong model, a sampling temperature, an expected answer length and a 256-dimensional
embedding for the semantic cache.

- Licence: Apache-2.0.
- Files: `model.int8.onnx` (served), `model.safetensors` (float16, for further training),
  `tokenizer.json` (WordPiece vocabulary of the teacher), `out_of_distribution.npz`,
  `config.json`, `SHA256SUMS`.
- Rebuild: `make weights DATA=DIR`; `router/training/README.md` names the data sets."""

TRAINED_ON = """\
The embedding is distilled from sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0). The token
table starts from the teacher's, projected on its leading axes. The heads are fitted on the
frozen encoder:

| source | licence | labels |
| --- | --- | --- |
| RouteLLM MMLU and GSM8K (lm-sys) | Apache-2.0 | fast or slow, strong gain, temperature prior |
| LLMRouter train and test (ulab-uiuc) | MIT | fast or slow, strong gain |
| jhu-llm-temperature | BSD-2-Clause | fast or slow, strong gain |
| BFCL, categories without `live_` (Berkeley) | Apache-2.0 | does an offered tool fit |
| CLINC150, HWU64, BANKING77 | CC-BY | our own reading of which intents need a tool |
| arena-hard v2.0 | Apache-2.0 | slow, temperature prior, answer length |
| BELLE eval set | ODC-By | temperature prior, answer length |
| self-instruct seed and user tasks | Apache-2.0 | answer length, no tool |
| chatterbot-corpus (English, general topics) | BSD-3-Clause | fast |

`fast` means: no tool is needed and the reference weak model (mixtral-8x7b, a 7 b class model
or llama-2-7b, by source) answers acceptably. Temperatures are human priors by category, not
optima."""

LIMITS = """\
- English only.
- "Weak model fails" is learnt from exam-like questions; everyday requests are covered by
  intents and small talk only.
- Whether an offered tool fits is judged from the mean of all tokens, so a fitting tool for an
  everyday sentence is often missed, such as "What is the weather in Paris right now?" beside a
  weather tool. Commands without a tool list are recognised better.
- Short factual questions lean slow, such as "What is the capital of France?", because the
  reference weak models fail most exact-match trivia in the training rows.
- int8 activations are scaled per forward pass, so a text encoded beside others may get
  slightly different figures; the policy checks above say by how much."""


def write_card(folder: Path, config: ArtifactConfig, report: Mapping[str, Any]) -> Path:
    """Write ``README.md`` into ``folder`` and return its path.

    Args:
        folder: The artifact's folder.
        config: Its configuration.
        report: What :func:`router.evaluation.run.evaluate` returned for it.

    Raises:
        ValueError: If the report is of another artifact, or of a quick run.
    """
    if report["artifact"]["name"] != config.name:
        msg = f"report: is of {report['artifact']['name']}, the card is of {config.name}"
        raise ValueError(msg)
    if report["settings"]["quick"]:
        msg = "report: is of a quick run, whose figures mean nothing; measure all rows"
        raise ValueError(msg)
    path = folder / CARD
    path.write_text(card(config, report), encoding="utf-8")
    return path


def card(config: ArtifactConfig, report: Mapping[str, Any]) -> str:
    """Return the card as Markdown; a figure that was not measured is a dash."""
    parts = [
        f"# {config.name}",
        INTRODUCTION,
        _settings(config),
        "## What it was trained on",
        TRAINED_ON,
        _training(config.training),
        "## How good it is",
        _how_measured(report),
        _verdict(report["targets"]),
        table(targets_table(report["targets"])),
        *_by_source(report["sections"].get("routing", {})),
        _sections(report),
        "## Limits",
        LIMITS,
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _settings(config: ArtifactConfig) -> str:
    """Return what the artifact does unless configured otherwise."""
    return (
        f"Routes: {', '.join(config.routes)}. Languages: {', '.join(config.languages)}."
        f" Threshold: {number_text(config.threshold)}; the semantic cache hits at a cosine of"
        f" {number_text(config.semantic_threshold)} or more."
    )


def _training(training: Mapping[str, Any]) -> str:
    """Return the plain settings of the training run in one line, nested ones left out."""
    shown = {
        name: f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in training.items()
        if isinstance(value, str | int | float)
    }
    listed = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
    return f"This run: {listed}." if listed else ""


def _how_measured(report: Mapping[str, Any]) -> str:
    settings = report["settings"]
    return (
        "Measured on the int8 graph as shipped, one row at a time, on held-out rows. Brackets"
        f" are 95 % bootstrap intervals ({settings['resamples']} resamples, seed"
        f" {settings['seed']}). `make evaluate` measures it again and shows all figures."
    )


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Return how many targets are met, and by name those that are not."""
    asked = [row for row in rows if row["target"] is not None]
    met, missed, unmeasured = (
        [row["what"] for row in asked if row["met"] is outcome] for outcome in (True, False, None)
    )
    lines = [f"{len(met)} of {len(asked)} targets are met."]
    lines += [f"- Missed: {what}" for what in missed]
    lines += [f"- Not measured: {what}" for what in unmeasured]
    return "\n".join(lines[:1] + ([""] if lines[1:] else []) + lines[1:])


def _by_source(routing: Mapping[str, Any]) -> list[str]:
    """Return the routing figures by source; the report has everything else about them."""
    if not routing.get("groups"):
        return []
    rows = [
        (
            name,
            str(group["n"]),
            figure_text(group["metrics"]["auc_weak_fails"]["router"]),
            figure_text(group["calibration"]["ece_debiased"]),
        )
        for name, group in routing["groups"].items()
    ]
    header = ("rows", "n", "AUC, weak model fails", "ECE of P(fast), debiased")
    return ["### Who should answer", table(Table(header=header, rows=rows))]


def _sections(report: Mapping[str, Any]) -> str:
    """Return the tables of the other sections, one heading level down, without plots."""
    others = {name: part for name, part in report["sections"].items() if name != "routing"}
    blocks = document({**report, "sections": others, "targets": []})
    titles = [i for i, block in enumerate(blocks) if isinstance(block, Heading)]
    # Before the third title stand the report's own and the empty target table's.
    shown = blocks[titles[2] :] if len(titles) > 2 else []
    return markdown(
        [
            Heading(text=block.text, level=block.level + 1) if isinstance(block, Heading) else block
            for block in shown
        ]
    )
