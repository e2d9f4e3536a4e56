"""Write the model card that ships beside the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from router.artifact import ArtifactConfig

CARD = "README.md"

_TEXT = """# {name}

The router encoder of fastslow: one forward pass of a ModernBERT-architecture model (hidden
256, 7 layers, 4 heads, 11.8 M parameters) gives route probabilities, the expected gain of the
strong model, a sampling temperature, an expected answer length and a 256-dimensional
embedding for the semantic cache.

- Licence: Apache-2.0.
- Files: `model.int8.onnx` (served), `model.safetensors` (float16, for further training),
  `tokenizer.json` (WordPiece vocabulary of the teacher), `out_of_distribution.npz`,
  `config.json`, `SHA256SUMS`.
- Rebuild: `make weights DATA=DIR`; `router/training/README.md` names the data sets.

## What it was trained on

The embedding is distilled from sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) on
{corpus} texts, {presentations:,} presentations, seed {seed}. The token table starts from the
teacher's, projected on its leading axes. The heads are fitted on the frozen encoder:

| source | licence | labels |
|---|---|---|
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
optima.

## How good it is

Measured on the int8 graph as shipped, on held-out rows.

{tables}

## Limits

- English only. Other languages are caught by the out-of-distribution score as far as the
  table above says, not by a language detector.
- "Weak model fails" is learnt from exam-like questions; everyday requests are covered by
  intents and small talk only.
- Whether an offered tool fits is judged from the mean of all tokens, so a fitting tool for an
  everyday sentence is often missed, such as "What is the weather in Paris right now?" beside a
  weather tool. Commands without a tool list are recognised better.
- Short factual questions lean slow, such as "What is the capital of France?", because the
  reference weak models fail most exact-match trivia in the training rows.
- int8 activations are scaled per forward pass, so the same text encoded beside others may
  differ in the third decimal.
"""


def write_card(folder: Path, config: ArtifactConfig, run: dict[str, Any]) -> None:
    """Write ``README.md`` into ``folder`` from the measured figures."""
    metrics = config.metrics
    tables = [_routing_table(metrics["routing"]), _other_table(metrics)]
    text = _TEXT.format(name=config.name, tables="\n\n".join(tables), **run)
    (folder / CARD).write_text(text, encoding="utf-8")


def _routing_table(routing: dict[str, Any]) -> str:
    lines = ["| rows | n | AUC, weak model fails | ECE of P(fast) |", "|---|---|---|---|"]
    for key, row in routing.items():
        ece = f"{row['ece']:.3f}" if "ece" in row else ""
        lines.append(f"| {key} | {row['rows']} | {row['auc_weak_fails']:.3f} | {ece} |")
    return "\n".join(lines)


def _other_table(metrics: dict[str, Any]) -> str:
    tools, temperature = metrics["tools_live"], metrics["temperature"]
    qqp = metrics["embedding_qqp"]
    lines = ["| what | n | figure |", "|---|---|---|"]
    lines.append(
        f"| tool fits, BFCL live categories | {tools['rows']} | balanced accuracy"
        f" {tools['balanced_accuracy']:.3f}, AUC {tools['auc']:.3f} |"
    )
    for key, row in metrics["operators_first_look"].items():
        lines.append(f"| {key.replace('_', ' ')} | {row['rows']} | {row['share']:.3f} |")
    lines.append(
        f"| temperature, MT-bench and Vicuna | {temperature['rows']} | mean absolute error"
        f" {temperature['mean_absolute_error']:.3f} (best constant"
        f" {temperature['best_constant']:.3f}), Spearman {temperature['spearman']:.3f} |"
    )
    for key, row in metrics["length_spearman"].items():
        lines.append(f"| answer length, {key} | {row['rows']} | Spearman {row['spearman']:.3f} |")
    lines.append(
        f"| embedding, QQP pairs | {qqp['rows']} | AUC {qqp['student']:.3f}"
        f" (teacher {qqp['teacher']:.3f}) |"
    )
    lines.append(
        f"| cosine over {qqp['threshold']}, QQP pairs, no guard | {qqp['rows']} | recall"
        f" {qqp['recall']:.3f}, negatives hit {qqp['negative_hit_rate']:.3f} (labels are noisy) |"
    )
    lines.append(
        f"| the same with the guard | {qqp['rows']} | recall {qqp['guarded_recall']:.3f},"
        f" negatives hit {qqp['guarded_negative_hit_rate']:.3f} |"
    )
    for key, row in metrics["abstention"].items():
        lines.append(
            f"| abstains on {key.replace('_', ' ')} | {row['rows']} |"
            f" {row['share_abstaining']:.3f} |"
        )
    return "\n".join(lines)
