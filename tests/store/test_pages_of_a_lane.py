"""A queue that is longer than what a lane reads at once: all of it is delivered, in order, without another word."""

from __future__ import annotations

import pytest

from fabricmon.central.delivery import lane as lanes
from fabricmon.senders.attempt import Attempt
from tests.store.test_lane import Receiver, Store, lane_of, notes, until

KEYS = "abcdefghijk"


@pytest.mark.parametrize("page", [1, 2, 4, 11, 12])
async def test_a_queue_of_several_pages_is_delivered_in_order_and_once(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PAGE", page)
    store, receiver = Store(*notes(*KEYS)), Receiver()
    await until(lane_of(store, receiver), lambda: len(store.acks) == len(KEYS))
    assert receiver.got == list(KEYS)
    assert [ack.key for ack in store.acks] == list(KEYS)
    assert store.queued == {}


async def test_of_several_that_were_set_aside_the_one_whose_pause_ends_first_is_tried_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = iter([0.0] * (lanes.PATIENCE - 1) + [3600.0] + [0.0] * (lanes.PATIENCE - 1) + [0.01])
    monkeypatch.setattr(lanes, "pause", lambda *_: next(pauses))
    store = Store(*notes("a", "b"))
    receiver = Receiver(*[Attempt.retry("500", answered=True)] * (2 * lanes.PATIENCE))
    await until(lane_of(store, receiver), lambda: bool(store.acks))
    assert receiver.got == ["a"] * lanes.PATIENCE + ["b"] * (lanes.PATIENCE + 1)
    assert [ack.key for ack in store.acks] == ["b"]


def test_pauses_double_from_the_least_to_the_most_and_half_of_it_is_chance() -> None:
    assert [lanes.pause(failed, None, 2.0, 60.0, 1.0) for failed in (1, 2, 3, 5, 6, 5000)] == [2, 4, 8, 32, 60, 60]
    assert [lanes.pause(2, None, 2.0, 60.0, jitter) for jitter in (0.0, 0.5)] == [2.0, 3.0]
    asked = [lanes.pause(1, seconds, 2.0, 60.0, 1.0) for seconds in (0.0, 1.0, 300.0, 1e9)]
    assert asked == [2.0, 2.0, 300.0, lanes.MAX_RETRY_AFTER]
