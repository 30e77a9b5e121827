"""Where the value of a column comes from: a counter of the world, its state, or a constant."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tests.stories.ethernet.state import Flags, Floats
from tests.stories.ethernet.world import World

Reading = Callable[[World, tuple[int, int]], Floats]
"""(world, (hosts, rows)) -> the value of each row of each host."""


@cache
def counter(name: str) -> Reading:
    return lambda world, _shape: world.counters.values[name]


@cache
def constant(value: float) -> Reading:
    return lambda _world, shape: np.full(shape, value)


@cache
def rx_power(lane: int) -> Reading:
    """Watt; hardly anything arrives on a leg without link."""

    def read(world: World, shape: tuple[int, int]) -> Floats:
        power: Floats = world.state.rx_power[:, :, lane] * world.rng.normal(1, 0.01, shape)
        return np.where(world.links, power, 1e-6)

    return read


@cache
def tx_power(lane: int) -> Reading:
    return lambda world, _shape: world.state.tx_power[:, :, lane]


def carrier(world: World, _shape: tuple[int, int]) -> Floats:
    return world.links.astype(float)


def operstate(world: World, _shape: tuple[int, int]) -> Floats:
    """Up or down, as the kernel numbers them."""
    return np.where(world.links, 6.0, 2.0)


def link_rate(world: World, _shape: tuple[int, int]) -> Floats:
    """Bytes per second of a leg; unknown without a link."""
    return np.where(world.links, world.state.rate, np.nan)


def port_state(world: World, _shape: tuple[int, int]) -> Floats:
    """Active or down, as RDMA numbers them."""
    return np.where(_has_link(world), 4.0, 1.0)


def physical_state(world: World, _shape: tuple[int, int]) -> Floats:
    """LinkUp or Polling."""
    return np.where(_has_link(world), 5.0, 2.0)


def port_rate(world: World, _shape: tuple[int, int]) -> Floats:
    """Bytes per second of a port's first leg; unknown without a link."""
    first = world.state.rate[:, :: world.cluster.legs_of_port]
    return np.where(_has_link(world), first, np.nan)


def legs_up(world: World, _shape: tuple[int, int]) -> Floats:
    return world.of_ports(world.links) * 1.0


def temperature(world: World, shape: tuple[int, int]) -> Floats:
    return world.state.temperature + world.rng.normal(0, 0.3, shape)


def mtu(world: World, _shape: tuple[int, int]) -> Floats:
    return world.state.mtu


def pfc_priorities(world: World, _shape: tuple[int, int]) -> Floats:
    return world.state.pfc_priorities


def dscp_trusted(world: World, _shape: tuple[int, int]) -> Floats:
    return world.state.dscp_trusted


def priority_map(world: World, _shape: tuple[int, int]) -> Floats:
    return world.state.priority_map


def qos_fingerprint(world: World, _shape: tuple[int, int]) -> Floats:
    state = world.state
    return state.priority_map * 7 + state.pfc_priorities * 13 + state.dscp_trusted * 101 + state.mtu * 3


def pcie_stalled_writes(world: World, _shape: tuple[int, int]) -> Floats:
    return world.of_legs(world.state.pcie_stalled_writes)


def pcie_width(world: World, _shape: tuple[int, int]) -> Floats:
    return world.state.pcie_width


def pcie_path_width(world: World, _shape: tuple[int, int]) -> Floats:
    """Share of the width that the adapter could use."""
    return world.state.pcie_width / 16


def _has_link(world: World) -> Flags:
    return world.of_ports(world.links) > 0
