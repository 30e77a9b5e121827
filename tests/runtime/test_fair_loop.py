"""Turns of a loop with many streams: the other sockets are served in every turn, and no stream waits for ever."""

import asyncio
import selectors
import socket
from contextlib import contextmanager

import pytest

from fabricmon.runtime import fair_loop
from fabricmon.runtime.fair_loop import new_loop

pytestmark = pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="no epoll here")


@contextmanager
def socketpairs(number):
    """Pairs of sockets; something waits to be read from the first of each, and stays as nobody reads it."""
    made = [socket.socketpair() for _ in range(number)]
    for near, far in made:
        near.setblocking(False)
        far.send(b"x")
    try:
        yield [near for near, _ in made]
    finally:
        for pair in made:
            for one in pair:
                one.close()


class Turns:
    """A loop whose clock is moved by its handlers only; what each turn handled."""

    def __init__(self, monkeypatch, costs):
        self.at, self.costs, self.now, self.handled = 0.0, costs, [], []
        self.loop = new_loop()
        monkeypatch.setattr(self.loop, "time", lambda: self.at)

    def read(self, stream):
        self.at += self.costs
        self.now.append(stream)

    def other(self, *_):
        self.now.append("other")

    def turn(self):
        self.now = []
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        return self.now


@pytest.fixture
def turns(monkeypatch):
    made = Turns(monkeypatch, 0.001)
    yield made
    made.loop.close()


def registered(turns, streams, others=()):
    async def put():
        for stream in streams:
            turns.loop.add_reader(stream.fileno(), turns.read, stream)
            fair_loop.put_last(stream.fileno())
        for other in others:
            turns.loop.add_reader(other.fileno(), turns.other)

    turns.loop.run_until_complete(put())


def removed(turns, sockets):
    for each in sockets:
        turns.loop.remove_reader(each.fileno())


def test_each_turn_has_all_others_and_the_streams_for_their_time_in_order(turns):
    with socketpairs(63) as pairs:
        others, streams = pairs[:3], pairs[3:]
        registered(turns, streams, others)
        met = []
        for _ in range(4):
            handled = turns.turn()
            assert handled.count("other") == 3
            of_turn = [each for each in handled if each != "other"]
            assert 20 <= len(of_turn) <= 22  # TURN is 20 of them
            met += of_turn
        assert set(met) == set(streams)
        assert len(set(met[:60])) == 60  # nobody twice before everybody once
        removed(turns, pairs)


def test_a_stream_that_takes_long_has_its_turn_and_what_else_takes_long_costs_the_streams_nothing(turns):
    with socketpairs(50) as pairs:
        registered(turns, pairs)
        turns.costs = 3.0
        assert len(turns.turn()) == 1
        turns.costs = 0.001
        for _ in range(10):
            turns.loop.call_soon(lambda: setattr(turns, "at", turns.at + 1.0))
            assert len(turns.turn()) >= 20
        removed(turns, pairs)


def test_a_stream_that_is_closed_while_it_waits_for_its_turn_has_none(turns):
    with socketpairs(40) as pairs:
        registered(turns, pairs)
        first = turns.turn()
        waiting = [each for each in pairs if each not in first]
        removed(turns, waiting[:10])
        assert not set(turns.turn()) & set(waiting[:10])
        removed(turns, pairs)


@pytest.fixture
def selector():
    made = fair_loop._FairSelector()
    yield made
    made.close()


def test_a_socket_is_paused_resumed_and_closed_wherever_it_waits(selector):
    with socketpairs(2) as (one, other):
        selector.register(one, selectors.EVENT_READ, "one")
        selector.put_last(one.fileno())
        assert selector.select(0) == []
        assert [fd for fd, _ in selector.second.poll(0)] == [one.fileno()]
        selector.modify(one, 0, "one")
        assert selector.second.poll(0) == []
        selector.unregister(one)
        selector.register(one, selectors.EVENT_READ, "one")
        selector.put_first(one.fileno())  # its connection ends
        selector.put_last(other.fileno())  # before it is registered
        selector.register(other, selectors.EVENT_READ, "other")
        assert {fd for fd, _ in selector.second.poll(0)} == {one.fileno(), other.fileno()}
        assert selector.key_of(other.fileno()).data == "other"
        selector.unregister(one)
        selector.unregister(other)
        assert selector.second.poll(0) == []
        assert selector.key_of(other.fileno()) is None


def test_streams_of_a_loop_do_not_delay_an_exchange(turns):
    """Far more is ready than a turn takes, always; an exchange of ten steps needs ten turns, not ten times all."""
    turns.costs = 0.01
    with socketpairs(60) as streams:
        registered(turns, streams)

        async def exchange():
            loop = asyncio.get_running_loop()
            here, there = socket.socketpair()
            for one in (here, there):
                one.setblocking(False)
            for _ in range(10):
                answer = asyncio.create_task(loop.sock_recv(there, 1))
                await asyncio.sleep(0)  # it waits for the loop
                await loop.sock_sendall(here, b"?")
                await answer
            here.close(), there.close()

        turns.now = []
        turns.loop.run_until_complete(exchange())
        removed(turns, streams)
    assert 0 < len(turns.now) <= 4 * 60


async def test_on_another_loop_nothing_takes_turns():
    with socketpairs(1) as (one,):
        fair_loop.put_last(one.fileno())
        fair_loop.put_first(one.fileno())
    assert not hasattr(asyncio.get_running_loop(), "put_last")
