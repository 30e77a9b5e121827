"""runtime/alarm.py: an event with a limit."""

from __future__ import annotations

import asyncio

from fabricmon.runtime.alarm import Alarm

LONG = 60.0


async def test_it_ends_at_its_limit_without_being_set() -> None:
    alarm = Alarm()
    assert await alarm.wait(0.001) is False
    assert await alarm.wait(0.0) is False
    assert await alarm.wait(-1.0) is False


async def test_set_before_the_wait_it_does_not_wait() -> None:
    alarm = Alarm()
    alarm.set()
    assert await asyncio.wait_for(alarm.wait(LONG), 60)
    assert await asyncio.wait_for(alarm.wait(LONG), 60)  # until it is cleared
    alarm.clear()
    assert await alarm.wait(0.001) is False


async def test_set_during_the_wait_it_wakes_at_once() -> None:
    alarm = Alarm()
    waiting = asyncio.create_task(alarm.wait(LONG))
    await asyncio.sleep(0)
    alarm.set()
    assert await asyncio.wait_for(waiting, 60)


async def test_a_cancelled_wait_leaves_it_of_use() -> None:
    alarm = Alarm()
    waiting = asyncio.create_task(alarm.wait(LONG))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    alarm.set()
    assert alarm.is_set()
    assert await alarm.wait(LONG)
