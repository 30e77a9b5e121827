"""Simulated agents speak the real protocol, and a simulated host feeds the real collectors."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence

import aiohttp
import numpy as np
import pytest

from fabricmon import frame
from fabricmon.collect import COLLECTORS
from fabricmon.host.protocol import HostError
from fabricmon.model import Inventory, Kind, Snapshot
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.layout import Layout
from fabricmon.sim.machine import SimulatedNode, columns
from fabricmon.sim.world import World
from fabricmon.simulate.agents import Agents
from fabricmon.simulate.host import CLASS, SimulatedHost

infiniband = COLLECTORS["infiniband"]
infiniband_errors = COLLECTORS["infiniband_errors"]
infiniband_rare = COLLECTORS["infiniband_rare"]
infiniband_state = COLLECTORS["infiniband_state"]

LAYOUT = Layout.named("rail-optimised", units=1, hosts=4, rails=2, spines=1, storage=0, gpus=2)


class Client:
    """What a server keeps of one stream."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self._ws = ws
        self.inventory: Inventory | None = None
        self.values = np.zeros(0)
        self.frames = 0

    async def next(self) -> frame.Frame:
        """The next frame, applied; ConnectionError where the stream has ended."""
        while True:
            message = await self._ws.receive(timeout=120)
            if message.type is aiohttp.WSMsgType.TEXT:
                said = frame.decode_text(message.data)
                if isinstance(said, frame.Goodbye):
                    raise ConnectionError(said.reason)
                assert isinstance(said, Inventory)
                self.inventory = said
            elif message.type is aiohttp.WSMsgType.BINARY:
                found = frame.decode(message.data)
                assert self.inventory is not None
                assert found.inventory == self.inventory.id
                if found.index is None:
                    self.values = found.values.copy()
                else:
                    self.values[found.index] = found.values
                assert len(self.values) == self.inventory.size
                self.frames += 1
                return found
            else:
                raise ConnectionError(message.type.name)

    async def follow(self) -> None:
        """Read until the stream ends, which raises ConnectionError."""
        while True:
            await self.next()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as found:
        yield found


async def test_a_stream_is_a_hello_all_values_and_then_what_changed(session: aiohttp.ClientSession) -> None:
    agents = Agents(World(LAYOUT), interval=1.0)
    await agents.start()
    try:
        assert list(agents.targets) == list(LAYOUT.hosts)
        assert len(set(agents.targets.values())) == 4
        agents.play([FAULTS["link_flap"](LAYOUT, "host-001/mlx5_1", start=1.0, downs=(0,), down_for=60)])
        async with session.ws_connect(f"http://{agents.targets['host-001']}/stream?after=0") as ws:
            client = Client(ws)
            first = await client.next()
            assert first.index is None
            assert client.inventory is not None
            assert client.inventory.identity.node == "host-001"
            while agents.seconds < 2.5:
                last = await client.next()
            assert last.index is not None
            machine = agents.nodes[1].machine
            now = values_of(machine.snapshot)["mlx5_1/1"]
            assert now["state"] == 1
            assert math.isnan(now["rate"])
            assert np.array_equal(client.values, np.asarray(machine.snapshot.values), equal_nan=True)
            assert last.taken[0] > first.taken[0]
    finally:
        await agents.stop()


async def test_a_rebooting_node_refuses_and_comes_back_as_another_boot(session: aiohttp.ClientSession) -> None:
    steps: list[str] = []
    agents = Agents(World(LAYOUT), interval=1.0, on_step=lambda step: steps.append(step.text))
    await agents.start()
    try:
        agents.play([FAULTS["node_reboot"](LAYOUT, "host-002", start=0.5, lasts=1.0)])
        url = f"http://{agents.targets['host-002']}/stream"
        async with session.ws_connect(url) as ws:
            client = Client(ws)
            await client.next()
            assert client.inventory is not None
            before = client.inventory.identity
            with pytest.raises(ConnectionError):
                await client.follow()
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)
        for _ in range(100):
            try:
                ws = await session.ws_connect(url)
                break
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)
        async with ws:
            client = Client(ws)
            first = await client.next()
        assert client.inventory is not None
        after = client.inventory.identity
        assert (after.node, after.agent) == (before.node, before.agent)
        assert after.boot_id != before.boot_id
        assert first.taken[0] < 10, "the node's clock began anew"
        assert steps == ["host-002: reboots", "host-002: is back"]
        assert agents.failed is None
    finally:
        await agents.stop()


async def test_agents_say_goodbye_when_they_stop(session: aiohttp.ClientSession) -> None:
    agents = Agents(World(LAYOUT))
    await agents.start()
    async with session.ws_connect(f"http://{agents.targets['host-000']}/stream") as ws:
        client = Client(ws)
        await client.next()
        stopping = asyncio.create_task(agents.stop())
        with pytest.raises(ConnectionError, match="agent stops"):
            await client.follow()
    await stopping


def test_counters_are_read_at_their_interval_and_states_every_time() -> None:
    world = World(LAYOUT)
    machine = SimulatedNode(world, 0, interval=10, state_interval=1)
    taken = []
    for second in range(25):
        world.advance(second)
        taken.append(list(machine.take_snapshot(columns(world), 1000.0 + second).taken))
    collectors = [part.collector for part in machine.snapshot.inventory.parts]
    reads = {name: len({times[at] for times in taken}) for at, name in enumerate(collectors)}
    assert reads["infiniband_state"] == reads["inventory"] == 25
    assert reads["infiniband"] == reads["gpu"] == reads["pcie"] == 3


def test_a_simulated_host_feeds_the_real_collectors() -> None:
    world = World(LAYOUT)
    world.hold_down((LAYOUT.port("host-003/mlx5_0"),))
    world.count((LAYOUT.port("host-003/mlx5_1"),), "symbol_errors", 99999)
    world.advance(3)
    host, machine = SimulatedHost(world, 3), SimulatedNode(world, 3)
    parts = machine.take_snapshot(columns(world), 0.0).inventory.parts
    labels = {c.name: c.labels for part in parts if part.kind is Kind.PORT for c in part.components}
    told = {c for p in parts if p.collector.startswith("infiniband") for c in p.columns}
    expected = {
        name: {column: value for column, value in row.items() if column in told}
        for name, row in values_of(machine.snapshot).items() if name in labels
    }  # fmt: skip
    found: dict[str, dict[str, float]] = {}
    for module in (infiniband_state, infiniband, infiniband_errors, infiniband_rare):
        for reading in (s.read() for s in module.open(host, module.config()).sessions().values()):
            assert not reading.faults
            values, at = reading.values, 0
            for part in reading.parts:
                for component in part.components:
                    found.setdefault(component.name, {}).update(
                        zip(part.columns, values[at : at + len(part.columns)], strict=True)
                    )
                    at += len(part.columns)
                    simulated = labels[component.name]
                    named = ("device", "port")
                    facts = ("link_layer", "node_guid", "port_guid", "firmware", "pci", "driver")
                    for key in (*named, *facts) if module in (infiniband_state, infiniband) else named:
                        assert component.labels[key] == simulated[key], key
    assert found.keys() == expected.keys()
    for name, row in expected.items():
        assert found[name].keys() == row.keys()
        for column, value in row.items():
            assert found[name][column] == pytest.approx(value, nan_ok=True), (name, column)
    assert found["mlx5_1/1"]["symbol_errors"] == 65535


def test_a_host_that_is_off_answers_nothing() -> None:
    world = World(LAYOUT)
    host = SimulatedHost(world, 0)
    reader = host.bulk([f"{CLASS}/mlx5_0/ports/1/counters/symbol_error"])
    out = array("d", [7.0])
    assert reader.read(out, 0) == []
    assert out[0] == 0
    world.switch_off(0)
    with pytest.raises(HostError, match="No such device"):
        host.list(CLASS)
    ((at, error),) = reader.read(out, 0)
    assert (at, error.path) == (0, f"{CLASS}/mlx5_0/ports/1/counters/symbol_error")
    assert math.isnan(out[0])


def values_of(snapshot: Snapshot) -> Mapping[str, Mapping[str, float]]:
    """Component name -> column -> value. Rows of all kinds; names do not meet."""
    found: dict[str, dict[str, float]] = {}
    at = 0
    for part in snapshot.inventory.parts:
        for component in part.components:
            row: Sequence[float] = snapshot.values[at : at + len(part.columns)]
            found.setdefault(component.name, {}).update(zip(part.columns, row, strict=True))
            at += len(part.columns)
    return found
