"""Turns: one leads, the others wait, nobody fails for another's reasons."""

import asyncio

import pytest

from router.clock import Clock
from router.errors import DeadlinePassed, TierUnavailable
from router.pipeline_testing import ScriptedTime
from router.single_flight import SingleFlight


class Crowd:
    """Callers that take turns at one key, with what each of them does then."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.flights = SingleFlight(clock=clock or ScriptedTime().clock())
        self.running: list[str] = []
        self.ends = {}

    def caller(self, name: str, *, key: str | None = "k", deadline_s: float = 1e6):
        self.ends[name] = asyncio.get_running_loop().create_future()

        async def call() -> str:
            async with self.flights.turn(key, deadline_s=deadline_s):
                self.running.append(name)
                return await self.ends[name]

        return asyncio.create_task(call())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_all_others_go_on_together_once_the_leader_has_ended() -> None:
    crowd = Crowd()
    tasks = [crowd.caller(name) for name in "abc"]
    await settle()
    assert crowd.running == ["a"]
    crowd.ends["a"].set_result("done")
    await settle()
    assert crowd.running == ["a", "b", "c"]
    for name in "bc":
        crowd.ends[name].set_result(name)
    assert await asyncio.gather(*tasks) == ["done", "b", "c"]
    assert len(crowd.flights) == 0


async def test_other_keys_and_no_key_wait_for_nobody() -> None:
    crowd = Crowd()
    tasks = [crowd.caller("a"), crowd.caller("b", key="other"), crowd.caller("c", key=None)]
    tasks.append(crowd.caller("d", key=None))
    await settle()
    assert crowd.running == ["a", "b", "c", "d"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(crowd.flights) == 0


@pytest.mark.parametrize("end", [asyncio.CancelledError(), DeadlinePassed("late")])
async def test_a_leader_that_ends_early_hands_over_to_one_waiter(end) -> None:
    crowd = Crowd()
    tasks = [crowd.caller(name) for name in "abc"]
    await settle()
    crowd.ends["a"].set_exception(end)
    await settle()
    assert crowd.running == ["a", "b"]
    crowd.ends["b"].set_result("b")
    crowd.ends["c"].set_result("c")
    first, *rest = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, type(end))
    assert rest == ["b", "c"]
    assert len(crowd.flights) == 0


async def test_an_error_of_the_leader_is_nobody_elses() -> None:
    crowd = Crowd()
    tasks = [crowd.caller(name) for name in "ab"]
    await settle()
    crowd.ends["a"].set_exception(TierUnavailable("down", setting="s"))
    crowd.ends["b"].set_result("b")
    first, second = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, TierUnavailable)
    assert second == "b"


async def test_a_waiter_that_is_cancelled_in_the_moment_it_is_to_lead_passes_the_lead_on() -> None:
    crowd = Crowd()
    tasks = [crowd.caller(name) for name in "abc"]
    await settle()
    waiting = crowd.flights._waiting["k"]
    tasks[0].cancel()
    for _ in range(5):
        await asyncio.sleep(0)
        if len(waiting) == 1:  # told to lead, but not run since
            tasks[1].cancel()
            break
    assert tasks[1].cancelling()
    await settle()
    assert crowd.running == ["a", "c"]
    crowd.ends["c"].set_result("c")
    assert await tasks[2] == "c"
    assert len(crowd.flights) == 0


async def test_waiters_that_go_away_leave_nothing_behind() -> None:
    crowd = Crowd()
    leader, *others = [crowd.caller(name) for name in "abc"]
    await settle()
    for task in others:
        task.cancel()
    await settle()
    assert not crowd.flights._waiting["k"]
    crowd.ends["a"].set_result("a")
    assert await leader == "a"
    assert len(crowd.flights) == 0


async def test_a_waiter_gives_up_at_its_own_deadline() -> None:
    time = ScriptedTime()
    crowd = Crowd(clock=time.clock())
    leader = crowd.caller("a")
    late = crowd.caller("b", deadline_s=time.now_s)
    with pytest.raises(DeadlinePassed):
        await late
    assert crowd.running == ["a"]
    crowd.ends["a"].set_result("a")
    assert await leader == "a"
