"""Show real decisions of a running service over a small local model.

    make demo

Starts ``model_server.py`` (SmolLM2-135M behind an OpenAI-compatible endpoint), then
``python -m router serve`` with both tiers pointing at it, then asks over gRPC. Ends with exit
code 0 when every kind of decision was seen and every call was decided as its row says, else 1.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from router.v1 import router_pb2 as pb
from router.v1 import router_pb2_grpc as pb_grpc

MODEL = "SmolLM2-135M-Instruct.Q4_1"
SYSTEM_PROMPT = "You are a {word} assistant. Answer in English, briefly."
START_S = 60.0
STOP_S = 10.0
CALL_S = 30.0
MAX_OUTPUT_TOKENS = 48
BAR_COLUMNS = 20
SHOWN_CHARACTERS = 90


# Who has to have answered a text, and why, before the demo counts as passed.
KINDS = {
    ("EXACT_CACHE", "EXACT_HIT"),
    ("SEMANTIC_CACHE", "SEMANTIC_HIT"),
    ("FAST_TIER", "CONFIDENT"),
    ("SLOW_TIER", "CONFIDENT"),
    ("SLOW_TIER", "BELOW_THRESHOLD"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One call.

    Attributes:
        title: What it shows.
        prompt: What is asked.
        answered_by: Who has to answer, e.g. ``FAST_TIER``; empty where it is left open.
        reason: Why, e.g. ``CONFIDENT``; empty where it is left open.
        stream: Call ``DecideStream``.
        options: Options of the typed question about ``prompt``; empty asks for text.
    """

    title: str
    prompt: str
    answered_by: str = ""
    reason: str = ""
    stream: bool = False
    options: tuple[str, ...] = ()


# The second and third row ask what the first one answered, so their order matters. The first
# question is one the model finishes within MAX_OUTPUT_TOKENS: a cut answer is never cached.
ROWS = (
    Row(
        title="a simple question",
        prompt="Which organ pumps blood through the body?",
        answered_by="FAST_TIER",
        reason="CONFIDENT",
    ),
    Row(
        title="the same again",
        prompt="Which organ pumps blood through the body?",
        answered_by="EXACT_CACHE",
        reason="EXACT_HIT",
    ),
    Row(
        title="the same in other words",
        prompt="Which organ pumps blood around the body?",
        answered_by="SEMANTIC_CACHE",
        reason="SEMANTIC_HIT",
    ),
    Row(
        title="a complex task",
        prompt=(
            "Design a distributed rate limiter for a multi-region API gateway and discuss its "
            "failure modes."
        ),
        answered_by="SLOW_TIER",
        reason="CONFIDENT",
    ),
    Row(
        title="a doubtful one",
        prompt=(
            "There are 5 houses in a row, each of another colour. Five people with different "
            "pets and drinks live in them. Given the clues below, who owns the fish?"
        ),
        answered_by="SLOW_TIER",
        reason="BELOW_THRESHOLD",
    ),
    Row(
        title="a typed question about a state",
        prompt="The parcel arrived two weeks late and the box was crushed.",
        options=("praise", "complaint", "question"),
    ),
    Row(
        title="an answer as a stream",
        prompt="Name three kinds of fruit.",
        stream=True,
    ),
)


def main() -> int:
    """Run the demo; return its exit code."""
    print(
        "fastslow demo\n"
        "One stand-in language model of 135 million parameters (SmolLM2-135M, on this machine)\n"
        "plays both tiers. Its answers are poor; every decision, cache hit and time is real.\n"
    )
    # Both end the blocks below, which end the two servers.
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda number, _: sys.exit(128 + number))
    started_s = time.monotonic()
    seen: set[tuple[str, str]] = set()
    missed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fastslow-demo-") as name, running(Path(name)) as port:
        print(f"Model and service are ready after {time.monotonic() - started_s:.1f} s.")
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = pb_grpc.RouterServiceStub(channel)
            for number, row in enumerate(ROWS, start=1):
                print(f"\n{number}. {row.title}\n   > {row.prompt}")
                try:
                    response = asked(stub, row)
                except grpc.RpcError as error:
                    missed.append(f"{row.title}: {error.code().name}: {error.details()}")
                    continue
                show(response)
                missed += differences(row, response)
                # A typed question goes to the slow tier whatever the decision, and so does
                # what a broken fast tier leaves behind.
                if not row.options and not response.degraded:
                    seen.add(words(response))
    print(f"\n{len(ROWS)} calls; {time.monotonic() - started_s:.1f} s in all.")
    missed += [f"no {who} because {why}" for who, why in sorted(KINDS - seen)]
    for line in missed:
        print(f"not as expected: {line}", file=sys.stderr)
    return 1 if missed else 0


def asked(stub: pb_grpc.RouterServiceStub, row: Row) -> pb.DecideResponse:
    """Return the answer to one row's call."""
    request = pb.DecideRequest(max_output_tokens=MAX_OUTPUT_TOKENS)
    if row.options:
        request.state.text = row.prompt
        question = request.questions["kind"]
        question.instructions = "What kind of message is this?"
        question.choice.options.extend(pb.Option(label=label) for label in row.options)
    else:
        request.prompt = row.prompt
    if not row.stream:
        return stub.Decide(request, timeout=CALL_S)
    pieces: list[str] = []
    outcome = pb.DecideResponse()
    started_s = time.monotonic()
    for part in stub.DecideStream(pb.DecideStreamRequest(request=request), timeout=CALL_S):
        if part.HasField("text"):
            pieces.append(part.text)
            if len(pieces) == 1:
                print(f"   first text after {(time.monotonic() - started_s) * 1e3:.0f} ms")
        elif part.HasField("outcome"):
            outcome = part.outcome
    print(f"   {len(pieces)} pieces of text")
    outcome.text = "".join(pieces)
    return outcome


def show(response: pb.DecideResponse) -> None:
    """Print who answered, why, how it was decided, how long it took, the first words."""
    decision = response.decision
    answered_by, reason = words(response)
    bars = [
        f"{name} {value:.2f} {'#' * round(value * BAR_COLUMNS):.<{BAR_COLUMNS}}"
        for name, value in sorted(decision.probabilities.items())
    ]
    path = [
        f"{step.upstream or pb.Tier.Name(step.tier).removeprefix('TIER_')} "
        f"{pb.StepOutcome.Name(step.outcome).removeprefix('STEP_OUTCOME_')}"
        for step in response.path
    ]
    times = [
        f"{field.name.removesuffix('_ns')} {value / 1e6:.2f}"
        for field, value in response.timings.ListFields()
    ]
    answers = [
        f"{name}: {answer.choice}"
        + (
            f" with probability {answer.answer_confidence:.2f}"
            if answer.HasField("answer_confidence")
            else " (the model's probabilities do not add up to any)"
        )
        for name, answer in response.answers.items()
    ]
    text = " ".join((response.text or ", ".join(answers)).split())
    shown = {
        "answered by": f"{answered_by}, because {reason}",
        "probability": f"{'  '.join(bars)}  threshold {decision.threshold:.2f}",
        "predicted": (
            f"temperature {decision.sampling_temperature:.2f}, "
            f"{decision.expected_output_tokens} tokens "
            f"(95 %: {decision.expected_output_tokens_p95})"
        ),
        "path": ", ".join(path),
        "similarity": f"{response.cache_match.similarity:.3f}" * response.HasField("cache_match"),
        "time in ms": ", ".join(times),
        "answer": text[:SHOWN_CHARACTERS] + "..." * (len(text) > SHOWN_CHARACTERS),
        "review": response.manual_review_cause,
    }
    for name, value in shown.items():
        if value:
            print(f"   {name:<12} {value}")


def differences(row: Row, response: pb.DecideResponse) -> list[str]:
    """Return what came out otherwise than the row says."""
    pairs = zip((row.answered_by, row.reason), words(response), strict=True)
    return [
        f"{row.title}: {has} instead of {wants}" for wants, has in pairs if wants and wants != has
    ]


def words(response: pb.DecideResponse) -> tuple[str, str]:
    """Return who answered and why, as bare words."""
    return (
        pb.AnsweredBy.Name(response.answered_by).removeprefix("ANSWERED_BY_"),
        pb.Reason.Name(response.decision.reason).removeprefix("REASON_"),
    )


@contextmanager
def running(folder: Path) -> Iterator[int]:
    """Yield the port of a service that answers with the local model; both end with the block."""
    port_file, ports_file = folder / "model.port", folder / "ports.json"
    server = Path(__file__).with_name("model_server.py")
    with process([str(server), "--port-file", str(port_file)], folder / "model.log") as model:
        model_port = int(awaited(port_file, model, folder / "model.log"))
        config = folder / "fastslow.yaml"
        # JSON is YAML.
        config.write_text(json.dumps(configuration(model_port)), encoding="utf-8")
        serve = ["-m", "router", "serve", "--config", str(config), "--ports-file", str(ports_file)]
        with process(serve, folder / "service.log") as service:
            yield json.loads(awaited(ports_file, service, folder / "service.log"))["port"]


def configuration(model_port: int) -> dict[str, object]:
    """Return a configuration whose two tiers are one model under two system prompts."""
    model = {"url": f"http://127.0.0.1:{model_port}/v1", "model": MODEL}
    fast = {**model, "system_prompt": SYSTEM_PROMPT.format(word="quick")}
    slow = {**model, "system_prompt": SYSTEM_PROMPT.format(word="careful"), "name": "slow"}
    return {
        "server": {"port": 0, "metrics_port": 0, "drain_s": 1.0},
        "fast_tier": {"text": fast},
        "slow_tier": {"upstreams": [slow]},
    }


@contextmanager
def process(arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python with ``arguments``, its output in ``log``, until the block ends."""
    # Settings of the user's own service must not reach the demo's.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FASTSLOW_")}
    with log.open("wb") as output:
        child = subprocess.Popen(  # noqa: S603 - this very Python with arguments from this file
            [sys.executable, *arguments], stdout=output, stderr=output, env=environment
        )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def awaited(file: Path, child: subprocess.Popen[bytes], log: Path) -> str:
    """Return what ``child`` writes into ``file`` once it is ready; end the demo if it never is."""
    ends_s = time.monotonic() + START_S
    while not file.exists():
        if child.poll() is not None or time.monotonic() > ends_s:
            print(log.read_text(encoding="utf-8", errors="replace")[-2000:], file=sys.stderr)
            sys.exit(f"{log.stem} did not start (exit code {child.returncode})")
        time.sleep(0.05)
    return file.read_text(encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())
