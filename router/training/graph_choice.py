"""Choose the graph to ship: the first quantised one that keeps what float32 can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from router.errors import RouterError
from router.training.calibrate import fit_route_calibration
from router.training.export import INT8_GRAPH
from router.training.feeds import TokenisedRows, run_graph
from router.training.quantise import quantise_dynamic, quantise_static
from router.training.route_figures import figures, probabilities, worst_auc_loss

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from router.training.route_rows import RouteRows

CALIBRATION_BATCHES = 16

Quantisation = Literal["auto", "dynamic", "static", "none"]


class QuantisationRefused(RouterError):  # noqa: N818 - named for what it says to the user
    """Every quantised graph is worse than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A graph with what it says of the held-out rows.

    Attributes:
        method: How it was quantised; ``none`` = float32.
        graph: Its file.
        outputs: Its outputs for all dev and test rows.
        calibration: Temperature and biases fitted on its logits for dev.
        p: Calibrated probabilities of all dev and test rows, shape ``(rows, routes)``.
    """

    method: str
    graph: Path
    outputs: dict[str, NDArray[np.float32]]
    calibration: tuple[float, tuple[float, ...]]
    p: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChoice:
    """Measures graphs on the same rows.

    Attributes:
        rows: Labelled rows.
        served: The same rows as a service reads them.
        threads: Of a forward pass.
    """

    rows: RouteRows
    served: TokenisedRows
    threads: int

    @property
    def held(self) -> NDArray[np.int64]:
        """Positions of the dev and test rows."""
        return self.rows.at("dev", "test")

    def measure(self, graph: Path, *, method: str = "none") -> Measured:
        """Return what a graph says of the held-out rows."""
        outputs = run_graph(graph, self.served.take(self.held), threads=self.threads)
        logits, dev = outputs["route_logits"], self.rows.at("dev")
        calibration = fit_route_calibration(
            logits[self.rows.splits[self.held] == "dev"],
            self.rows.wanted[dev],
            self.rows.weights[dev],
        )
        return Measured(
            method=method,
            graph=graph,
            outputs=outputs,
            calibration=calibration,
            p=probabilities(logits, calibration),
        )

    def choose(
        self, full: Measured, quantisation: Quantisation, *, max_auc_loss: float
    ) -> tuple[Measured, dict[str, float]]:
        """Return the graph to ship, and what every quantisation tried loses of a route's AUC.

        Args:
            full: The float32 graph.
            quantisation: ``auto`` tries dynamic, then static; ``none`` keeps ``full``.
            max_auc_loss: Most that any route's AUC on the held-out rows may fall.

        Raises:
            QuantisationRefused: If no quantisation stays within, with the figures.
        """
        if quantisation == "none":
            return full, {}
        lost: dict[str, float] = {}
        worst = ""
        for method in ("dynamic", "static") if quantisation == "auto" else (quantisation,):
            small = full.graph.with_name(f"{method}.{INT8_GRAPH}")
            if method == "dynamic":
                quantise_dynamic(full.graph, small)
            else:
                train = self.served.take(self.rows.at("train"))
                batches = train.batches()[:CALIBRATION_BATCHES]
                quantise_static(full.graph, small, [train.feed(batch) for batch in batches])
            measured = self.measure(small, method=method)
            loss, route = worst_auc_loss(full.p, measured.p, self.rows.wanted[self.held])
            lost[method] = loss
            if loss <= max_auc_loss:
                return measured, lost
            worst += f"; {method} loses {100 * loss:.2f} points of route {self.rows.routes[route]}"
        msg = f"quantised graphs may lose {100 * max_auc_loss:g} points of AUC{worst}; nothing was "
        msg += "written; --quantisation none ships float32, --max-auc-loss allows more"
        raise QuantisationRefused(msg)

    def figures(self, measured: Measured) -> dict[str, Any]:
        """Return AUC and accuracy by split and route."""
        of = self.rows.splits[self.held]
        wanted = self.rows.wanted[self.held]
        return {
            split: figures(measured.p[of == split], wanted[of == split], self.rows.routes)
            for split in ("dev", "test")
        }
