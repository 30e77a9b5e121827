"""What probes show, against a plain telling of docs/methods.md#probes and #unreachable, turn by turn."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import pytest

from fabricmon.fleet.pooled_losses import LEAST, pooled
from fabricmon.fleet.probes import BESIDE, MEMORY, SILENT_PROBES, SILENT_TURNS, TURN, TURNS, VOID, Probes, Reach
from fabricmon.fleet.table import Table
from fabricmon.model import Component, Kind, Part
from fabricmon.topology.groups import Many
from tests.fleet.site import Site

NAN = math.nan
NODES = ("a", "b", "c", "d")
COLUMNS = ("flow_packets", "flow_lost", "flow_late", "flow_rtt")
ALONE = ("a", "stray")
"""A flow whose two ends are no ports that are known."""


@dataclass
class OneFlow:
    """A flow as the model has it; lists have the newest turn first."""

    near: str
    far: str
    counts: list[float] = field(default_factory=lambda: [0.0, 0.0])
    before: tuple[float, float] = (NAN, NAN)
    sent: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    rtts: list[float] = field(default_factory=list)
    silent: list[bool] = field(default_factory=list)
    beside: list[bool] = field(default_factory=list)
    falling: bool = False
    reached: bool = False
    at: float = NAN
    usual: float = NAN
    seen: int = 0

    def turn(self, late: float, rtt: float, now: float) -> None:
        more, gone = (new - old for new, old in zip(self.counts, self.before, strict=True))
        fit = late == late and more >= 0 and 0 <= gone <= more
        self.sent, self.lost = [more if fit else 0.0, *self.sent], [gone if fit else 0.0, *self.lost]
        self.before = self.counts[0], self.counts[1]
        if self.sent[0] > 0:
            self.at = now
        self.learn(rtt if self.sent[0] > 0 else NAN)

    def learn(self, rtt: float) -> None:
        self.rtts = [rtt, *self.rtts][:3]
        if rtt != rtt:
            return
        if self.usual != self.usual:
            self.usual = rtt
        weight = max(1.0 / (self.seen + 1), 1.0 / MEMORY)
        self.usual += weight * (min(rtt, 2 * self.usual) - self.usual)
        self.seen += 1

    def recent(self) -> tuple[float, float]:
        """Probes of SILENT_TURNS turns, and those that were answered."""
        sent = sum(self.sent[:SILENT_TURNS])
        return sent, sent - sum(self.lost[:SILENT_TURNS])


class Told:
    """All flows, and what follows for the ports."""

    def __init__(self, flows: dict[tuple[str, str], OneFlow]) -> None:
        self.flows = flows
        self.asked_at = dict.fromkeys(NODES, NAN)

    def towards(self, port: str) -> list[OneFlow]:
        return [flow for flow in self.flows.values() if flow.far == port]

    def reach(self, port: str) -> tuple[float, ...]:
        """asked, answered, flows, sent, returned."""
        to, of = self.towards(port), [flow for flow in self.flows.values() if flow.near == port]
        asked, answered = (sum(flow.recent()[n] for flow in to) for n in (0, 1))
        sent, returned = (sum(flow.recent()[n] for flow in of) for n in (0, 1))
        return asked, answered, sum(flow.recent()[0] > 0 for flow in to), sent, returned

    def newest(self, port: str) -> tuple[float, float]:
        """Probes of the newest turn towards a port, and those lost."""
        return sum(flow.sent[0] for flow in self.towards(port)), sum(flow.lost[0] for flow in self.towards(port))

    def turn(self, now: float, late: set[str]) -> None:
        silent, perhaps = set(), set()
        for port in NODES:
            asked, answered, *_ = self.reach(port)
            once, lost = self.newest(port)
            if asked > 0:
                self.asked_at[port] = now
            if (asked > 0 and answered == 0) or (once >= SILENT_PROBES and lost == once):
                silent.add(port)
            if any(flow.lost[0] == flow.sent[0] >= LEAST for flow in self.towards(port)):
                perhaps.add(port)
        for flow in self.flows.values():
            none = flow.lost[0] == flow.sent[0]
            silences = flow.far in late or (none and bool({flow.near, flow.far} & silent))
            flow.beside = [any(flow.silent[:BESIDE]), *flow.beside]
            if silences:
                flow.beside[: BESIDE + 1] = [True] * len(flow.beside[: BESIDE + 1])
            flow.silent = [silences, *flow.silent]
            flow.falling = (none and flow.sent[0] >= LEAST) or bool({flow.near, flow.far} & perhaps)
            asked, lost = self.newest(flow.far)
            others = flow.far in NODES and asked - lost > flow.sent[0] - flow.lost[0]
            flow.reached = others and not any(flow.silent[: BESIDE + 1])


class Mesh:
    """Two flows from each port to each other one, of the same pair, and one whose ends are unknown."""

    def __init__(self, seed: int) -> None:
        self.rng, self.site = random.Random(seed), Site()
        self.told = Told({})
        for node in NODES:
            flows = []
            for far in NODES:
                for udp in (1, 2):
                    if far != node:
                        labels = {"port": "p", "peer": f"{far}/p"}
                        flows.append(Component(f"p>{far}:{udp}", labels))
                        self.told.flows[node, f"p>{far}:{udp}"] = OneFlow(node, far)
            if node == ALONE[0]:
                flows.append(Component(ALONE[1], {"port": "gone", "peer": "elsewhere/p"}))
                self.told.flows[ALONE] = OneFlow("", "")
            port = Part("state", Kind.PORT, ("state", VOID), (Component("p"),), 10.0)
            self.site.inventory(node, port, Part("flow", Kind.FLOW, COLUMNS, tuple(flows), 10.0))
        self.site.tick()
        self.probes, self.reach = Probes(64), Reach(64)
        self.probes.many = {"leaf": leaves(self.flows)}
        self.mute: set[str] = set()
        self.turns, self.void = 0, dict.fromkeys(NODES, 0.0)

    @property
    def flows(self) -> Table:
        return self.site.fleet.tables[Kind.FLOW]

    @property
    def ports(self) -> Table:
        return self.site.fleet.tables[Kind.PORT]

    def turn(self, seconds: float = TURN) -> None:
        """One turn of probes, in the tables and in the model."""
        rng = self.rng
        self.site.now += seconds
        if rng.random() < 0.4:
            self.mute = {node for node in NODES if rng.random() < 0.25}
        cells: dict[str, dict[tuple[str, str], float]] = {node: {} for node in NODES}
        for (node, name), flow in self.told.flows.items():
            more = rng.choice((0.0, 1.0, 5.0, 12.0))
            gone = more if {flow.near, flow.far} & self.mute else min(more, rng.choice((0.0, 0.0, 0.0, 1.0, 12.0)))
            flow.counts[0] += more
            flow.counts[1] += gone + (rng.random() < 0.03)  # at times more lost than sent
            if rng.random() < 0.03:
                flow.counts[rng.randrange(2)] = 0.0
            late, rtt = rng.choice((0.0,) * 12 + (NAN,)), rng.choice((NAN, 1e-5, 2e-5, 2e-5, 9e-5))
            flow.turn(late, rtt, self.site.now)
            for column, value in zip(COLUMNS, (*flow.counts, late, rtt), strict=True):
                cells[node][name, column] = value
        late = {node for node in NODES if rng.random() < 0.1}
        self.told.turn(self.site.now, late if self.turns else set())  # before, no count is known
        self.turns += 1
        for node in NODES:
            self.void[node] += node in late
            cells[node]["p", VOID] = self.void[node]
            self.site.send(node, cells[node], self.site.now)
        self.site.fleet.advance(self.site.now)
        self.advance()

    def advance(self) -> None:
        self.probes.advance(self.flows, self.ports, self.reach, self.site.now)


def leaves(flows: Table) -> Many:
    """Every third flow is between two leaves, the others are within one."""
    groups = [[0, 1] if row % 3 == 0 else [0] for row in range(flows.n)]
    return Many(
        np.cumsum([0, *map(len, groups)]), np.array([one for row in groups for one in row], np.int32)
    )


def newest(values: list[float] | list[bool], most: int, blank: float = 0.0) -> list[float]:
    return ([float(value) for value in values] + [blank] * most)[:most]


@pytest.mark.parametrize("seed", range(3))
def test_every_turn_of_every_flow_and_port(seed: int) -> None:
    mesh = Mesh(seed)
    probes = mesh.probes
    for _ in range(14):
        mesh.turn()
        flows, told = mesh.flows, mesh.told
        of = [told.flows[component.node, component.name] for component in flows.ids]
        pairs = {(flow.near, flow.far): flow for flow in of}  # of several flows of a pair, the last one
        counted = []
        for row, flow in enumerate(of):
            assert probes.sent[:, row].tolist() == newest(flow.sent, TURNS), row
            assert probes.lost[:, row].tolist() == newest(flow.lost, TURNS), row
            assert probes.rtts[:, row].tolist() == pytest.approx(newest(flow.rtts, 3, NAN), nan_ok=True)
            assert probes.at[row] == pytest.approx(flow.at, nan_ok=True)
            assert (probes.usual[row], probes.seen[row]) == (pytest.approx(flow.usual, nan_ok=True), flow.seen)
            assert bool(probes.reached[row]) is flow.reached, row
            other = pairs.get((flow.far, flow.near)) if flow.near else None
            sent, answered = other.recent() if other is not None else (0.0, 0.0)
            assert probes.back[row] == pytest.approx(answered / sent if sent else NAN, nan_ok=True), row
            beside = [bool(one) for one in newest(flow.beside, TURNS)]
            beside[0] |= flow.falling
            counted.append([not one for one in beside])
        mask = np.array(counted).T
        lost, sent = (np.where(mask, ring[:, : flows.n], 0.0).astype(float) for ring in (probes.lost, probes.sent))
        expected = pooled(lost, sent.sum(axis=0), probes.many)
        assert (probes.bad[: flows.n] == expected.bad).all()
        assert (probes.clean[: flows.n] == expected.clean).all()
        for component, row in ((component, row) for row, component in enumerate(mesh.ports.ids)):
            found = [ring[row] for ring in (mesh.reach.asked, mesh.reach.answered, mesh.reach.flows,
                                            mesh.reach.sent, mesh.reach.returned)]  # fmt: skip
            assert found == list(told.reach(component.node)), component
            assert mesh.reach.at[row] == pytest.approx(told.asked_at[component.node], nan_ok=True)
        assert probes.of_probes(flows.n).tolist() == [sum(flow.sent[:TURNS]) > 0 for flow in of]
        for apart in (False, True):
            usual = [flow.usual for row, flow in enumerate(of) if flow.seen and (row % 3 == 0) is apart]
            assert probes.class_usual[apart] == pytest.approx(median(usual) if usual else NAN, nan_ok=True)


def test_a_turn_lasts_ten_seconds_and_a_clock_that_was_set_back_begins_a_new_one() -> None:
    mesh = Mesh(0)
    mesh.turn()
    began = mesh.probes.rtts[:, 0].tolist(), mesh.probes.seen.sum()
    mesh.site.now += TURN - 0.1
    mesh.advance()
    assert mesh.probes.seen.sum() == began[1], "the same turn"
    mesh.site.now -= TURN  # 0.1 s before the turn began
    mesh.probes.advance(mesh.flows, mesh.ports, mesh.reach, mesh.site.now)
    assert mesh.probes.rtts[1, 0] == pytest.approx(began[0][0], nan_ok=True)


def test_tables_without_probes_are_left_alone() -> None:
    site, probes, reach = Site(), Probes(4), Reach(4)
    site.inventory("a", Part("flow", Kind.FLOW, ("flow_packets",), (Component("f"),), 10.0))
    site.tick()
    probes.advance(site.fleet.tables[Kind.FLOW], site.fleet.tables[Kind.PORT], reach, site.now)
    assert not probes.of_probes(1).any()
