"""Turn what the encoder said about a request into a decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from router.calibration import RouteCalibration, route_probabilities
from router.clock import Clock
from router.domain import Decision, Encoding, Request, Tier
from router.errors import RequestUnsatisfiable
from router.policy import Policy, PolicyScore, Signals

_TOKENS_PER_PRICE = 1_000_000
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrice:
    """What an upstream charges, US dollars a million tokens, each >= 0."""

    input_usd_per_million_tokens: float
    output_usd_per_million_tokens: float

    def cost_usd(self, *, input_tokens: int, output_tokens: int) -> float:
        """Return the price of one call, US dollars."""
        return (
            input_tokens * self.input_usd_per_million_tokens
            + output_tokens * self.output_usd_per_million_tokens
        ) / _TOKENS_PER_PRICE


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRules:
    """Everything a decision depends on beside the request.

    Attributes:
        calibration: Fitted for the encoder's route head.
        tiers: Tier of every route in ``calibration``; at least one is no tool.
        policy: Turns probabilities into a tier.
        threshold: Probability in [0, 1] that a route has to reach.
        score: Which number decides for fast routes.
        typed_to_fast: A loaded decision model gets every typed question.
        slow_floor_s: Less time than this is not worth a slow call, seconds; 0 = never.
        slow_price: Price of the preferred slow upstream; ``None`` = not configured.
        encoder_revision: Name and checksum of the encoder.
        config_revision: Checksum of the configuration.
    """

    calibration: RouteCalibration
    tiers: Mapping[str, Tier]
    policy: Policy
    threshold: float
    score: PolicyScore = PolicyScore.P_FAST
    typed_to_fast: bool = False
    slow_floor_s: float = 0.0
    slow_price: TokenPrice | None = None
    encoder_revision: str
    config_revision: str

    def __post_init__(self) -> None:
        missing = [name for name in self.calibration.routes if name not in self.tiers]
        if missing:
            msg = f"tiers: no tier for route(s) {missing}"
            raise ValueError(msg)
        if all(self.tiers[name] is Tier.TOOL for name in self.calibration.routes):
            msg = "tiers: every route is a tool, so nothing is left for requests without tools"
            raise ValueError(msg)
        if not 0.0 <= self.threshold <= 1.0:
            msg = f"threshold: must be in [0, 1], got {self.threshold}"
            raise ValueError(msg)


class Decider:
    """Applies calibration, then policy.

    Args:
        rules: What decisions depend on.
        clock: For the time left and the time of the decision.
        new_id: Returns a fresh decision id, 32 hexadecimal digits.
    """

    def __init__(self, rules: DecisionRules, *, clock: Clock, new_id: Callable[[], str]) -> None:
        self._rules = rules
        self._clock = clock
        self._new_id = new_id
        self._tool_routes = frozenset(
            name for name in rules.calibration.routes if rules.tiers[name] is Tier.TOOL
        )

    def check_budget(self, request: Request) -> None:
        """Refuse a cost limit that nothing can be held against.

        Raises:
            RequestUnsatisfiable: If ``budget.max_cost_usd`` is given without configured
                prices.
        """
        if request.budget.max_cost_usd is not None and self._rules.slow_price is None:
            msg = (
                "no prices are configured to hold this limit; set "
                "slow_tier.upstreams[0].input_usd_per_million_tokens and "
                "output_usd_per_million_tokens"
            )
            raise RequestUnsatisfiable(msg, field="budget.max_cost_usd")

    def slow_over_budget(self, request: Request, decision: Decision) -> bool:
        """Return whether a slow answer would cost more than the caller allows."""
        cost_usd = self._slow_cost_usd(request, output_tokens=decision.expected_output_tokens)
        limit_usd = request.budget.max_cost_usd
        return cost_usd is not None and limit_usd is not None and cost_usd > limit_usd

    def decide(self, request: Request, encoding: Encoding, *, mask_tools: bool) -> Decision:
        """Return where ``request`` goes.

        Args:
            request: What is asked.
            encoding: What the encoder said about it.
            mask_tools: Leave tool routes out and renormalise the rest.
        """
        rules = self._rules
        probabilities = route_probabilities(
            encoding.route_logits,
            rules.calibration,
            masked=self._tool_routes if mask_tools else (),
        )
        verdict = rules.policy.decide(
            Signals(
                probabilities=probabilities,
                tiers=rules.tiers,
                threshold=rules.threshold,
                score=rules.score,
                strong_gain=encoding.strong_gain,
                typed=bool(request.questions),
                typed_to_fast=rules.typed_to_fast,
                truncated=encoding.truncated,
                language_known=encoding.language_known,
                in_distribution=encoding.in_distribution,
                remaining_s=request.deadline_s - self._clock.monotonic_s(),
                slow_floor_s=rules.slow_floor_s,
                max_cost_usd=request.budget.max_cost_usd,
                slow_cost_usd=self._slow_cost_usd(
                    request, output_tokens=encoding.output_tokens_p50
                ),
                min_quality=request.budget.min_quality,
            )
        )
        predicted = encoding.temperature
        return Decision(
            decision_id=self._new_id(),
            tier=verdict.tier,
            reason=verdict.reason,
            route=verdict.route,
            probabilities=probabilities,
            threshold=verdict.threshold,
            strong_gain=encoding.strong_gain,
            sampling_temperature=predicted if request.temperature is None else request.temperature,
            expected_output_tokens=encoding.output_tokens_p50,
            expected_output_tokens_p95=encoding.output_tokens_p95,
            features=encoding.features,
            input_tokens=encoding.input_tokens,
            encoder_revision=rules.encoder_revision,
            config_revision=rules.config_revision,
            decided_at_s=self._clock.time_s(),
        )

    def _slow_cost_usd(self, request: Request, *, output_tokens: int) -> float | None:
        price = self._rules.slow_price
        if request.budget.max_cost_usd is None or price is None:
            return None
        return price.cost_usd(input_tokens=prompt_tokens(request), output_tokens=output_tokens)


def prompt_tokens(request: Request) -> int:
    """Return about how many tokens an upstream reads of ``request``, all turns and tools.

    Upstreams have tokenizers of their own, so this is an estimate: four bytes of UTF-8 a
    token, about right for English and on the high side for scripts of three bytes a
    character.
    """
    texts = [message.content for message in request.messages]
    if request.state is not None:
        texts.append(request.state.text)
    texts += [question.instructions for question in request.questions.values()]
    texts += [part for q in request.questions.values() for option in q.options for part in option]
    for tool in request.tools or ():
        texts += [tool.name, tool.description, json.dumps(tool.parameters)]
    return sum(len(text.encode()) for text in texts) // _BYTES_PER_TOKEN + 1
