"""The world of one composite: the simulated cluster, the cables between switches, and a sweep of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fabricmon.adversary.fabrics import Fabric
from fabricmon.model import Component
from fabricmon.sim.links import ACTIVE, DOWN, LINK_UP, POLLING
from fabricmon.sim.traffic import TrafficJob
from fabricmon.sim.world import World
from fabricmon.topology.graph import End
from fabricmon.topology.infer import is_nvlink
from fabricmon.topology.swept import labels_of

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

SWEPT = ("state", "phys_state", "link_downed", "symbol_errors", "rate", "width")
"""Columns of a swept port."""


@dataclass(frozen=True)
class Act:
    """`do` changes a scene at second `at` of the composite. `fault`: number of the true fault; -1: not a fault."""

    at: float
    do: Callable[[PlayedFabric], None]
    fault: int = -1


class Transit:
    """Cables between switches.

    cables   their numbers in graph.cables
    held     reasons to be down; downs: times they went down; errors: symbol errors received
    ratio    error ratio after correction; rate in bytes per second; width in lanes
    """

    def __init__(self, fabric: Fabric) -> None:
        graph = fabric.layout.graph
        ids = {id for id, switch in graph.switches.items() if not is_nvlink(switch)}
        self.cables = [at for at, c in enumerate(graph.cables) if c.a.node in ids and c.b.node in ids]
        self.number = {cable: at for at, cable in enumerate(self.cables)}
        n = len(self.cables)
        self.held, self.downs = np.zeros(n, np.int64), np.zeros(n)
        self.errors, self.ratio = np.zeros(n), np.zeros(n)
        self.rate = np.array([graph.cables[at].rate for at in self.cables])
        self.width = np.full(n, 4.0)

    def hold(self, at: Ints) -> None:
        self.held[at] += 1
        self.downs[at[self.held[at] == 1]] += 1

    def let(self, at: Ints) -> None:
        self.held[at] = np.maximum(0, self.held[at] - 1)


@dataclass
class PlayedFabric:
    """One play of a composite.

    missing  (column, hosts) that agents do not have
    """

    fabric: Fabric
    world: World
    transit: Transit
    missing: list[tuple[str, NDArray[np.bool_]]] = field(default_factory=list)

    @classmethod
    def of(
        cls, fabric: Fabric, seed: int, poll: float, steady: float, jobs: Sequence[TrafficJob], flows: bool
    ) -> PlayedFabric:
        world = World(fabric.layout, seed, poll, steady=steady, jobs=jobs, flows=flows)
        return cls(fabric, world, Transit(fabric))

    def advance(self, until: float) -> None:
        """Let time pass until a moment."""
        now, transit = self.world.now, self.transit
        if until <= now:
            return
        bad = np.flatnonzero((transit.ratio > 0) & (transit.held == 0))
        if len(bad):
            bits = transit.rate[bad] * 8 * (until - now) * transit.ratio[bad]
            transit.errors[bad] += self.world.chance.poisson("transit", now, bad, bits)
        self.world.advance(until)


class Play:
    """Acts in the order of their time on one scene. `faults` False: all but the true faults, at the same moments."""

    def __init__(self, scene: PlayedFabric, acts: Iterable[Act], faults: bool) -> None:
        self.scene, self._faults = scene, faults
        self._acts = sorted(acts, key=lambda act: act.at)
        self._next = 0

    def until(self, now: float) -> None:
        while self._next < len(self._acts) and self._acts[self._next].at <= now:
            act = self._acts[self._next]
            self.scene.advance(act.at)
            if self._faults or act.fault < 0:
                act.do(self.scene)
            self._next += 1
        self.scene.advance(now)


class SwitchSweep:
    """The ports of all switches as one agent reads them.

    host        number of the host whose agent sweeps
    components  one a port
    row         port of a host at the far end of each, -1 for none
    cable       its cable between switches, as in Transit, -1 for none
    """

    def __init__(self, scene: PlayedFabric, host: int) -> None:
        self.scene, self.host = scene, host
        layout, graph = scene.fabric.layout, scene.fabric.layout.graph
        at_host = {int(cable): row for row, cable in enumerate(layout.cable.tolist()) if cable >= 0}
        self.components: list[Component] = []
        rows, cables, nodes = [], [], set()
        for at, cable in enumerate(graph.cables):
            if at not in at_host and at not in scene.transit.number:
                continue
            for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
                if near.node not in graph.switches:
                    continue
                self.components.append(_component(scene.fabric, near, far, near.node not in nodes))
                nodes.add(near.node)
                rows.append(at_host.get(at, -1))
                cables.append(scene.transit.number.get(at, -1))
        self.row, self.cable = np.array(rows, np.intp), np.array(cables, np.intp)

    def column(self, name: str) -> Floats:
        """One value a port."""
        world, transit = self.scene.world, self.scene.transit
        near = self.row >= 0
        rows, cables = self.row[near], self.cable[~near]
        found = np.zeros(len(self.row))
        down = transit.held[cables] > 0
        if name == "state":
            found[near], found[~near] = world.links.state[rows], np.where(down, DOWN, ACTIVE)
        elif name == "phys_state":
            found[near], found[~near] = world.links.phys_state[rows], np.where(down, POLLING, LINK_UP)
        elif name == "link_downed":
            found[near], found[~near] = world.ports.raw["link_downed"][rows], transit.downs[cables]
        elif name == "symbol_errors":
            found[~near] = transit.errors[cables]
        else:
            known = world.links.rate if name == "rate" else world.links.width
            own = transit.rate if name == "rate" else transit.width
            found[near] = np.where(world.links.state[rows] == DOWN, np.nan, known[rows])
            found[~near] = np.where(down, np.nan, own[cables])
        return found


def _component(fabric: Fabric, near: End, far: End, first: bool) -> Component:
    graph = fabric.layout.graph
    switch = graph.switches[near.node]
    name = switch.name or switch.id
    labels = labels_of(switch=True, name=name, end=near, far=far, remote=graph.describe(far))
    if first:
        labels |= {"description": name, "ports": str(switch.ports)}
    return Component(f"{name}/{near.port}", labels)
