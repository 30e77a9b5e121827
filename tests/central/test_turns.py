"""Large inventories wait for each other, and for a pause that pays for the work before."""

import asyncio

import pytest

from fabricmon.central.streams import turns
from fabricmon.central.streams.turns import SHARE, Turns


@pytest.fixture
def clock(monkeypatch):
    """[now], which pauses move; no test waits."""
    now = [0.0]

    async def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(turns.asyncio, "sleep", sleep)
    return now


async def test_work_takes_its_share_of_the_time(clock):
    found, work = Turns(lambda: clock[0]), 0.5
    for _ in range(8):
        async with found.next():
            clock[0] += work
    assert 7 * work / (clock[0] - work) == pytest.approx(SHARE)


async def test_who_comes_after_a_long_time_does_not_wait(clock):
    found = Turns(lambda: clock[0])
    async with found.next():
        clock[0] += 1.0
    clock[0] += 100.0
    async with found.next():
        assert clock[0] == 101.0


async def test_one_at_a_time_also_after_an_error(clock):
    found, inside = Turns(lambda: clock[0]), []

    async def take(name):
        async with found.next():
            inside.append(name)
            assert len(inside) == 1
            inside.remove(name)
            if name == 1:
                raise ValueError(name)

    ended = await asyncio.gather(*map(take, range(5)), return_exceptions=True)
    assert [error is None for error in ended] == [True, False, True, True, True]
