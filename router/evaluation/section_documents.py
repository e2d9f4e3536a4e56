"""Lay out every section but routing.

Each function takes a section of the report, and the report itself, which most do not need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from router.evaluation.blocks import Block, Line, LinePlot, Paragraph, Table
from router.evaluation.figures import figure_text, name_text, number_text


def tools_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return whether an offered tool fits, beside the baselines."""
    del report
    yield Paragraph(
        text=f"{section['n']} rows of BFCL's live categories with functions, a tool fits in"
        f" {number_text(section['fits'])} of them. Baselines are fitted on the other categories"
        f" ({section['trained_on']['rows']} rows). Called fitting at P(tool) ≥ .5; recall where one"
        f" fits {number_text(section['recall']['fits'])}, where none does"
        f" {number_text(section['recall']['does_not_fit'])}."
    )
    names = list(section["balanced_accuracy"])
    lead = section["differences"].get("balanced_accuracy", {})
    yield Table(
        header=("", "balanced accuracy", "AUC", "this router's lead"),
        rows=[
            (
                name_text(name),
                figure_text(section["balanced_accuracy"][name]),
                figure_text(section["auc"].get(name)),
                figure_text(lead[name]) if name in lead else "",
            )
            for name in names
        ],
    )


def first_look_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return where hard prompts and small talk go."""
    del report
    yield Paragraph(
        text="Decided by the default policy at the artifact's threshold, abstentions included;"
        " neither source is trained on. Baselines choose their thresholds on the dev rows. The AUC"
        " tells small talk from hard prompts by P(fast), whatever the threshold."
    )
    hard, talk = section["arena_hard_v01_sent_slow"], section["small_talk_sent_fast"]
    yield Table(
        header=(
            "",
            f"arena-hard v0.1 sent slow (n {hard['n']})",
            f"small talk sent fast (n {talk['n']})",
            "threshold",
            "AUC",
        ),
        rows=[
            (
                name_text(name),
                figure_text(share),
                figure_text(talk["share"][name]),
                number_text(section["thresholds"].get(name)),
                figure_text(section["auc_small_talk"].get(name)),
            )
            for name, share in hard["share"].items()
        ],
    )


def out_of_scope_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return what happens to requests outside every intent, with the trade-offs."""
    del report
    n = section["n"]
    decided = section["decisions"]
    yield Paragraph(
        text="CLINC150 test rows, read as Route with tools unknown. Kept = the encoder abstains or"
        " the request goes slow."
    )
    yield Table(
        header=("", f"in-scope (n {n['in_scope']})", f"out-of-scope (n {n['out_of_scope']})"),
        rows=[
            (key.replace("_", " "), figure_text(value), figure_text(decided["out_of_scope"][key]))
            for key, value in decided["in_scope"].items()
        ],
    )
    yield Table(
        header=("score", "AUC", "out-of-scope kept at ≤ 5 % of in-scope", "threshold"),
        rows=[
            (
                name.replace("_", " "),
                figure_text(score["auc"]),
                number_text(score["out_of_scope_kept_at_limit"]),
                number_text(score["threshold_at_limit"]),
            )
            for name, score in section["scores"].items()
        ],
    )
    yield LinePlot(
        title="Out-of-scope requests kept, by in-scope requests kept",
        x_label="in-scope kept",
        y_label="out-of-scope kept",
        lines=[
            Line(
                name=name.replace("_", " "),
                x=score["curve"]["in_scope_kept"],
                y=score["curve"]["out_of_scope_kept"],
                emphasis=name == "outlier_distance",
            )
            for name, score in section["scores"].items()
        ],
        marks=[("5 %", 0.05)],
    )


def temperature_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return the error and the order of the predicted temperatures."""
    del report
    yield Table(
        header=("n", "mean absolute error", "best constant", "ratio", "Spearman"),
        rows=[
            (
                str(section["n"]),
                *(
                    figure_text(section[key])
                    for key in ("mean_absolute_error", "best_constant", "ratio", "spearman")
                ),
            )
        ],
    )


def lengths_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return the order of the expected lengths, one generator each."""
    del report
    yield Paragraph(text="Spearman's correlation with the actual length, one generator each.")
    yield Table(
        header=("source/generator", "n", "this router", "TF-IDF", "lead"),
        rows=[
            (
                name,
                str(group["n"]),
                figure_text(group["spearman"]["router"]),
                figure_text(group["spearman"].get("tfidf")),
                figure_text(group["differences"].get("tfidf")),
            )
            for name, group in section["groups"].items()
        ],
    )


def embedding_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return the embedding beside the teacher, alone and with the guard."""
    del report
    yield Paragraph(
        text=f"{section['n']} QQP pairs; their labels are noisy at the top of the similarity range."
    )
    yield Table(
        header=("AUC of cosine", ""),
        rows=[(name_text(name), figure_text(auc)) for name, auc in section["auc"].items()],
    )
    yield Table(
        header=(
            f"cosine ≥ {number_text(section['semantic_threshold'])}",
            "alone",
            "with the guard",
        ),
        rows=[
            (
                "same question, hit",
                figure_text(section["recall"]),
                figure_text(section["guarded_recall"]),
            ),
            (
                "other question, hit",
                figure_text(section["negative_hit_rate"]),
                figure_text(section["guarded_negative_hit_rate"]),
            ),
        ],
    )


def abstention_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return what is declined, rightly and wrongly."""
    del report
    for title, part in (
        ("should abstain", "strange"),
        ("undeclared language", "undeclared_languages"),
        ("should be judged", "ordinary"),
    ):
        if section[part]:
            yield Table(
                header=(title, "n", "abstains", "unfamiliar or foreign", "cut"),
                rows=[
                    (
                        name.replace("_", " "),
                        str(row["n"]),
                        figure_text(row["abstaining"]),
                        figure_text(row["unfamiliar"]),
                        number_text(row["reasons"]["INPUT_TRUNCATED"]),
                    )
                    for name, row in section[part].items()
                ],
            )


def policy_checks_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return how often an invariant is violated."""
    del report
    yield Table(
        header=(f"must hold of {section['n']} texts", "violations"),
        rows=[
            (name.replace("_", " "), str(count)) for name, count in section["violations"].items()
        ],
    )
    yield Paragraph(
        text="Company in a batch of eight moves P(fast) by at most"
        f" {number_text(section['batch_shift'])}: int8 activations are scaled per pass."
    )


def latency_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return the times of a forward pass."""
    del report
    keys = list(section["median"]["router"])
    yield Paragraph(
        text="Median of one forward pass, one thread, milliseconds; the graphs run in turn."
    )
    yield Table(
        header=("", *(key.replace("_ms", "").replace("_", " ") for key in keys)),
        rows=[
            (name_text(name), *(f"{row[key]:.2f}" for key in keys))
            for name, row in section["median"].items()
        ]
        + [
            (f"ratio to {name_text(name)}", *(number_text(value) for value in row.values()))
            for name, row in section["ratio_to"].items()
        ],
    )
