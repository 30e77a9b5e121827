"""The queue of a lane in memory, against a store that answers late or not at all: in order, each once, none left."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central.delivery.lane_queue import LaneQueue
from fabricmon.central.store.records import SENT, Ack
from tests.notify.made import incident, note

LIMIT = 3


class Stored:
    """The store's side: keys that are queued and not recorded as delivered."""

    def __init__(self) -> None:
        self.queued: list[str] = []

    def page(self) -> tuple[list[str], int]:
        return self.queued[:LIMIT], len(self.queued)


class Player:
    """Takes the steps of a lane, one of them at a time; a turn with the store lasts as long as the script says."""

    def __init__(self) -> None:
        self.queue, self.store = LaneQueue(LIMIT), Stored()
        self.made, self.delivered = 0, list[str]()
        self.recording: list[Ack] | None = None
        self.page: tuple[list[str], int] | None = None

    def commit(self) -> None:
        self.store.queued.append(f"k{self.made}")
        self.queue.accept([note(f"k{self.made}", incident("i"))])
        self.made += 1

    def deliver(self) -> None:
        waiting = self.queue.waiting()
        if waiting:
            self.delivered.append(waiting[0].key)
            self.queue.finish(Ack(waiting[0].key, SENT, 0.0))

    def turn(self) -> None:
        """The next part of a turn: outcomes reach the store, it answers, the page is read, it arrives."""
        if self.page is not None:
            keys, depth = self.page
            self.page = None
            self.queue.filled([note(key, incident("i")) for key in keys], depth)
        elif self.recording is not None:
            self.queue.recorded(self.recording)
            self.recording = None
            if not self.queue.complete:
                self.queue.reading()
                self.page = self.store.page()
        else:
            self.recording = list(self.queue.outcomes.values())
            gone = {ack.key for ack in self.recording}
            self.store.queued = [key for key in self.store.queued if key not in gone]


@given(st.integers(0, 2**32), st.integers(10, 300))
def test_each_is_delivered_once_and_in_order_whenever_the_store_answers(seed: int, steps: int) -> None:
    rng, player = random.Random(seed), Player()
    weights = [rng.random() + 0.01 for _ in range(3)]
    for _ in range(steps):
        rng.choices([player.commit, player.deliver, player.turn], weights)[0]()
        assert len(player.queue.waiting()) <= LIMIT
        assert player.delivered == [f"k{n}" for n in range(len(player.delivered))]
    for _ in range(6 * (player.made + 1)):
        player.turn()
        player.deliver()
    for _ in range(6):
        player.turn()
    assert player.delivered == [f"k{n}" for n in range(player.made)]
    assert not player.store.queued
    assert not player.queue.outcomes


@given(st.integers(0, 2**32))
def test_what_was_accepted_before_the_store_hangs_is_delivered(seed: int) -> None:
    rng, player = random.Random(seed), Player()
    for _ in range(3):
        player.turn()
    for _ in range(rng.randint(0, LIMIT)):
        player.commit()
    if rng.random() < 0.5:
        player.turn()  # outcomes are on their way to the store, which never answers
    for _ in range(LIMIT):
        player.deliver()
    assert player.delivered == [f"k{n}" for n in range(player.made)]
