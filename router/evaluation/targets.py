"""Hold the measured figures against the targets the project has set itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

_MMLU, _OOD = "routellm_mmlu/test", "routellm_mmlu/ood"
_LLMROUTER, _GSM8K = "llmrouter_train/test", "routellm_gsm8k/test"
_STRANGE = ("gibberish", "base64", "log_dumps", "oversize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One row of the target table.

    Attributes:
        key: Stable name.
        what: What is measured, for people.
        path: Where the figure stands under ``sections``.
        relation: How the figure has to compare with ``bound``; ``"report"`` = no target.
        bound: ``None`` = no target.
        to_beat: Where the figures of the baselines stand under ``sections``, if anywhere.
        end: Which part of the figure is compared: itself, or the lower end of its interval.
    """

    key: str
    what: str
    path: tuple[str, ...]
    relation: Literal[">=", "<=", ">", "report"]
    bound: float | None = None
    to_beat: tuple[str, ...] = ()
    end: Literal["value", "low"] = "value"


def _routing(group: str, metric: str) -> tuple[str, ...]:
    return ("routing", "groups", group, "metrics", metric)


def _auc(key: str, what: str, group: str, bound: float | None) -> Target:
    path = _routing(group, "auc_weak_fails")
    relation: Literal[">=", "report"] = "report" if bound is None else ">="
    return Target(
        key=key, what=what, path=(*path, "router"), relation=relation, bound=bound, to_beat=path
    )


TARGETS: tuple[Target, ...] = (
    _auc("auc_mmlu_test", "AUC weak fails, MMLU test", _MMLU, 0.71),
    _auc("auc_mmlu_ood", "AUC weak fails, MMLU ood", _OOD, 0.69),
    _auc("auc_llmrouter_test", "AUC weak fails, LLMRouter train rows of test", _LLMROUTER, 0.82),
    Target(
        key="apgr_mmlu_ood",
        what="APGR, MMLU ood",
        path=(*_routing(_OOD, "apgr"), "router"),
        relation=">=",
        bound=0.67,
        to_beat=_routing(_OOD, "apgr"),
    ),
    Target(
        key="apgr_mmlu_ood_lead",
        what="APGR, MMLU ood: lead over the best baseline, lower end",
        path=("routing", "groups", _OOD, "differences", "apgr", "over", "*best_baseline"),
        relation=">",
        bound=0.0,
        end="low",
    ),
    Target(
        key="apgr_by_gain_llmrouter_test",
        what="APGR by strong_gain, LLMRouter train rows of test",
        path=(*_routing(_LLMROUTER, "apgr_by_strong_gain"), "router"),
        relation=">=",
        bound=0.86,
        to_beat=_routing(_LLMROUTER, "apgr_by_strong_gain"),
    ),
    _auc("auc_gsm8k_test", "AUC weak fails, GSM8K test (too few rows to decide)", _GSM8K, None),
    Target(
        key="tool_fits_balanced_accuracy",
        what="Tool fits, BFCL live: balanced accuracy",
        path=("tools", "balanced_accuracy", "router"),
        relation=">=",
        bound=0.80,
        to_beat=("tools", "balanced_accuracy"),
    ),
    Target(
        key="arena_hard_sent_slow",
        what="arena-hard v0.1 sent slow",
        path=("first_look", "arena_hard_v01_sent_slow", "share", "router"),
        relation=">=",
        bound=0.90,
        to_beat=("first_look", "arena_hard_v01_sent_slow", "share"),
    ),
    Target(
        key="small_talk_sent_fast",
        what="Small talk sent fast",
        path=("first_look", "small_talk_sent_fast", "share", "router"),
        relation=">=",
        bound=0.90,
        to_beat=("first_look", "small_talk_sent_fast", "share"),
    ),
    Target(
        key="clinc_out_of_scope_kept",
        what="CLINC out-of-scope abstaining or slow",
        path=("out_of_scope", "decisions", "out_of_scope", "kept"),
        relation=">=",
        bound=0.80,
    ),
    Target(
        key="clinc_in_scope_kept",
        what="CLINC in-scope abstaining or slow",
        path=("out_of_scope", "decisions", "in_scope", "kept"),
        relation="<=",
        bound=0.05,
    ),
    Target(
        key="ece_test",
        what="ECE debiased, pooled test",
        path=("routing", "groups", "pooled/test", "calibration", "ece_debiased"),
        relation="<=",
        bound=0.03,
    ),
    Target(
        key="ece_ood",
        what="ECE debiased, ood",
        path=("routing", "groups", "pooled/ood", "calibration", "ece_debiased"),
        relation="<=",
        bound=0.08,
    ),
    Target(
        key="temperature_error_ratio",
        what="Temperature: error relative to the best constant",
        path=("temperature", "ratio"),
        relation="<=",
        bound=0.6,
    ),
    Target(
        key="temperature_spearman",
        what="Temperature: Spearman",
        path=("temperature", "spearman"),
        relation=">=",
        bound=0.6,
    ),
    Target(
        key="embedding_auc_ratio",
        what="Embedding: AUC on QQP relative to the teacher",
        path=("embedding", "auc", "ratio"),
        relation=">=",
        bound=0.97,
    ),
    *(
        Target(
            key=f"abstains_{name}",
            what=f"Abstains on {name.replace('_', ' ')}",
            path=("abstention", "strange", name, "abstaining"),
            relation=">=",
            bound=0.95,
        )
        for name in _STRANGE
    ),
    Target(
        key="abstains_in_distribution",
        what="Abstains on in-distribution test prompts",
        path=("abstention", "ordinary", "in_distribution_together", "unfamiliar"),
        relation="<=",
        bound=0.03,
    ),
    *(
        Target(
            key=f"latency_32_tokens_{precision}",
            what=f"Latency at 32 tokens relative to MiniLM {precision} in ONNX Runtime",
            path=("latency", "ratio_to", f"teacher_{precision}", "32_tokens"),
            relation="<=",
            bound=0.4,
        )
        for precision in ("fp32", "int8")
    ),
)


def target_table(sections: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row a target; ``met`` is ``None`` where nothing was measured or is asked."""
    targets = [*TARGETS, *_language_targets(sections), *_length_targets(sections)]
    return [_row(target, sections) for target in targets]


def _language_targets(sections: Mapping[str, Any]) -> list[Target]:
    """Return one target a language: pooled, the ones in other scripts would hide the rest."""
    languages = sections.get("abstention", {}).get("undeclared_languages", {})
    return [
        Target(
            key=f"abstains_language_{code}",
            what=f"Abstains on undeclared language {code}",
            path=("abstention", "undeclared_languages", code, "abstaining"),
            relation=">=",
            bound=0.95,
        )
        for code in languages
    ]


def _length_targets(sections: Mapping[str, Any]) -> list[Target]:
    groups = sections.get("lengths", {}).get("groups", {})
    return [
        Target(
            key=f"length_lead_{name}",
            what=f"Expected length, {name}: Spearman ahead of TF-IDF by",
            path=("lengths", "groups", name, "differences", "tfidf"),
            relation=">=",
            bound=0.05,
            to_beat=("lengths", "groups", name, "spearman"),
        )
        for name in groups
    ]


def _row(target: Target, sections: Mapping[str, Any]) -> dict[str, Any]:
    figure = _at(sections, target.path)
    if isinstance(figure, float | int):
        figure = {"value": float(figure), "low": None, "high": None, "n": None}
    figure = figure or {"value": None, "low": None, "high": None, "n": None}
    compared = figure[target.end]
    met = None
    if compared is not None and target.bound is not None:
        met = {
            ">=": compared >= target.bound,
            "<=": compared <= target.bound,
            ">": compared > target.bound,
        }[target.relation]
    others = _at(sections, target.to_beat) if target.to_beat else None
    to_beat = {
        name: each["value"]
        for name, each in (others or {}).items()
        if isinstance(each, dict) and not name.startswith("router") and "value" in each
    }
    return {
        "key": target.key,
        "what": target.what,
        "relation": target.relation,
        "target": target.bound,
        "compared": target.end,
        "measured": figure,
        "met": met,
        "to_beat": to_beat,
    }


def _at(sections: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return what stands at ``path``; ``*name`` follows the key that ``name`` names above."""
    here: Any = sections
    above: Any = {}
    for key in path:
        if not isinstance(here, Mapping):
            return None
        name = above[key[1:]] if key.startswith("*") else key
        if name not in here:
            return None
        above, here = here, here[name]
    return here
