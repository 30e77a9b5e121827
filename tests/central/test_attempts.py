"""Time-outs of connection attempts: a second counts where the loop could have taken an answer."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central.streams import attempts
from fabricmon.central.streams.attempts import LATE, STEP, Attempts, LoopTime


@given(st.lists(st.floats(STEP, 60.0)))
def test_time_of_the_loop_goes_on_and_no_late_turn_counts_for_more_than_its_share(turns):
    time = LoopTime()
    for elapsed in turns:
        before = time.seconds
        time.passed(elapsed)
        assert 0 < time.seconds - before <= min(elapsed, STEP + LATE) + 1e-9
        assert time.late == (elapsed > STEP + LATE)


@given(st.lists(st.floats(STEP, STEP + LATE)))
def test_time_of_a_loop_that_is_never_late_is_time(turns):
    time = LoopTime()
    for elapsed in turns:
        time.passed(elapsed)
    assert time.seconds == pytest.approx(sum(turns))


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
    found = Attempts(lambda: clock[0])
    trying = asyncio.create_task(attempt(found, 3.0))
    await asyncio.sleep(0)
    await steps(found, 28)
    assert not trying.done()
    await steps(found, 4)
    with pytest.raises(TimeoutError):
        await trying


async def test_a_busy_server_gives_no_node_up(clock):
    found = Attempts(lambda: clock[0])
    trying = asyncio.create_task(attempt(found, 3.0))
    await asyncio.sleep(0)
    clock[1] = 2.9  # each turn
    await steps(found, 10)
    assert not trying.done()
    trying.cancel()


async def test_new_attempts_wait_while_the_loop_is_late(clock):
    found, begun = Attempts(lambda: clock[0]), []

    async def one():
        async with found.next(3.0):
            begun.append(1)

    clock[1] = 1.0
    await steps(found, 1)
    trying = asyncio.create_task(one())
    await steps(found, 3)
    assert not begun
    clock[1] = 0.0
    await steps(found, 2)
    await trying
    assert begun


async def test_a_loop_that_is_always_late_begins_attempts_too(clock, monkeypatch):
    monkeypatch.setattr(attempts, "WAIT", 0.0)
    found, begun = Attempts(lambda: clock[0]), []

    async def one():
        async with found.next(3.0):
            begun.append(1)

    clock[1] = 1.0
    await steps(found, 1)
    trying = asyncio.create_task(one())
    await steps(found, 5)
    await trying
    assert begun
