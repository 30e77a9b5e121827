"""Fabrics as they are in reality: with a few odd hosts and switches, lost cables, other names. For tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from fabricmon.sim import shapes
from fabricmon.topology import infer
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.topology.infer import adapter_ends, neighbours

FABRICS: dict[str, Callable[[], Graph]] = {
    "two tiers, 36 switches": lambda: shapes.fat_tree(24),
    "two tiers, 96 switches": lambda: shapes.fat_tree(64),
    "three tiers, 80 switches": lambda: shapes.fat_tree(8, 3),
    "three tiers, 320 switches": lambda: shapes.fat_tree(16, 3),
    "three tiers, 500 switches": lambda: shapes.fat_tree(20, 3),
    "rails, 40 switches": lambda: shapes.rail_optimised(4, 16, 8, 8, 2),
    "rails, 160 switches": lambda: shapes.rail_optimised(16, 16, 8, 32),
    "rails, 640 switches": lambda: shapes.rail_optimised(64, 16, 8, 128),
    "dual ToR, 144 switches": lambda: shapes.dual_tor(8, 16, 8, 16),
    "planes, 96 switches": lambda: shapes.rail_optimised(8, 16, 8, 4, planes=True),
    "dragonfly, 72 switches": lambda: shapes.dragonfly(9, 8, 4),
    "dragonfly, 272 switches": lambda: shapes.dragonfly(17, 16, 8, 2),
    "dragonfly+, 96 switches": lambda: shapes.dragonfly_plus(6, 8, 8, 8, 8),
    "dragonfly+, 320 switches": lambda: shapes.dragonfly_plus(10, 16, 16, 16, 16),
    "torus, 64 switches": lambda: shapes.torus3d(4, 4, 4),
    "torus, 256 switches": lambda: shapes.torus3d(8, 8, 4, 8),
    "torus, 700 switches": lambda: shapes.torus3d(10, 10, 7, 4),
    "mesh, 60 switches": lambda: shapes.torus3d(5, 4, 3, closed=False),
}
"""Every shape, 30 to 700 switches."""


class Odd:
    """A fabric that is changed step by step. `discovered()` has it as a dump would, without levels and labels."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.dice = random.Random(seed)
        self.switches = dict(graph.switches)
        self.adapters = dict(graph.adapters)
        self.cables = list(graph.cables)
        self.own = tuple(graph.switches)
        self._next = 1000

    # --- what may be added

    def host(self) -> None:
        """A management host with one adapter on any switch."""
        self._host_on(self.dice.choice(self.own))

    def chain(self, most: int) -> None:
        """One to three management switches in a row, at most `most`, each with one or two hosts, below any switch."""
        above = self.dice.choice(self.own)
        for _ in range(self.dice.randint(1, min(3, most))):
            switch = self._switch("mgmt")
            self._join(above, switch)
            for _ in range(self.dice.randint(1, 2)):
                self._host_on(switch)
            above = switch

    def odd_switches(self, most: int, sorts: Sequence[str] = ("chain", "gateway", "empty_leaf")) -> None:
        """Add up to `most` odd switches of some sorts."""
        before = len(self.switches)
        while (left := most - (len(self.switches) - before)) > 0:
            sort = self.dice.choice(sorts)
            self.chain(left) if sort == "chain" else getattr(self, sort)()

    def gateway(self) -> None:
        """A leaf for storage or gateways: one to six hosts, half of the uplinks of another leaf."""
        leaf = self._leaf()
        switch = self._switch("gateway")
        up = self._above(leaf)
        for other in up[: max(1, len(up) // 2)]:
            self._join(switch, other)
        for _ in range(self.dice.randint(1, 6)):
            self._host_on(switch)

    def empty_leaf(self) -> None:
        """A leaf whose hosts are not there yet."""
        leaf = self._leaf()
        switch = self._switch("edge")
        for other in self._above(leaf):
            self._join(switch, other)

    # --- what may be lost or written otherwise

    def lose(self, share: float) -> None:
        """Lose a share of the cables between switches."""
        inner = [
            at for at, link in enumerate(self.cables) if link.a.node in self.switches and link.b.node in self.switches
        ]
        gone = set(self.dice.sample(inner, int(share * len(inner))))
        self.cables = [link for at, link in enumerate(self.cables) if at not in gone]

    def rename(self) -> dict[str, str]:
        """Names without meaning; returns old id -> new id of the switches."""
        numbers = list(range(len(self.switches)))
        self.dice.shuffle(numbers)
        ids = {old: f"0x{0xCC000000 + number:016x}" for old, number in zip(self.switches, numbers, strict=True)}
        self.switches = {
            ids[old]: replace(switch, id=ids[old], name=f"ib{ids[old][-4:]}") for old, switch in self.switches.items()
        }
        self.cables = [
            cable(replace(link.a, node=ids.get(link.a.node, link.a.node)),
                  replace(link.b, node=ids.get(link.b.node, link.b.node)), link.rate, link.width)
            for link in self.cables
        ]  # fmt: skip
        return ids

    def discovered(self) -> Graph:
        """The annotated graph, in shuffled order."""
        switches = [
            replace(switch, level=-1, labels={k: v for k, v in switch.labels.items() if k == "network"})
            for switch in self.switches.values()
        ]
        adapters, cables = list(self.adapters.values()), list(self.cables)
        for lines in (switches, adapters, cables):
            self.dice.shuffle(lines)
        return infer.annotate(Graph({s.id: s for s in switches}, {a.id: a for a in adapters}, tuple(cables)))

    # --- parts

    def _switch(self, word: str) -> str:
        self._next += 1
        key = f"0x{0xDD000000 + self._next:016x}"
        self.switches[key] = Switch(key, f"{word}-{self._next}", ports=64)
        return key

    def _host_on(self, switch: str) -> None:
        self._next += 1
        key = f"0x{0xEE000000 + self._next:016x}"
        self.adapters[key] = Adapter(key, f"odd-{self._next}", "mlx5_0", "", 1, {})
        self._join(switch, key)

    def _join(self, one: str, other: str) -> None:
        self._next += 1
        rate = self.cables[0].rate
        self.cables.append(cable(End(one, self._next), End(other, self._next), rate, 4))

    def _leaf(self) -> str:
        carried = {switch: len(ends) for switch, ends in adapter_ends(self._graph()).items()}
        most = max(carried.values())
        return self.dice.choice(sorted(s for s in self.own if 2 * carried[s] >= most))

    def _above(self, leaf: str) -> list[str]:
        return sorted(set(neighbours(self._graph())[leaf]))

    def _graph(self) -> Graph:
        return Graph(self.switches, self.adapters, tuple(self.cables))
