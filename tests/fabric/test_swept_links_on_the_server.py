"""A sweep and the hosts' own agents through the real engine: one incident a cause, both ends of the cable named."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import msgspec
import pytest

from fabricmon import frame
from fabricmon.collect import COLLECTORS
from fabricmon.engine.engine import Engine
from fabricmon.fabric.subnet import At
from fabricmon.model import Component, Identity, Incident, Inventory, Kind, Part, Presence, Reading, Snapshot
from fabricmon.notify.node_condition import nodes_in
from fabricmon.rules.rule import Scope
from fabricmon.sim.layout import Layout, sysfs_guid
from fabricmon.sim.shapes import rail_fabric
from fabricmon.topology.graph import Graph, Origin, Role, cable
from tests.fabric.played import Played

fabric = COLLECTORS["fabric"]

RAILS = 4
PLAN = Layout.from_graph(rail_fabric(nodes=8, rails=RAILS, unit=4, spines=4, parallel=1), storage=0)
STEP, SWEEP = 5.0, 30.0
COLUMNS = ("state", "phys_state", "rate", "width", "link_downed", "symbol_errors")


def row_of(host: int, rail: int) -> int:
    return int(PLAN.host_rows(host)[rail])


def guid(row: int) -> int:
    return int(PLAN.guids[row], 16)


class Site:
    """A played fabric with an agent that sweeps it and, where wanted, agents on the hosts, before one server."""

    def __init__(self, hosts: bool = False, graph: Graph | None = None) -> None:
        self.played = Played(PLAN.graph)
        self.now, self.seq = 1_000_000.0, 0
        self.engine = Engine(Scope.FLEET, graph)
        self.agents = PLAN.hosts if hosts else ()
        (self.session,) = fabric.open(self, fabric.config(enabled=True)).sessions().values()  # type: ignore[arg-type]
        self.inventories: dict[str, Inventory] = {}
        self.errors: dict[tuple[str, int], float] = {}

    # --- what the collector asks of a host

    def monotonic(self) -> float:
        return self.now

    def fabric_port(self, device: str = "", port: int = 0) -> Played:
        return self.played

    # --- time

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            if self.now % SWEEP < STEP:
                reading = self.session.read()
                parts = tuple(part for part in reading.parts if part.wire)
                self.tell("sweeper", parts, reading.values[: sum(p.size for p in parts)])
            for host, name in enumerate(self.agents):
                self.tell(name, *self.host(host))
            self.engine.tick(self.now)
            self.now += STEP

    def tell(self, node: str, parts: tuple[Part, ...], values: array[float]) -> None:
        known = self.inventories.get(node)
        if known is None or known.parts != parts:
            identity = Identity(node, "boot", f"agent of {node}", "0", 0.0)
            known = self.inventories[node] = Inventory((known.id if known else 0) + 1, identity, parts)
            self.engine.inventory(node, known, self.now)
            self.engine.presence(node, Presence.LIVE, "", self.now)
        self.seq += 1
        snapshot = Snapshot(known, self.seq, self.now, [self.now] * len(parts), values)
        self.engine.frame(node, frame.decode(frame.encode_full(snapshot)), self.now)

    def host(self, host: int) -> tuple[tuple[Part, ...], array[float]]:
        components, values = [], array("d")
        for rail in range(RAILS):
            row = row_of(host, rail)
            at = At(guid(row), 1)
            up, lanes = self.played.link(at) is not None, 1 if self.played.width.get(at) else 4
            components.append(Component(f"mlx5_{rail}/1", PLAN.labels(row)))
            values.extend([4, 5, lanes * 12.5e9, lanes] if up else [1, 2, float("nan"), float("nan")])
            values.extend([0.0, 0.0])
        return (Part("infiniband_state", Kind.PORT, COLUMNS, tuple(components), 1.0),), values

    def firing(self) -> list[Incident]:
        return [i for i in self.engine.incidents() if i.status == "firing"]

    def leaf_end(self, row: int) -> At:
        return self.played.far[At(guid(row), 1)]

    def uplink(self) -> tuple[At, At]:
        a = next(a for a, b in self.played.far.items() if a.node in self.played.switches and b.node in
                 self.played.switches and self.played.switches[a.node].level == 0)  # fmt: skip
        return a, self.played.far[a]

    def words(self, at: At) -> str:
        return f"{PLAN.graph.name(f'0x{at.node:016x}')}/{at.port}"


def only(incidents: list[Incident]) -> Incident:
    assert len(incidents) == 1, [(i.kind, i.component, i.members) for i in incidents]
    return incidents[0]


@pytest.fixture(params=["sweep alone", "hosts too", "hosts and a file"])
def site(request: pytest.FixtureRequest) -> Site:
    made = Site(hosts=request.param != "sweep alone", graph=PLAN.graph if "file" in request.param else None)
    made.run(90)
    assert made.firing() == []
    return made


def test_the_topology_comes_from_the_sweep(site: Site) -> None:
    graph = site.engine.topology()
    assert graph is not None
    assert {(c.a, c.b) for c in graph.cables} == {(c.a, c.b) for c in PLAN.graph.cables}
    assert {s.id: (s.name, s.level) for s in graph.switches.values()} == {
        s.id: (s.name, s.level) for s in PLAN.graph.switches.values()
    }


def test_a_cut_adapter_cable_is_one_link_with_both_its_ends(site: Site) -> None:
    row = row_of(3, 2)
    site.played.pull(site.leaf_end(row))
    site.run(90)
    found = only(site.firing())
    assert found.kind == "link_down"
    assert found.component == f"link({PLAN.port_name(row)}, {site.words(site.leaf_end(row))})"
    assert (found.members.bad, found.members.of) == (1, 1)
    assert found.labels["node"] == PLAN.hosts[3]
    site.played.cut.clear()
    site.run(120)
    assert site.firing() == []


def test_a_cut_cable_between_switches(site: Site) -> None:
    a, b = site.uplink()
    site.played.pull(a)
    site.run(90)
    found = only(site.firing())
    assert found.kind == "link_down"
    assert {site.words(a), site.words(b)} == set(found.component.removeprefix("link(").removesuffix(")").split(", "))
    assert "node" not in found.labels  # no host: nobody may drain the one that swept
    assert all(not word.startswith("nic(") for word in found.candidates)
    assert found.parts in ((site.words(a),), (site.words(b),), (site.words(a), site.words(b)))
    assert "sweeper" not in {e.component.partition("/")[0] for e in found.evidence}
    assert "sweeper" not in nodes_in(found), "the node that swept has no fault"
    part = site.engine.fleet.find(found.parts[0])
    assert part is not None
    assert (part.node, str(part)) == ("sweeper", found.parts[0])


def test_the_cables_of_a_dead_spine_are_named_by_their_ports(site: Site) -> None:
    spine = next(guid for guid, s in site.played.switches.items() if s.level == 1)
    cut = [at for at in site.played.far if at.node == spine]
    for at in cut:
        site.played.pull(at)
    site.run(150)
    found = only(site.firing())
    ends = {site.words(end) for at in cut for end in (at, site.played.far[at])}
    assert len(found.parts) == found.members.bad
    assert set(found.parts) <= ends


@pytest.mark.parametrize("of_adapter", [True, False])
def test_a_link_narrowed_to_one_lane(site: Site, of_adapter: bool) -> None:
    at = site.leaf_end(row_of(5, 1)) if of_adapter else site.uplink()[0]
    for end in (at, site.played.far[at]):
        site.played.width[end] = 1
    site.run(180)
    found = only(site.firing())
    assert found.kind == "link_degraded"
    for end in (at, site.played.far[at]):
        assert site.words(end) in found.component
    assert any("100 Gb/s over 1 lanes; 400 Gb/s" in e.text for e in found.evidence)


@pytest.mark.parametrize("of_adapter", [True, False])
def test_errors_that_step_up_at_a_switch_port(site: Site, of_adapter: bool) -> None:
    at = site.leaf_end(row_of(5, 1)) if of_adapter else site.uplink()[0]
    for step in range(1, 25):
        site.played.counters[at] = {"symbol_error": 400 * step, "link_error_recovery": step}
        site.run(SWEEP)
    found = only(site.firing())
    assert found.kind == "link_errors"
    for end in (at, site.played.far[at]):
        assert site.words(end) in found.component


def test_a_dead_leaf_is_one_incident_counted_in_links(site: Site) -> None:
    leaf = next(s for s in PLAN.graph.switches.values() if s.labels.get("rail") == "2" and s.labels["unit"] == "su1")
    ports = [at for at in site.played.far if at.node == int(leaf.id, 16)]
    for at in ports:
        site.played.pull(at)
    site.run(150)
    kinds = {(i.kind, i.component): i for i in site.firing()}
    found = kinds.pop(("fault_domain", "leaf(su1/rail2)"))
    adapters = [at for at in ports if site.played.far[at].node in site.played.adapters]
    assert (found.members.bad, found.members.of) == (len(adapters), len(adapters))


def test_all_links_of_one_host(site: Site) -> None:
    rows = [row_of(6, rail) for rail in range(RAILS)]
    for row in rows:
        site.played.pull(site.leaf_end(row))
    site.run(150)
    found = only(site.firing())
    assert found.component == f"host({PLAN.hosts[6]})"
    assert (found.members.bad, found.members.of) == (RAILS, RAILS)


def test_a_switch_that_falls_silent_accuses_nobody(site: Site) -> None:
    site.played.dead.add(next(guid for guid, s in site.played.switches.items() if s.level == 1))
    site.run(150)
    assert [i for i in site.firing() if i.kind not in ("telemetry_quality",)] == []


def test_an_adapter_that_stops_answering_is_reported_with_both_ends_of_its_cable(site: Site) -> None:
    row = row_of(5, 1)
    site.played.dead.add(guid(row))
    site.run(150)
    found = only(site.firing())
    assert found.kind == "telemetry_quality"
    assert found.component == f"link({PLAN.port_name(row)}, {site.words(site.leaf_end(row))})"
    host = PLAN.port_name(row).partition("/")[0]
    assert found.labels.get("node", host) == host, "the end that is on a host, where one is followed"
    assert any("does not answer the sweep" in e.text for e in found.evidence)
    site.played.dead.clear()
    site.run(400)  # a walk finds it again
    assert site.firing() == []


def test_no_nic_is_missing_because_a_sweep_forgot_a_port(site: Site) -> None:
    inventory = site.inventories["sweeper"]
    part = inventory.parts[0]
    fewer = msgspec.structs.replace(part, components=part.components[:-4])
    site.session = _Frozen(fewer)  # type: ignore[assignment]
    site.run(300)
    assert [i for i in site.firing() if i.kind == "nic_fault"] == []


class _Frozen:
    """A sweep that goes on without some of its ports."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def read(self) -> Reading:
        healthy: Mapping[str, float] = {"state": 4, "phys_state": 5, "width": 4, "rate": 50e9}
        row = array("d", [healthy.get(column, 0.0) for column in self._part.columns])
        return Reading((self._part,), row * len(self._part.components), 0.0)


def test_a_plan_that_is_not_what_is_plugged_makes_a_finding() -> None:
    planned, moved = PLAN.graph.cables[0], PLAN.graph.cables[1]
    wrong = msgspec.structs.replace(
        PLAN.graph,
        cables=(cable(planned.a, moved.b), cable(moved.a, planned.b), *PLAN.graph.cables[2:]),
        origins=(Origin("yaml", "plan.yaml", Role.PLAN),),
    )
    site = Site(graph=wrong)
    site.run(40)
    graph = site.engine.topology()
    assert graph is not None
    assert {(c.a, c.b) for c in graph.cables} == {(c.a, c.b) for c in PLAN.graph.cables}  # what is swept is there
    words = " ".join(f"{f.kind} {' '.join(f.components)} {f.why}" for f in graph.findings)
    assert PLAN.graph.describe(planned.a) in words
    assert PLAN.graph.describe(moved.a) in words


def test_the_guid_of_an_adapter_joins_a_host_of_another_name() -> None:
    site = Site(hosts=True)
    site.agents = tuple(f"{name}.example.com" for name in PLAN.hosts)
    site.run(90)
    row = row_of(3, 2)
    site.played.pull(site.leaf_end(row))
    site.run(90)
    found = only(site.firing())
    host, _, rest = PLAN.port_name(row).partition("/")
    assert found.component == f"link({host}.example.com/{rest}, {site.words(site.leaf_end(row))})"
    assert sysfs_guid(guid(row)) == PLAN.labels(row)["node_guid"]
