"""A queue that is longer than what a lane reads at once: all of it is delivered, in order, without another word."""

from __future__ import annotations

import pytest

from fabricmon.central.delivery import lane as lanes
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
