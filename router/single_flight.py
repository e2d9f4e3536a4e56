"""Let identical requests take turns, so that one upstream call can serve them all.

The first request leads; those that come meanwhile wait. Once it ends they all go on, and find
its answer in the cache if it was one that may be shared; the cache alone decides that. A leader
that is cancelled or out of time says nothing about the others, so one of them leads next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from router.clock import Clock
from router.errors import DeadlinePassed


class SingleFlight:
    """Turns by key. Belongs to one event loop.

    Args:
        clock: For the deadlines.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        # Those who wait for the leader of a key, in order; True makes one the next leader.
        self._waiting: dict[str, dict[asyncio.Future[bool], None]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, key: str | None, *, deadline_s: float) -> AsyncIterator[None]:
        """Wait until it is this caller's turn; ``None`` shares nothing and waits for nobody.

        Raises:
            DeadlinePassed: If ``deadline_s``, monotonic, passes before.
        """
        if key is None or not await self._leads(key, deadline_s=deadline_s):
            yield
            return
        ended_early = False
        try:
            yield
        except (asyncio.CancelledError, DeadlinePassed):
            ended_early = True
            raise
        finally:
            self._end(key, hand_over=ended_early)

    async def _leads(self, key: str, *, deadline_s: float) -> bool:
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = {}
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting[turn] = None
        try:
            async with asyncio.timeout(deadline_s - self._clock.monotonic_s()):
                return await turn
        except BaseException as error:
            waiting.pop(turn, None)
            # It may have been made the leader in the very moment in which it was cancelled.
            if turn.done() and not turn.cancelled() and turn.result():
                self._end(key, hand_over=True)
            if isinstance(error, TimeoutError):
                msg = "the deadline passed while an identical request was answered"
                raise DeadlinePassed(msg) from error
            raise

    def _end(self, key: str, *, hand_over: bool) -> None:
        waiting = self._waiting.pop(key)
        for turn in list(waiting):
            if turn.done():  # cancelled, but not yet told
                continue
            turn.set_result(hand_over)
            if hand_over:
                del waiting[turn]
                self._waiting[key] = waiting
                return
