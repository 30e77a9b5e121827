"""Grids of switches, closed to a torus or open. Pure."""

from __future__ import annotations

from itertools import product

from fabricmon.sim.shapes.lay import RATE, Lay, numbered, positive
from fabricmon.topology.graph import Graph


def torus3d(
    x: int, y: int, z: int, hosts: int = 1, closed: bool = True, parallel: int = 1, rate: float = RATE
) -> Graph:
    """x*y*z switches, each joined with its neighbour in every direction; z = 1 gives a 2D torus.

    hosts     of a switch, one adapter each
    closed    the ends of a direction meet (a direction of two has one neighbour either way); False: a mesh
    parallel  cables between two neighbours
    """
    positive(x=x, y=y, z=z, hosts=hosts, parallel=parallel)
    lay = Lay(rate)
    sizes = (x, y, z)
    at = {place: lay.switch("sw-" + "-".join(map(str, place))) for place in product(*map(range, sizes))}
    names = iter(numbered("host", len(at) * hosts))
    for place, switch in at.items():
        for _ in range(hosts):
            lay.cable(lay.adapter(lay.host(next(names)), "mlx5_0"), switch)
        for axis, size in enumerate(sizes):
            beyond = place[axis] + 1
            if beyond < size or (closed and size > 2):
                lay.cable(switch, at[*place[:axis], beyond % size, *place[axis + 1 :]], parallel)
    return lay.graph()
