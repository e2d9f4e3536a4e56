"""Run what blocks for seconds beside the event loop, which need not wait for its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_NAME = "loading"


async def in_thread(load: Callable[[], T], *, discard: Callable[[T], None]) -> T:
    """Return what ``load`` returns, which runs in a thread of its own.

    Cancelled, this ends at once and leaves the thread behind. The event loop does not wait for
    it, as it would for one of an executor; the interpreter does before it exits, since native
    loaders abort the process when their libraries are torn down under them.

    Args:
        load: Blocks.
        discard: Frees a result that nobody waits for any more; any thread calls it.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = load()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            with suppress(InvalidStateError):
                future.set_exception(error)
            return
        try:
            future.set_result(result)
        except InvalidStateError:
            discard(result)

    threading.Thread(target=run, name=_NAME).start()
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if not future.cancel() and future.exception() is None:
            discard(future.result())
        raise


def still_loading() -> bool:
    """Return whether a thread that nobody waits for any more keeps the process from exiting."""
    return any(thread.name == _NAME for thread in threading.enumerate())
