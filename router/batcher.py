"""Run queued items in batches under a token budget.

Nothing waits while a worker is idle: the first item of a quiet moment runs alone, at once,
and whatever arrives while all workers are busy forms the next batch (continuous batching at
the granularity of a forward pass). Items of similar cost share a batch, because a row is
padded to the longest one beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from router.errors import DeadlinePassed

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True)
class _Pending(Generic[Item, Result]):
    item: Item
    cost_tokens: int
    deadline_s: float
    queued_ns: int
    future: asyncio.Future[tuple[Result, int]]


class TokenBudgetBatcher(Generic[Item, Result]):
    """Batches items for a blocking function run in a bounded thread pool.

    Args:
        run: Maps items to as many results, in order; called in a worker thread.
        max_tokens: Most padded tokens in a batch; one larger item runs alone.
        max_rows: Most items in a batch.
        workers: Batches run at once.
        name: Prefix of the worker threads' names.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        max_tokens: int,
        max_rows: int,
        workers: int,
        name: str,
    ) -> None:
        self._run = run
        self._max_tokens = max_tokens
        self._max_rows = max_rows
        self._idle = workers
        self._pending: deque[_Pending[Item, Result]] = deque()
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(
        self, item: Item, *, cost_tokens: int, deadline_s: float
    ) -> tuple[Result, int]:
        """Return the item's result and the time it waited, nanoseconds.

        Args:
            item: What to run.
            cost_tokens: Its length, which others in its batch are padded to.
            deadline_s: Absolute, on the monotonic clock; an item still queued then is
                dropped.

        Raises:
            DeadlinePassed: If the deadline passes before the item is run.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Result, int]] = loop.create_future()
        self._pending.append(
            _Pending(item, max(1, cost_tokens), deadline_s, time.perf_counter_ns(), future)
        )
        self._dispatch()
        return await future

    def close(self) -> None:
        """Stop taking work and fail what is queued."""
        for pending in self._pending:
            pending.future.cancel()
        self._pending.clear()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _dispatch(self) -> None:
        while self._idle and self._pending:
            batch = self._next_batch()
            if not batch:
                return
            self._idle -= 1
            task = asyncio.get_running_loop().create_task(self._work(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next_batch(self) -> list[_Pending[Item, Result]]:
        """Take the oldest live item and the queued ones that fit beside it."""
        batch: list[_Pending[Item, Result]] = []
        kept: deque[_Pending[Item, Result]] = deque()
        widest = 0
        now_s = time.monotonic()
        while self._pending:
            pending = self._pending.popleft()
            if pending.future.done():
                continue
            if now_s >= pending.deadline_s:
                pending.future.set_exception(DeadlinePassed("the deadline passed in the queue"))
                continue
            width = max(widest, pending.cost_tokens)
            fits = (
                len(batch) < self._max_rows
                and width * (len(batch) + 1) <= self._max_tokens
                and width <= 2 * min((p.cost_tokens for p in batch), default=width)
            )
            if not batch or fits:
                batch.append(pending)
                widest = width
            else:
                kept.append(pending)
        self._pending = kept
        return batch

    async def _work(self, batch: list[_Pending[Item, Result]]) -> None:
        started_ns = time.perf_counter_ns()
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(
                self._executor, self._run, [pending.item for pending in batch]
            )
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            for pending in batch:
                if not pending.future.done():
                    pending.future.set_exception(error)
        else:
            for pending, result in zip(batch, results, strict=True):
                if not pending.future.done():
                    pending.future.set_result((result, started_ns - pending.queued_ns))
        finally:
            self._idle += 1
            self._dispatch()
