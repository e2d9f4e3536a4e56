"""Merge several people's labels of the same texts into training rows.

The majority names the route; how many agreed becomes the row's weight, so that a text people
quarrel over teaches less than one they are sure of (survey: Uma et al., "Learning from
Disagreement", JAIR 72, 2021, section 4). Models of annotator skill (Dawid & Skene, 1979) need
many labels a person and a text; the two or three that people have are not enough to fit one.

A tie has no majority. Doubt goes to the slow tier everywhere in this project, so a tie that
includes the slow route becomes that route with the weight its votes give it. Between other
routes neither is the safe one, and the text is left out and named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from router.training.agreement import interval_alpha, nominal_alpha
from router.training.row_problems import Place, Placed, Problems
from router.training.user_rows import MAX_WEIGHT, UserRow, check_contradictions, placed_rows

TIE_ROUTE = "slow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotator:
    """One person's part in a merge.

    Attributes:
        file: Their labels.
        texts: Distinct texts they labelled.
        shared: Those of them that somebody else labelled too and that have a merged route.
        agreed: Those of the shared ones where the merged route is theirs.
    """

    file: Path
    texts: int
    shared: int
    agreed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Merged rows with how far the annotators agree.

    Attributes:
        rows: One a text, in the order of first appearance.
        annotators: In the order of the files.
        texts: Distinct texts.
        labelled_twice: Texts with two annotators or more.
        unanimous: Those of them where all chose one route.
        ties_to_tie_route: Ties that became the tie route.
        left_out: Where the first row of every other tie stands.
        route_alpha: Krippendorff's alpha of the routes, None where undefined.
        temperature_alpha: The same of the temperatures, as numbers.
    """

    rows: tuple[UserRow, ...]
    annotators: tuple[Annotator, ...]
    texts: int
    labelled_twice: int
    unanimous: int
    ties_to_tie_route: int
    left_out: tuple[Place, ...]
    route_alpha: float | None
    temperature_alpha: float | None


def merge_files(
    files: Sequence[Path],
    *,
    routes: Sequence[str] | None = None,
    tie_route: str = TIE_ROUTE,
) -> Merge:
    """Merge files, each the labels of one person.

    Args:
        files: JSON arrays or JSONL of user rows.
        routes: Allowed routes; None allows any name.
        tie_route: The route of a tie that includes it.

    Raises:
        RowsError: With every mistake of every file; a person who gives one text two routes is
            one, and so is a file named twice, whose votes would count double.
    """
    problems = Problems()
    seen: set[Path] = set()
    by_annotator: list[list[Placed[UserRow]]] = []
    for file in files:
        if file.resolve() in seen:
            problems.add(Place(file=file), "is named twice; one person would count as two")
            continue
        seen.add(file.resolve())
        placed = placed_rows(file, problems, routes=routes)
        check_contradictions(placed, problems)
        by_annotator.append(_one_vote_a_text(placed))
    problems.raise_if_any()
    return _merge(by_annotator, tie_route)


def _one_vote_a_text(placed: Iterable[Placed[UserRow]]) -> list[Placed[UserRow]]:
    """Join rows in which one person says the same twice."""
    votes: dict[tuple[str, str | None], list[Placed[UserRow]]] = {}
    for each in placed:
        votes.setdefault(each.row.identity, []).append(each)
    return [
        Placed(place=same[0].place, row=_joined([each.row for each in same]))
        for same in votes.values()
    ]


def _merge(by_annotator: Sequence[Sequence[Placed[UserRow]]], tie_route: str) -> Merge:
    votes: dict[tuple[str, str | None], list[Placed[UserRow]]] = {}
    for labels in by_annotator:
        for each in labels:
            votes.setdefault(each.row.identity, []).append(each)
    merged: dict[tuple[str, str | None], UserRow] = {}
    left_out: list[Place] = []
    ties_to_tie_route = 0
    for identity, cast in votes.items():
        rows = [each.row for each in cast]
        leading = _leading(rows)
        tied = len(leading) > 1
        if tied and tie_route not in leading:
            left_out.append(cast[0].place)
            continue
        ties_to_tie_route += tied
        merged[identity] = _merged(rows, tie_route if tied else leading[0])
    shared = [[each.row for each in cast] for cast in votes.values() if len(cast) > 1]
    return Merge(
        rows=tuple(merged.values()),
        annotators=tuple(_annotator(labels, votes, merged) for labels in by_annotator),
        texts=len(votes),
        labelled_twice=len(shared),
        unanimous=sum(len({row.route for row in rows}) == 1 for rows in shared),
        ties_to_tie_route=ties_to_tie_route,
        left_out=tuple(left_out),
        route_alpha=nominal_alpha([[row.route for row in rows] for rows in shared]),
        temperature_alpha=interval_alpha(
            [[row.temperature for row in rows if row.temperature is not None] for rows in shared]
        ),
    )


def _leading(rows: Sequence[UserRow]) -> list[str]:
    """Return the routes with the greatest weight of votes."""
    weights: Counter[str] = Counter()
    for row in rows:
        weights[row.route] += row.weight  # type: ignore[assignment]  # typed for counts
    most = max(weights.values())
    # Sums of the same weights in another order differ in the last digit.
    return [route for route, weight in weights.items() if weight >= most * (1.0 - 1e-9)]


def _merged(rows: Sequence[UserRow], route: str) -> UserRow:
    """Return the row of one text: mean numbers, the winner's share of the votes as weight.

    The share is of all who labelled the text, each vote counting its own weight; with the
    default weight of 1, two of three votes give 2/3 and a single vote gives 1.
    """
    won = sum(row.weight for row in rows if row.route == route)
    return replace(_joined(rows), route=route, weight=min(won / len(rows), MAX_WEIGHT))


def _joined(rows: Sequence[UserRow]) -> UserRow:
    """Return the first row with the means of all numbers that anyone gave."""
    return replace(
        rows[0],
        weight=_mean(row.weight for row in rows),
        temperature=_mean(row.temperature for row in rows),
        weak_score=_mean(row.weak_score for row in rows),
        strong_score=_mean(row.strong_score for row in rows),
    )


def _mean(values: Iterable[float | None]) -> Any:
    """Return the mean of those given, None where there are none."""
    given = [value for value in values if value is not None]
    # Rounding may take the mean of equal values out of the range that all of them keep.
    return min(max(fmean(given), min(given)), max(given)) if given else None


def _annotator(
    labels: Sequence[Placed[UserRow]],
    votes: dict[tuple[str, str | None], list[Placed[UserRow]]],
    merged: dict[tuple[str, str | None], UserRow],
) -> Annotator:
    shared = [
        each.row
        for each in labels
        if len(votes[each.row.identity]) > 1 and each.row.identity in merged
    ]
    return Annotator(
        file=labels[0].place.file,
        texts=len(labels),
        shared=len(shared),
        agreed=sum(merged[row.identity].route == row.route for row in shared),
    )
