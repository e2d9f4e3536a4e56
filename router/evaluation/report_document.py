"""Lay the report out: which tables and plots it has, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from router.evaluation import section_documents as sections
from router.evaluation.blocks import Block, Heading, Paragraph, Table
from router.evaluation.figures import (
    figure_text,
    name_text,
    number_text,
    target_text,
)
from router.evaluation.routing_document import routing_blocks


def document(report: Mapping[str, Any]) -> list[Block]:
    """Return the report's blocks; every section that ran is there, also one that was skipped."""
    artifact, settings = report["artifact"], report["settings"]
    quick = " Quick run: few rows, figures mean nothing." if settings["quick"] else ""
    blocks: list[Block] = [
        Heading(text=f"Evaluation of {artifact['name']}", level=1),
        Paragraph(
            text=f"Artifact {artifact['revision']}, routes {', '.join(artifact['routes'])},"
            f" languages {', '.join(artifact['languages'])}, threshold"
            f" {number_text(artifact['threshold'])}."
            " Measured on the int8 graph as shipped, one row at a time. Brackets are 95 %"
            f" bootstrap intervals ({settings['resamples']} resamples, seed {settings['seed']});"
            f" differences are paired.{quick}"
        ),
        *_targets(report["targets"]),
    ]
    for name, section in report["sections"].items():
        title, lay_out = _SECTIONS[name]
        blocks.append(Heading(text=title))
        if "skipped" in section:
            blocks.append(Paragraph(text=f"Skipped: {section['skipped']}."))
        else:
            blocks += lay_out(section, report)
            blocks += _missing(section)
    return blocks


def _targets(rows: list[dict[str, Any]]) -> Iterator[Block]:
    yield Heading(text="Targets")
    met = sum(row["met"] is True for row in rows)
    judged = sum(row["met"] is not None for row in rows)
    yield Paragraph(text=f"{met} of {judged} met.")
    yield targets_table(rows)


def targets_table(rows: list[dict[str, Any]]) -> Table:
    """Return the target table; an empty "met" means not measured, or nothing asked."""
    return Table(
        header=("what", "met", "target", "measured", "n", "baselines in the same run"),
        rows=[
            (
                row["what"],
                {True: "yes", False: "no", None: ""}[row["met"]],
                target_text(row),
                figure_text(row["measured"]),
                "" if row["measured"]["n"] is None else str(row["measured"]["n"]),
                ", ".join(
                    f"{name_text(name)} {number_text(value)}"
                    for name, value in row["to_beat"].items()
                    if value is not None and name != "ratio"
                ),
            )
            for row in rows
        ],
    )


def _missing(section: Mapping[str, Any]) -> Iterator[Block]:
    missing = section.get("missing")
    if missing:
        listed = "; ".join(f"{name_text(name)}: {why}" for name, why in missing.items())
        yield Paragraph(text=f"Baselines that could not run: {listed}.")


_SECTIONS: dict[str, tuple[str, Callable[[dict[str, Any], Mapping[str, Any]], Iterator[Block]]]] = {
    "routing": ("Who should answer", routing_blocks),
    "tools": ("Does an offered tool fit", sections.tools_blocks),
    "first_look": ("What an operator sees first", sections.first_look_blocks),
    "out_of_scope": ("Out of scope", sections.out_of_scope_blocks),
    "temperature": ("Sampling temperature", sections.temperature_blocks),
    "lengths": ("Expected length", sections.lengths_blocks),
    "embedding": ("Embedding", sections.embedding_blocks),
    "abstention": ("What it does not know", sections.abstention_blocks),
    "policy_checks": ("Policy checks", sections.policy_checks_blocks),
    "latency": ("Latency", sections.latency_blocks),
}
