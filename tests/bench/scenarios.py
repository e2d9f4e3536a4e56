"""Prepare what is sent: prompts for Route, and prompts for Decide that the cache answers."""

from __future__ import annotations

import base64
import itertools
import random
import statistics
from typing import Any

import grpc
from k6_load import Scenario

from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc

_FORMS = (
    "What is {}?",
    "Explain {}{}.",
    "How does {} work{}?",
    "Give an example of {}{}.",
    "Write two sentences about {}{}.",
    "Why does {} matter{}?",
    "Summarise the history of {}{}.",
    "What are the limits of {}{}?",
)
_TOPICS = [
    "photosynthesis",
    "plate tectonics",
    "binary search",
    "compound interest",
    "the French Revolution",
    "a diesel engine",
    "the water cycle",
    "public key cryptography",
    "natural selection",
    "the tides",
    "a suspension bridge",
    "inflation",
    "the immune system",
    "a solar eclipse",
    "matrix multiplication",
    "the Silk Road",
    "a heat pump",
    "sentence stress",
    "game theory",
    "the printing press",
    "a vaccine",
    "the Doppler effect",
    "double-entry bookkeeping",
    "a hash table",
    "the Magna Carta",
    "glaciers",
    "radioactive decay",
    "a black hole",
    "supply and demand",
    "the sonnet",
    "a semiconductor",
    "fermentation",
    "the scientific method",
    "a fuel cell",
    "irrigation",
    "the pendulum",
    "map projections",
    "coral reefs",
    "the lever",
    "a neural network",
]
_AUDIENCES = [
    "",
    "to a child",
    "to a farmer",
    "to a lawyer",
    "to an engineer",
    "to a sailor",
    "to a poet",
    "to a nurse",
    "for beginners",
    "for experts",
    "in plain words",
    "with one figure",
    "without jargon",
    "step by step",
    "as a story",
    "for a museum",
]
_CACHED_PROMPTS = 64
_TIMEOUT_S = 30.0


def prompts() -> list[str]:
    """Return 4 520 different short prompts, shuffled, in the same order every time."""
    made = dict.fromkeys(
        form.format(topic, f" {audience}" if audience else "")
        for audience, topic, form in itertools.product(_AUDIENCES, _TOPICS, _FORMS)
    )
    shuffled = list(made)
    random.Random(0).shuffle(shuffled)
    return shuffled


def route_scenario() -> Scenario:
    """Return Route with prompts that all differ, so that every call runs the encoder."""
    return Scenario(
        name="route",
        method="router.v1.RouterService/Route",
        requests=[{"prompt": prompt} for prompt in prompts()],
        expect=(("decision", "decisionId"), None),
    )


async def exact_hit_scenario(stub: pb_grpc.RouterServiceAsyncStub) -> tuple[Scenario, int]:
    """Return Decide with prompts whose answers this has put into the exact cache.

    The number is the median length of the prompts, tokens as the encoder counts them.

    Raises:
        RuntimeError: If the service stored none of the answers.
    """
    hits = []
    input_tokens = []
    for prompt in prompts()[:_CACHED_PROMPTS]:
        request = pb.DecideRequest(prompt=prompt)
        first = await stub.Decide(request, timeout=_TIMEOUT_S)
        input_tokens.append(first.decision.input_tokens)
        again = await stub.Decide(request, timeout=_TIMEOUT_S)
        # An answer that the cache's rules keep out, or that a similar prompt's answer stood in
        # for, is no exact hit; the others are enough.
        if again.answered_by == pb.ANSWERED_BY_EXACT_CACHE:
            hits.append({"prompt": prompt})
    if not hits:
        msg = f"none of {_CACHED_PROMPTS} answers came from the exact cache at the second call"
        raise RuntimeError(msg)
    scenario = Scenario(
        name="decide_exact_hit",
        method="router.v1.RouterService/Decide",
        requests=hits,
        expect=(("answeredBy",), "ANSWERED_BY_EXACT_CACHE"),
    )
    return scenario, statistics.median_low(input_tokens)


async def prepare(address: str) -> tuple[list[Scenario], dict[str, str], dict[str, Any]]:
    """Return the scenarios, real responses to them in base64, and facts about the inputs.

    Args:
        address: ``host:port`` of the real service.
    """
    async with grpc.aio.insecure_channel(address) as channel:
        stub: pb_grpc.RouterServiceAsyncStub = pb_grpc.RouterServiceStub(channel)
        cached, input_tokens = await exact_hit_scenario(stub)
        first = cached.requests[0]["prompt"]
        route = await stub.Route(pb.RouteRequest(prompt=first), timeout=_TIMEOUT_S)
        decide = await stub.Decide(pb.DecideRequest(prompt=first), timeout=_TIMEOUT_S)
    responses = {
        name: base64.b64encode(message.SerializeToString()).decode()
        for name, message in (("route", route), ("decide", decide))
    }
    facts = {
        "median_input_tokens": input_tokens,
        "cached_prompts": len(cached.requests),
        "response_bytes": {"route": route.ByteSize(), "decide": decide.ByteSize()},
        "encoder_revision": route.decision.encoder_revision,
        "config_revision": route.decision.config_revision,
    }
    return [route_scenario(), cached], responses, facts
