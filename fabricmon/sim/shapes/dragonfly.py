"""Groups that are joined all to all by global links. Pure."""

from __future__ import annotations

from itertools import combinations

from fabricmon.sim.shapes.lay import RATE, Lay, numbered, positive
from fabricmon.topology.graph import Graph


def dragonfly(groups: int = 9, switches: int = 4, hosts: int = 2, links: int = 1, rate: float = RATE) -> Graph:
    """Inside a group every switch is joined with every other; every two groups are joined by `links` cables.

    switches  of a group
    hosts     of a switch, one adapter each
    The global links of a group leave its switches in turn; groups = switches * h + 1 is the balanced dragonfly with h
    global links a switch.
    """
    positive(groups=groups, switches=switches, hosts=hosts, links=links)
    lay = Lay(rate)
    names = iter(numbered("host", groups * switches * hosts))
    group = [[lay.switch(f"g{g}-s{s}") for s in range(switches)] for g in range(groups)]
    for members in group:
        for switch in members:
            for _ in range(hosts):
                lay.cable(lay.adapter(lay.host(next(names)), "cxi0"), switch)
        for near, far in combinations(members, 2):
            lay.cable(near, far)
    out = [0] * groups
    for one, other in _pairs(groups):
        for _ in range(links):
            lay.cable(group[one][out[one] % switches], group[other][out[other] % switches])
            out[one] += 1
            out[other] += 1
    return lay.graph()


def dragonfly_plus(
    groups: int = 4, leaves: int = 4, spines: int = 4, hosts: int = 4, links: int = 4, rate: float = RATE
) -> Graph:
    """Each group a leaf-spine; the spines carry `links` global cables between every two groups."""
    positive(groups=groups, leaves=leaves, spines=spines, hosts=hosts, links=links)
    lay = Lay(rate)
    names = iter(numbered("host", groups * leaves * hosts))
    top: list[list[str]] = []
    for g in range(groups):
        below = [lay.switch(f"g{g}-leaf{n}") for n in range(leaves)]
        top.append([lay.switch(f"g{g}-spine{n}") for n in range(spines)])
        for leaf in below:
            for _ in range(hosts):
                lay.cable(lay.adapter(lay.host(next(names)), "mlx5_0"), leaf)
            for spine in top[-1]:
                lay.cable(leaf, spine)
    for one, other in combinations(range(groups), 2):
        for n in range(links):
            lay.cable(top[one][n % spines], top[other][n % spines])
    return lay.graph()


def _pairs(groups: int) -> list[tuple[int, int]]:
    """Every two groups once, near ones first: so each group's links leave in the same order."""
    found = []
    for step in range(1, groups // 2 + 1):
        for one in range(groups):
            other = (one + step) % groups
            if 2 * step != groups or one < other:
                found.append((one, other))
    return found
