"""Hold a user's rows in the shapes that training and measuring want."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from router.errors import ConfigError
from router.training.example import Example

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from router.training.user_rows import UserRow


class RowsTooFew(ConfigError):  # noqa: N818 - named for what it says to the user
    """A route has no row where one is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRows:
    """Labelled rows.

    Attributes:
        routes: Names in the order of the logits.
        examples: One a row.
        wanted: Index of each row's route, int64.
        weights: How much each row counts, float64.
        splits: Split of each row.
    """

    routes: tuple[str, ...]
    examples: list[Example]
    wanted: NDArray[np.int64]
    weights: NDArray[np.float64]
    splits: NDArray[np.str_]

    @classmethod
    def of(cls, rows: Sequence[UserRow], routes: tuple[str, ...]) -> RouteRows:
        """Return the rows; every route among them is one of ``routes``.

        Raises:
            RowsTooFew: If a route has no row in train or in dev, naming both.
        """
        index = {name: i for i, name in enumerate(routes)}
        found = cls(
            routes=routes,
            examples=[_example(row) for row in rows],
            wanted=np.asarray([index[row.route] for row in rows], dtype=np.int64),
            weights=np.asarray([row.weight for row in rows], dtype=np.float64),
            splits=np.asarray([row.split for row in rows]),
        )
        for split in ("train", "dev"):
            seen = set(found.wanted[found.at(split)].tolist())
            if lacking := [name for i, name in enumerate(routes) if i not in seen]:
                msg = f"route {', '.join(lacking)}: no row among the {len(found.at(split))} of "
                msg += f"split {split}; the hash of its text puts a row into train (70 %), dev "
                msg += "(10 %) or test (20 %), so add rows of that route"
                raise RowsTooFew(msg)
        return found

    def at(self, *splits: str) -> NDArray[np.int64]:
        """Return the positions of the rows of the splits, ascending."""
        return np.flatnonzero(np.isin(self.splits, splits))


def _example(row: UserRow) -> Example:
    gain = math.nan
    if row.weak_score is not None and row.strong_score is not None:
        gain = row.strong_score - row.weak_score
    return Example(
        text=row.text,
        source="rows",
        split=row.split,
        tools=row.tool_text,
        routes=frozenset({row.route}),
        gain=gain,
        temperature=math.nan if row.temperature is None else row.temperature,
        weight=row.weight,
    )
