"""The batcher never waits while idle, and never exceeds its budget."""

import asyncio
import math
import threading
from collections.abc import Sequence

import pytest

from router.batcher import TokenBudgetBatcher
from router.errors import DeadlinePassed


class GatedRun:
    """Doubles numbers, recording batches; the first batch waits for the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        if len(self.batches) == 1:
            assert self.gate.wait(5.0)
        return [2 * item for item in items]


def batcher(run: GatedRun, **limits: int) -> TokenBudgetBatcher[int, int]:
    settings = {"max_tokens": 100, "max_rows": 8, "workers": 1} | limits
    return TokenBudgetBatcher(run, name="test", **settings)


async def submit_all(
    subject: TokenBudgetBatcher[int, int], costs: list[int], run: GatedRun
) -> list[int]:
    """Submit item i with costs[i] while the worker is busy with the first; return results."""
    tasks = []
    for item, cost in enumerate(costs):
        tasks.append(
            asyncio.create_task(subject.submit(item, cost_tokens=cost, deadline_s=math.inf))
        )
        await asyncio.sleep(0)
    run.gate.set()
    return [result for result, _ in await asyncio.gather(*tasks)]


async def test_a_lone_item_runs_at_once_and_alone() -> None:
    run = GatedRun()
    run.gate.set()
    subject = batcher(run)
    result, queue_ns = await subject.submit(21, cost_tokens=5, deadline_s=math.inf)
    assert result == 42
    assert queue_ns >= 0
    assert run.batches == [[21]]
    subject.close()


async def test_items_that_arrive_while_busy_share_the_next_batch() -> None:
    run = GatedRun()
    subject = batcher(run)
    assert await submit_all(subject, [10] * 5, run) == [0, 2, 4, 6, 8]
    assert run.batches == [[0], [1, 2, 3, 4]]
    subject.close()


async def test_a_batch_stays_within_the_padded_token_budget() -> None:
    run = GatedRun()
    subject = batcher(run, max_tokens=50)
    await submit_all(subject, [10, 20, 20, 20, 20], run)
    assert run.batches == [[0], [1, 2], [3, 4]]
    subject.close()


async def test_an_item_over_the_budget_runs_alone_rather_than_never() -> None:
    run = GatedRun()
    subject = batcher(run, max_tokens=50)
    assert await submit_all(subject, [10, 500, 10], run) == [0, 2, 4]
    assert run.batches == [[0], [1], [2]]
    subject.close()


async def test_a_long_item_does_not_pad_short_ones() -> None:
    run = GatedRun()
    subject = batcher(run)
    await submit_all(subject, [10, 8, 40, 9], run)
    assert run.batches == [[0], [1, 3], [2]]
    subject.close()


async def test_a_cancelled_caller_takes_no_place_in_a_batch() -> None:
    run = GatedRun()
    subject = batcher(run)
    first = asyncio.create_task(subject.submit(0, cost_tokens=1, deadline_s=math.inf))
    await asyncio.sleep(0)
    second = asyncio.create_task(subject.submit(1, cost_tokens=1, deadline_s=math.inf))
    third = asyncio.create_task(subject.submit(2, cost_tokens=1, deadline_s=math.inf))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    run.gate.set()
    assert (await first)[0] == 0
    assert (await third)[0] == 4
    assert run.batches == [[0], [2]]
    subject.close()


async def test_an_item_whose_deadline_passed_in_the_queue_is_not_run() -> None:
    run = GatedRun()
    subject = batcher(run)
    first = asyncio.create_task(subject.submit(0, cost_tokens=1, deadline_s=math.inf))
    await asyncio.sleep(0)
    late = asyncio.create_task(subject.submit(1, cost_tokens=1, deadline_s=0.0))
    await asyncio.sleep(0)
    run.gate.set()
    await first
    with pytest.raises(DeadlinePassed, match="queue"):
        await late
    assert run.batches == [[0]]
    subject.close()


async def test_a_failure_reaches_every_caller_of_its_batch_and_no_other() -> None:
    def run(items: Sequence[int]) -> list[int]:
        if 1 in items:
            raise ArithmeticError("one")
        return list(items)

    subject: TokenBudgetBatcher[int, int] = TokenBudgetBatcher(
        run, max_tokens=10, max_rows=1, workers=1, name="test"
    )
    results = await asyncio.gather(
        *(subject.submit(i, cost_tokens=1, deadline_s=math.inf) for i in range(3)),
        return_exceptions=True,
    )
    assert isinstance(results[1], ArithmeticError)
    assert [r[0] for r in (results[0], results[2])] == [0, 2]
    subject.close()
