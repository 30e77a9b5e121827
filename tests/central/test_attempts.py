"""Time-outs of connection attempts: a second counts where the loop could have taken an answer."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central.streams import attempts
from fabricmon.central.streams.attempts import LATE, LEAST, STEP, Attempts, LoopTime


@given(st.lists(st.floats(STEP, 60.0)), st.integers(1, 4096))
def test_time_of_the_loop_goes_on_and_no_late_turn_counts_for_more_than_its_share(turns, most):
    time = LoopTime(most)
    for elapsed in turns:
        before, room = time.seconds, time.room
        time.passed(elapsed)
        assert 0 < time.seconds - before <= min(elapsed, STEP + LATE) + 1e-9
        assert min(LEAST, most) <= time.room <= most
        assert time.room <= max(room, LEAST) if elapsed > STEP + LATE else time.room >= room


@given(st.lists(st.floats(STEP, STEP + LATE)))
def test_time_of_a_loop_that_is_never_late_is_time(turns):
    time = LoopTime(100)
    for elapsed in turns:
        time.passed(elapsed)
    assert time.seconds == pytest.approx(sum(turns))
    assert time.room == min(100, LEAST * 2 ** len(turns))


@pytest.fixture
def clock(monkeypatch):
    """[now, seconds by which each sleep is longer]; no test waits."""
    state = [0.0, 0.0]

    async def sleep(seconds, real=asyncio.sleep):
        state[0] += seconds + state[1]
        await real(0)

    monkeypatch.setattr(attempts.asyncio, "sleep", sleep)
    return state


async def attempt(found, limit):
    async with found.next(limit):
        await asyncio.Event().wait()


async def steps(found, number):
    for _ in range(number):
        await found.step()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_a_node_that_does_not_answer_is_given_up_after_its_time(clock):
    found = Attempts(lambda: clock[0], 100)
    trying = asyncio.create_task(attempt(found, 3.0))
    await asyncio.sleep(0)
    await steps(found, 28)
    assert not trying.done()
    await steps(found, 4)
    with pytest.raises(TimeoutError):
        await trying


async def test_a_busy_server_gives_no_node_up(clock):
    found = Attempts(lambda: clock[0], 100)
    trying = asyncio.create_task(attempt(found, 3.0))
    await asyncio.sleep(0)
    clock[1] = 2.9  # each turn
    await steps(found, 10)
    assert not trying.done()
    trying.cancel()


async def underway(found, number):
    """Begin so many attempts that never end; who has begun."""
    begun = []

    async def one(at):
        async with found.next(1e9):
            begun.append(at)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(one(at)) for at in range(number)]
    await steps(found, 0)
    return begun, tasks


async def test_a_late_loop_has_few_attempts_at_a_time_and_one_in_time_as_many_as_are_set(clock):
    found = Attempts(lambda: clock[0], 100)
    clock[1] = 1.0
    begun, tasks = await underway(found, 300)
    await steps(found, 5)
    assert begun == list(range(LEAST))
    clock[1] = 0.0
    await steps(found, 5)
    assert begun == list(range(100))
    found.limit(200)
    await steps(found, 2)
    assert len(begun) == 200
    clock[1] = 1.0
    await steps(found, 5)
    for task in tasks[: 200 - LEAST]:
        task.cancel()
    await steps(found, 0)
    assert len(begun) == 200  # as many as are left are enough for a late loop
    for task in tasks:
        task.cancel()


async def test_who_stops_waiting_takes_no_room(clock):
    found = Attempts(lambda: clock[0], 1)
    begun, tasks = await underway(found, 4)
    assert begun == [0]
    tasks[1].cancel()
    await steps(found, 0)
    tasks[0].cancel()  # the third is admitted, and ends before it begins
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks[2].cancel()
    await steps(found, 1)
    assert begun[-1] == 3
    tasks[3].cancel()
