"""Lay out the routing section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from router.evaluation.blocks import BarPlot, Block, Heading, Line, LinePlot, Paragraph, Table
from router.evaluation.figures import figure_text, name_text, number_text, value_text

_METRICS = {
    "auc_weak_fails": "AUC of “the weak model fails”",
    "apgr": "APGR, by P(fast)",
    "apgr_by_strong_gain": "APGR, by expected strong gain",
    "cpt50": "CPT(50)",
    "cpt80": "CPT(80)",
    "aiq": "AIQ",
}
_EXPLAINED = {
    "auc_weak_fails": "How well P(fast) tells the prompts the weak model fails on (score < .5) from"
    " the others.",
    "apgr": "Average performance gap recovered (RouteLLM, section 3): the exact integral over the"
    " share of strong calls; random is .5.",
    "apgr_by_strong_gain": "The same when the expected gain decides who gets the strong model.",
    "cpt50": "Least share of strong calls that recovers half of the gap; less is better.",
    "cpt80": "The same for four fifths of the gap.",
    "aiq": "Mean height of the non-decreasing cost-quality hull (RouterBench, section 3), with the"
    " share of strong calls as cost.",
}
_PLOTTED = ("routellm_mmlu/test", "routellm_mmlu/ood", "llmrouter_train/test", "pooled/test")
_POOLED = ("pooled/test", "pooled/ood")


def routing_blocks(section: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    """Return the blocks of the routing section."""
    groups: dict[str, Any] = section["groups"]
    yield Paragraph(
        text="Test and ood rows as they are split; baselines are fitted on the"
        f" {section['trained_on']['rows']} train and dev rows of all sources. The subject prior"
        " knows which task a prompt comes from, which no prompt tells in service. Pooled figures"
        " reward recognising the benchmark."
    )
    for plot in _PLOTTED:
        if plot in groups:
            yield _quality_plot(plot, groups[plot])
    for metric, title in _METRICS.items():
        yield Heading(text=title, level=3)
        yield Paragraph(text=_EXPLAINED[metric])
        yield _metric_table(metric, groups)
    yield Heading(text="Lead over each baseline", level=3)
    for metric in ("auc_weak_fails", "apgr", "apgr_by_strong_gain"):
        yield Paragraph(text=f"{_METRICS[metric]}:")
        yield _lead_table(metric, groups)
    yield from _calibration(groups)
    yield from _decisions(groups, report)
    yield from _selective(groups)
    yield from _strata(groups)


def _quality_plot(name: str, group: dict[str, Any]) -> LinePlot:
    curves = dict(group["curves"])
    share = curves.pop("share_strong")
    ends = [group["weak_quality"], group["strong_quality"]]
    return LinePlot(
        title=f"{name} (n {group['n']})",
        x_label="share of calls to the strong model",
        y_label="mean quality",
        lines=[
            Line(name="random, expected", x=[0.0, 1.0], y=ends, dashed=True),
            *(
                Line(name=name_text(who), x=share, y=curve, emphasis=who == "router")
                for who, curve in curves.items()
                if who != "random"
            ),
        ],
    )


def _metric_table(metric: str, groups: dict[str, Any]) -> Table:
    names = list(next(iter(groups.values()))["metrics"][metric])
    return Table(
        header=("rows", "n", *map(name_text, names)),
        rows=[
            (
                key,
                str(group["n"]),
                *(
                    (figure_text if name == "router" else value_text)(
                        group["metrics"][metric][name]
                    )
                    for name in names
                ),
            )
            for key, group in groups.items()
        ],
    )


def _lead_table(metric: str, groups: dict[str, Any]) -> Table:
    first = next(iter(groups.values()))["differences"][metric]["over"]
    names = [name for name in first if name != "oracle"]
    return Table(
        header=("rows", *map(name_text, names)),
        rows=[
            (key, *(figure_text(group["differences"][metric]["over"][name]) for name in names))
            for key, group in groups.items()
        ],
    )


def _calibration(groups: dict[str, Any]) -> Iterator[Block]:
    yield Heading(text="Calibration of P(fast)", level=3)
    yield Paragraph(
        text="Expected calibration error against weak score ≥ .5 over 15 bins of equal mass; what"
        " its debiased form subtracts is estimated as by Kumar et al., arXiv:1909.10155. By chance"
        " = what a perfect model of this sharpness would score on as many rows."
    )
    yield Table(
        header=("rows", "n", "ECE", "debiased", "by chance"),
        rows=[
            (
                key,
                str(group["n"]),
                figure_text(group["calibration"]["ece"]),
                figure_text(group["calibration"]["ece_debiased"]),
                number_text(group["calibration"]["ece_by_chance"]),
            )
            for key, group in groups.items()
        ],
    )
    for key in _POOLED:
        if key in groups:
            bins = groups[key]["calibration"]["reliability"]
            yield LinePlot(
                title=f"Reliability, {key}",
                x_label="P(fast)",
                y_label="weak model suffices",
                lines=[
                    Line(name="perfect", x=[0.0, 1.0], y=[0.0, 1.0], dashed=True),
                    Line(
                        name="this router",
                        x=[each["predicted"] for each in bins],
                        y=[each["observed"] for each in bins],
                        low=[each["low"] for each in bins],
                        high=[each["high"] for each in bins],
                        emphasis=True,
                    ),
                ],
            )


def _decisions(groups: dict[str, Any], report: Mapping[str, Any]) -> Iterator[Block]:
    settings, artifact = report["settings"], report["artifact"]
    yield Heading(text="Decisions at the artifact's threshold", level=3)
    yield Paragraph(
        text=f"Mean cost a request: {settings['complex_to_fast']:g} for a prompt the weak model"
        f" fails on sent fast, {settings['simple_to_slow']:g} for one it masters sent slow."
    )
    header = ("rows", "sent fast", "of complex, sent fast", "of simple, sent slow", "cost")
    yield Table(
        header=(*header, "all fast", "all slow", "best threshold here"),
        rows=[
            (
                key,
                *(
                    figure_text(group["decisions"][name])
                    for name in ("sent_fast", "complex_sent_fast", "simple_sent_slow", "cost")
                ),
                number_text(group["decisions"]["cost_all_fast"]),
                number_text(group["decisions"]["cost_all_slow"]),
                _best(group["decisions"]),
            )
            for key, group in groups.items()
        ],
    )
    if "pooled/test" in groups:
        yield _sweep_plot(groups["pooled/test"]["sweep"], artifact)
    yield _confusion_plot(groups)


def _best(decisions: Mapping[str, Any]) -> str:
    cost, threshold = decisions["cost_best_threshold_here"], decisions["best_threshold_here"]
    return f"{number_text(cost)} at {number_text(threshold)}"


def _sweep_plot(sweep: list[dict[str, Any]], artifact: Mapping[str, Any]) -> LinePlot:
    thresholds = [row["threshold"] for row in sweep]
    lines = [
        Line(name="cost, test", x=thresholds, y=[row["cost"] for row in sweep], emphasis=True),
        Line(name="complex sent fast", x=thresholds, y=[row["complex_sent_fast"] for row in sweep]),
        Line(name="simple sent slow", x=thresholds, y=[row["simple_sent_slow"] for row in sweep]),
    ]
    search = artifact["threshold_search"]
    if search is not None:
        lines.append(
            Line(
                name="cost, dev (search)",
                x=[point[0] for point in search["curve"]],
                y=[point[1] for point in search["curve"]],
                dashed=True,
            )
        )
    return LinePlot(
        title="Threshold sweep, pooled/test",
        x_label="threshold of P(fast)",
        y_label="cost a request, share",
        lines=[line for line in lines if None not in line.y],
        marks=[("artifact", artifact["threshold"])],
    )


def _confusion_plot(groups: dict[str, Any]) -> BarPlot:
    cells = {
        "fast, suffices": ("weak_suffices", "fast"),
        "slow, suffices": ("weak_suffices", "slow"),
        "slow, fails": ("weak_fails", "slow"),
        "fast, fails": ("weak_fails", "fast"),
    }
    return BarPlot(
        title="Decisions by source: where a prompt goes, and whether the weak model suffices",
        groups=[f"{key} (n {group['n']})" for key, group in groups.items()],
        parts=[
            (
                name,
                [
                    group["decisions"]["confusion"][row][column] / group["n"]
                    for group in groups.values()
                ],
            )
            for name, (row, column) in cells.items()
        ],
    )


def _selective(groups: dict[str, Any]) -> Iterator[Block]:
    yield Heading(text="Coverage against accuracy", level=3)
    yield Paragraph(
        text="Accuracy of “P(fast) ≥ .5” on the most confident share of the rows; AURC is the mean"
        " error over all coverages."
    )
    shown = [key for key in groups if key in _POOLED or groups[key]["n"] >= 200]
    keys = [name for name in groups[shown[0]]["selective"] if name != "aurc"] if shown else []
    yield Table(
        header=("rows", "AURC", *(f"{float(key.rsplit('_', 1)[1]):.0%}" for key in keys)),
        rows=[
            (
                key,
                figure_text(groups[key]["selective"]["aurc"]),
                *(value_text(groups[key]["selective"][name]) for name in keys),
            )
            for key in shown
        ],
    )


def _strata(groups: dict[str, Any]) -> Iterator[Block]:
    yield Heading(text="Strata", level=3)
    yield Paragraph(
        text="Decisions by who is right, and by what going fast loses. Quality lost is a share of"
        " all rows, so strata add up."
    )
    for key in _POOLED:
        if key in groups:
            strata = groups[key]["strata"]
            rows = {**strata["by_difficulty"], **strata["by_cost_of_error"]}
            yield Table(
                header=(key, "n", "sent fast", "mean P(fast)", "quality lost"),
                rows=[
                    (
                        name.replace("_", " "),
                        str(row["n"]),
                        number_text(row["sent_fast"]),
                        number_text(row["mean_p_fast"]),
                        number_text(row["quality_lost"]),
                    )
                    for name, row in rows.items()
                ],
            )
