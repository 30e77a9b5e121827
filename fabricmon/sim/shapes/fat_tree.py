"""Folded Clos networks of equal switches, as in docs/methods.md#fabric-shapes. Pure."""

from __future__ import annotations

from fabricmon.sim.shapes.lay import RATE, Lay, numbered, positive
from fabricmon.topology.graph import Graph


def fat_tree(k: int, tiers: int = 2, rate: float = RATE) -> Graph:
    """The largest tree without over-subscription of switches with `k` ports, one adapter a host.

    tiers  2: k leaves, k/2 spines, k*k/2 hosts. 3: k pods of k/2 leaves and k/2 spines, k*k/4 cores, k*k*k/4 hosts.
    ValueError for an odd k or other tiers.
    """
    if k < 4 or k % 2 or tiers not in (2, 3):
        raise ValueError(f"a fat tree has an even number of ports from 4 on and 2 or 3 tiers, got {k} and {tiers}")
    half = k // 2
    lay = Lay(rate)
    hosts = iter(numbered("host", k * half if tiers == 2 else k * half * half))
    leaves = [lay.switch(name) for name in numbered("leaf", k if tiers == 2 else k * half)]
    for leaf in leaves:
        for _ in range(half):
            lay.cable(lay.adapter(lay.host(next(hosts)), "mlx5_0"), leaf)
    if tiers == 2:
        for spine in [lay.switch(name) for name in numbered("spine", half)]:
            for leaf in leaves:
                lay.cable(leaf, spine)
        return lay.graph()
    spines = [lay.switch(name) for name in numbered("spine", k * half)]
    cores = [lay.switch(name) for name in numbered("core", half * half)]
    for pod in range(k):
        for at in range(half):
            for below in range(half):
                lay.cable(leaves[pod * half + below], spines[pod * half + at])
            for core in range(half):
                lay.cable(spines[pod * half + at], cores[at * half + core])
    return lay.graph()


def rail_optimised(
    units: int = 2, hosts: int = 8, rails: int = 8, spines: int = 4, parallel: int = 1, tors: int = 1,
    rate: float = RATE, planes: bool = False,
) -> Graph:
    """Adapter i of every host of a unit on leaf i of that unit.

    hosts     of each unit
    spines    shared by all leaves; 0: rails are not joined at all (rail-only), each rail spans all units on one leaf
    parallel  cables from each leaf to each spine
    tors      2: adapters have two ports, on two leaves of one rail (dual ToR)
    planes    each rail is a plane with `spines` spines of its own ("plane5-spine-003"), instead of sharing them
    """
    positive(units=units, hosts=hosts, rails=rails, parallel=parallel, tors=tors)
    lay = Lay(rate)
    names = numbered("host", units * hosts)
    sides = [""] if tors == 1 else list("abcdefgh"[:tors])
    leaves: dict[tuple[int, int, str], str] = {}
    for unit in range(units if spines else 1):
        for rail in range(rails):
            for side in sides:
                leaves[unit, rail, side] = lay.switch(f"su{unit}-rail{rail}{side}-leaf")
    if planes:
        top = {
            rail: [lay.switch(f"plane{rail}-{name}", plane=str(rail)) for name in numbered("spine", spines)]
            for rail in range(rails)
        }
    else:
        shared = [lay.switch(name) for name in numbered("spine", spines)]
        top = dict.fromkeys(range(rails), shared)
    for number, name in enumerate(names):
        lay.host(name)
        for rail in range(rails):
            adapter = lay.adapter(name, f"mlx5_{rail}", len(sides))
            for side in sides:
                lay.cable(adapter, leaves[number // hosts if spines else 0, rail, side])
    for (_, rail, _), leaf in leaves.items():
        for spine in top[rail]:
            lay.cable(leaf, spine, parallel)
    return lay.graph()


def rail_fabric(
    nodes: int = 64, rails: int = 8, unit: int = 32, spines: int = 16, parallel: int = 2, power: int = 16,
    rate: float = RATE,
) -> Graph:
    """A rail-optimised fabric by its number of hosts, with power domains: the fabric of the demo.

    unit   hosts of a scalable unit; the last may be smaller
    power  hosts of a power domain
    """
    positive(nodes=nodes, rails=rails, unit=unit, spines=spines, parallel=parallel, power=power)
    lay = Lay(rate)
    leaves = [
        [lay.switch(f"su{at}-rail{rail}-leaf", "MQM9700", unit=f"su{at}", rail=str(rail)) for rail in range(rails)]
        for at in range(-(-nodes // unit))
    ]
    above = [lay.switch(f"spine-{at:02d}", "MQM9700") for at in range(1, spines + 1)]
    for at, host in enumerate(numbered("host", nodes)):
        lay.host(host, power=f"power-{at // power}")
        for rail in range(rails):
            lay.cable(lay.adapter(host, f"mlx5_{rail}"), leaves[at // unit][rail])
    for leaf in (leaf for mates in leaves for leaf in mates):
        for spine in above:
            lay.cable(leaf, spine, parallel)
    return lay.graph()


def dual_tor(units: int = 2, hosts: int = 8, rails: int = 8, spines: int = 4, rate: float = RATE) -> Graph:
    """Rail-optimised, each adapter on two leaves: one of them may fail."""
    return rail_optimised(units, hosts, rails, spines, 1, 2, rate)
