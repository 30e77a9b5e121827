"""Healthy agents: eight InfiniBand ports each, with GUIDs of their own."""

from __future__ import annotations

from fabricmon.model import Component, Kind, Part
from tests.central.streams import COLUMNS, FakeAgent

PORTS = 8


def good_part(number: int) -> Part:
    rows = tuple(
        Component(f"mlx5_{n}/1", {
            "device": f"mlx5_{n}", "port": "1", "link_layer": "InfiniBand", "role": "compute",
            "port_guid": f"0x{0xb000 + PORTS * number + n:016x}"})
        for n in range(PORTS)
    )  # fmt: skip
    return Part("infiniband_state", Kind.PORT, COLUMNS, rows, 0.5)


async def good_agents(number: int, beat: float) -> list[FakeAgent]:
    """`number` of them, "good-0" and so on, which listen."""
    return [await FakeAgent(f"good-{n}", beat=beat, part=good_part(n)).start() for n in range(number)]


async def lose_link(agent: FakeAgent) -> None:
    """Its first port goes down and stays down."""
    agent.values[0], agent.values[1], agent.values[2] = 1.0, 2.0, agent.values[2] + 1
    await agent.say()


async def have_link(agent: FakeAgent) -> None:
    agent.values[0], agent.values[1] = 4.0, 5.0
    await agent.say()
