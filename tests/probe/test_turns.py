"""When a prober reads: once for a first answer, later for the second one, and all before a window closes."""

from __future__ import annotations

import asyncio
import os

import pytest

from fabricmon.agent.probing.prober import Prober
from fabricmon.agent.probing.settings import AgentProbeConfig
from fabricmon.agent.probing.watch import Watch
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Snapshot
from fabricmon.probe.assignment import Assignment, PortProbes, ProbeTarget, decode_reply, encode
from fabricmon.probe.windows import WATERMARK, WINDOW
from tests.probe.memory import ROW, MemoryBackend, MemoryNetwork

PARTS = (Part("infiniband_state", Kind.PORT, ("state",), (Component(ROW, {"device": "mlx5_0", "port": "1"}),), 1.0),)


class Pair:
    """Two probers of one port each; the first asks on `flows` flows. now: of their clock."""

    def __init__(self, flows, rate):
        self.now, self.network, self.results = 1000.0, MemoryNetwork(), []
        nothing = Snapshot(Inventory(1, Identity("n", "b", "a", "1", 0.0), PARTS), 0, 0.0, [], [])
        self.probers = [
            Prober(AgentProbeConfig(enabled=True), lambda: nothing, lambda _: None, lambda: self.now,
                   MemoryBackend(self.network, f"10.0.0.{n}", 7)) for n in range(2)
        ]  # fmt: skip
        for prober in self.probers:
            prober.step(self.now, 0.0)
        targets = tuple(ProbeTarget("n1", "10.0.0.1", 7, 61_000 + n) for n in range(flows))
        both = (PortProbes(ROW, targets), PortProbes(ROW, (), ("10.0.0.0",)))
        for prober, ports in zip(self.probers, both, strict=True):
            prober.take("test", encode(Assignment(1, 300.0, "ab" * 16, rate, ports=(ports,), reply=True)), self.send)

    async def send(self, text):
        self.results += decode_reply(text).results

    async def run(self, seconds):
        for _ in range(round(seconds / 0.1)):
            self.now += 0.1
            for prober in self.probers:
                prober.step(self.now, 0.0)
            for _ in range(6):
                await asyncio.sleep(0)


@pytest.mark.parametrize(("flows", "rate"), [(1, 10.0), (4, 4.0), (40, 2.0)])
async def test_every_answer_counts_though_second_ones_wake_nobody(flows, rate):
    pair = Pair(flows, rate)
    await pair.run(WINDOW + WATERMARK + 1.0)
    sent = sum(result.sent for result in pair.results)
    assert sent >= 0.9 * rate * WINDOW
    assert {(result.lost, result.rtt[0] is None) for result in pair.results if result.sent} == {(0, False)}
    asking = [end for where, end in pair.network.items() if where[1] >= 61_000]
    every = sent * (WINDOW + WATERMARK + 1.0) / WINDOW
    assert sum(end.reads for end in asking) <= 2.2 * every + 2 * flows  # the first answer, the next probe; the close


async def test_an_answer_that_comes_after_the_next_question_is_read_at_once():
    """As long as the newest probe has no answer, each packet wakes; its second answer does not."""
    pair = Pair(1, 10.0)
    await pair.run(0.2)
    (asking,) = [end for where, end in pair.network.items() if where[1] >= 61_000]
    held, asking.take = [], lambda packet: held.append(packet)
    await pair.run(0.3)
    assert len(held) >= 4
    del asking.take
    woken = []
    for packet in held:
        before = asking.reads
        asking.take(packet)
        for _ in range(3):
            await asyncio.sleep(0)
        woken.append(asking.reads > before)
    assert woken == [True] * (len(held) - 1) + [False]


async def test_an_end_that_raises_costs_only_itself():
    """All are watched once, so that one that is not served now would wait for its next probe."""
    watch, served, told = Watch(), [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(str(context["exception"])))
    ends = [os.eventfd(1, os.EFD_NONBLOCK) for _ in range(5)]

    def serve(at):
        served.append(at)
        if at in (0, 2, 4):
            raise OSError(f"end {at} is gone")

    for at, end in enumerate(ends):
        watch.add(end, lambda at=at: serve(at))
        watch.once(end)
    for _ in range(3):
        await asyncio.sleep(0)
    assert sorted(served) == [0, 1, 2, 3, 4]
    assert sorted(told) == ["end 0 is gone", "end 2 is gone", "end 4 is gone"]
    for end in ends:
        watch.remove(end)
        os.close(end)
