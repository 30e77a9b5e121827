"""Turns of a loop with many streams: the other sockets are served in every turn, and no stream waits for ever."""

import asyncio
import selectors
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.runtime import fair_loop
from fabricmon.runtime.fair_loop import LEAST, MOST, TURN, new_loop, sockets_of_turn

pytestmark = pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="no epoll here")


@given(st.lists(st.floats(0.0, 10.0)), st.floats(1e-6, 0.02))
def test_a_turn_takes_some_and_soon_no_more_than_its_time(others, each):
    """`others`: what else the first turns do; `each`: seconds that one socket takes."""
    most = MOST
    for took in others:
        most = sockets_of_turn(most, took)
        assert LEAST <= most <= MOST
    for _ in range(40):
        most = sockets_of_turn(most, most * each)
    assert most == LEAST or most * each <= TURN
    assert most == MOST or (most + 1) * each * 2 > TURN / 2


@pytest.fixture
def selector():
    made = fair_loop._FairSelector()
    yield made
    made.close()


@pytest.fixture
def pairs():
    made = [socket.socketpair() for _ in range(40)]
    for _, far in made:
        far.send(b"x")
    yield [near for near, _ in made]
    for pair in made:
        for one in pair:
            one.close()


def test_each_turn_has_all_others_and_a_part_of_the_streams_until_all_had_theirs(selector, pairs, monkeypatch):
    monkeypatch.setattr(fair_loop, "sockets_of_turn", lambda before, took: 7)
    others, streams = pairs[:3], pairs[3:]
    for each in pairs:
        selector.register(each, selectors.EVENT_READ, each)
    for stream in streams:
        selector.put_last(stream.fileno())
    met = set()
    for _ in range(-(-len(streams) // 7)):
        ready = {key.data for key, _ in selector.select(0)}
        assert set(others) <= ready
        assert len(ready) <= 3 + 7
        met |= ready
    assert met == set(pairs)


def test_a_socket_is_paused_resumed_and_closed_wherever_it_waits(selector, pairs):
    one, other = pairs[:2]
    selector.register(one, selectors.EVENT_READ, "one")
    selector.put_last(one.fileno())
    selector.modify(one, selectors.EVENT_WRITE, "one")
    assert [events for _, events in selector.select(0)] == [selectors.EVENT_WRITE]
    selector.unregister(one)
    assert selector.select(0) == []
    selector.register(one, selectors.EVENT_READ, "one")
    selector.put_first(one.fileno())  # its connection ends
    selector.put_last(other.fileno())  # before it is registered
    selector.register(other, selectors.EVENT_READ, "other")
    assert {key.data for key, _ in selector.select(0)} == {"one", "other"}
    selector.unregister(one)
    selector.unregister(other)
    assert selector.select(0) == []


def test_streams_of_a_loop_do_not_delay_an_exchange(monkeypatch):
    """Far more is ready than a turn takes, always; an exchange of ten steps needs ten turns, not ten times all."""
    monkeypatch.setattr(fair_loop, "sockets_of_turn", lambda before, took: 2)
    read = []

    async def exchange():
        loop = asyncio.get_running_loop()
        streams = [socket.socketpair() for _ in range(60)]
        for near, far in streams:
            far.send(b"x")  # nobody takes it: it stays ready
            loop.add_reader(near.fileno(), read.append, near)
            fair_loop.put_last(near.fileno())
        here, there = socket.socketpair()
        for one in (here, there):
            one.setblocking(False)
        for _ in range(10):
            answer = asyncio.create_task(loop.sock_recv(there, 1))
            await asyncio.sleep(0)  # it waits for the loop
            await loop.sock_sendall(here, b"?")
            await answer
        for near, far in streams:
            loop.remove_reader(near.fileno())
            near.close(), far.close()
        here.close(), there.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(exchange())
    assert 0 < len(read) <= 2 * 60


async def test_on_another_loop_nothing_takes_turns(pairs):
    fair_loop.put_last(pairs[0].fileno())
    fair_loop.put_first(pairs[0].fileno())
    assert not hasattr(asyncio.get_running_loop(), "put_last")
