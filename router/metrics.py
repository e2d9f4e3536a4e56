"""Count what the service does, for Prometheus.

No label holds anything a caller chooses: tiers, reasons, outcomes and status codes are closed
sets, upstream names come from the configuration. The tenant is no label, because its number is
not bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from router.domain import DecideOutcome, Decision, PathStep, Timings

_NS_PER_S = 1e9
# From the exact cache (tens of microseconds) to a long generation (minutes).
_SECONDS = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
)  # fmt: skip
_IN_PROCESS = "in-process"


class Metrics:
    """The service's metrics in a registry of their own.

    Args:
        version: Of this service.
        encoder_revision: Of the loaded encoder.
        config_revision: Of the configuration.
    """

    def __init__(self, *, version: str, encoder_revision: str, config_revision: str) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"fastslow_{name}", text, labels, registry=self.registry)

        def histogram(
            name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS
        ) -> Histogram:
            return Histogram(
                f"fastslow_{name}", text, labels, buckets=buckets, registry=self.registry
            )

        self._requests = counter("requests", "Calls by gRPC status code.", "rpc", "code")
        self._request_seconds = histogram("request_seconds", "Whole calls.", "rpc")
        self._decisions = counter("decisions", "Decisions.", "tier", "reason")
        self._answers = counter("answers", "Answers by who gave them.", "answered_by")
        self._degraded = counter("degraded_answers", "Answers of another tier than planned.")
        self._steps = counter("path_steps", "Tiers and upstreams tried.", "upstream", "outcome")
        self._tokens = counter("tokens", "Tokens of answers generated.", "upstream", "direction")
        self._stages = histogram("stage_seconds", "Stages that ran.", "stage")
        self._cache = counter("cache_operations", "Cache operations.", "operation", "result")
        self._reports = counter("outcome_reports", "Reports on answers.", "answered_by", "verdict")
        tenths = tuple(i / 10 for i in range(1, 11))
        self._scores = histogram(
            "outcome_score", "Reported quality.", "answered_by", buckets=tenths
        )
        self._costs = counter("outcome_cost_usd", "Reported cost, US dollars.", "answered_by")
        self._in_flight = Gauge(
            "fastslow_in_flight", "Calls worked on now.", registry=self.registry
        )
        Gauge(
            "fastslow_build_info",
            "Always 1; the labels say what runs.",
            ("version", "encoder_revision", "config_revision"),
            registry=self.registry,
        ).labels(version, encoder_revision, config_revision).set(1)

    def follow_in_flight(self, count: Callable[[], float]) -> None:
        """Read the number of calls in flight from ``count`` at every scrape."""
        self._in_flight.set_function(count)

    def request(self, *, rpc: str, code: str, seconds: float) -> None:
        """Count one call with its gRPC status code and its duration."""
        self._requests.labels(rpc, code).inc()
        self._request_seconds.labels(rpc).observe(seconds)

    def decision(self, decision: Decision, timings: Timings) -> None:
        """Count one decision with the stages that ran for it."""
        self._decisions.labels(decision.tier.value, decision.reason.value).inc()
        for stage in fields(timings):
            elapsed_ns: int = getattr(timings, stage.name)
            if elapsed_ns:
                name = stage.name.removesuffix("_ns")
                self._stages.labels(name).observe(elapsed_ns / _NS_PER_S)

    def answer(self, outcome: DecideOutcome) -> None:
        """Count one answer with its decision and its tokens."""
        self.decision(outcome.decision, outcome.timings)
        self._answers.labels(outcome.answered_by.value).inc()
        if outcome.degraded:
            self._degraded.inc()
        if outcome.path and outcome.input_tokens + outcome.output_tokens:
            upstream = _upstream(outcome.path[-1])
            self._tokens.labels(upstream, "input").inc(outcome.input_tokens)
            self._tokens.labels(upstream, "output").inc(outcome.output_tokens)

    def step(self, step: PathStep) -> None:
        """Count one try at a tier or upstream, whatever becomes of the request."""
        self._steps.labels(_upstream(step), step.outcome.value).inc()

    def cache(self, operation: str, result: str) -> None:
        """Count one cache operation; both words come from closed sets."""
        self._cache.labels(operation, result).inc()

    def report(
        self,
        *,
        answered_by: str,
        accepted: bool | None,
        score: float | None,
        cost_usd: float | None,
    ) -> None:
        """Count what a caller reports on an answer."""
        verdict = {True: "accepted", False: "rejected", None: "none"}[accepted]
        self._reports.labels(answered_by, verdict).inc()
        if score is not None:
            self._scores.labels(answered_by).observe(score)
        if cost_usd is not None:
            self._costs.labels(answered_by).inc(cost_usd)


def _upstream(step: PathStep) -> str:
    return step.upstream or _IN_PROCESS
