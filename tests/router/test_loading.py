"""A load in a thread holds up neither the event loop nor whoever stops waiting for it."""

import asyncio
import threading

import pytest

from router.loading import in_thread, still_loading


async def test_the_event_loop_runs_on_while_something_loads() -> None:
    gate = threading.Event()

    async def open_gate() -> None:
        # Runs only if the loop is free, and the load ends only if this has run.
        gate.set()

    opened, loaded = await asyncio.gather(
        open_gate(), in_thread(lambda: gate.wait(20.0), discard=lambda _: pytest.fail("discarded"))
    )
    assert (opened, loaded) == (None, True)


async def test_what_a_load_raises_reaches_who_waits() -> None:
    def fail() -> None:
        raise KeyError("file")

    with pytest.raises(KeyError, match="file"):
        await in_thread(fail, discard=lambda _: pytest.fail("discarded"))


async def test_a_result_that_comes_after_the_cancellation_is_discarded() -> None:
    gate, discarded = threading.Event(), threading.Event()

    def load() -> str:
        gate.wait(20.0)
        return "model"

    task = asyncio.create_task(
        in_thread(load, discard=lambda model: discarded.set() if model == "model" else None)
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert still_loading()
    gate.set()
    assert await asyncio.to_thread(discarded.wait, 20.0)
