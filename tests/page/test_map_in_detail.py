"""Where each node, port and switch stands on the map, and the state that it shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fabricmon.central.page.map_layout import CHUNK, MAX_LINES, MAX_SWITCHES, NO_ROW, FabricMap, lay_out_map
from fabricmon.central.page.map_states import STATES, map_states
from fabricmon.fleet.fleet import Fleet
from fabricmon.frame import Frame
from fabricmon.model import (
    Component,
    ComponentId,
    Evidence,
    Identity,
    Incident,
    Inventory,
    Kind,
    Members,
    NodeView,
    Part,
    Presence,
    Severity,
    Symptom,
)
from fabricmon.topology.domains import assign
from fabricmon.topology.graph import Graph, Switch
from tests.page.scenes import incident

NOW = 1_790_000_000.0
PortLabels = dict[str, dict[str, str]]


class Fabric:
    """Nodes with ports of given labels, and the states that they show."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.nodes: list[NodeView] = []
        self.inventories: dict[str, Inventory] = {}

    def node(self, name: str, ports: PortLabels, presence: Presence = Presence.LIVE, **more: Any) -> None:
        components = tuple(
            Component(port, {"device": port.partition("/")[0], **labels}) for port, labels in ports.items()
        )
        part = Part("infiniband", Kind.PORT, ("state", "carrier"), components, 10.0)
        inventory = Inventory(1, Identity(name, "boot", name, "1", 0.0), (part,))
        self.inventories[name] = inventory
        self.fleet.inventory(name, inventory, NOW)
        self.fleet.presence(name, presence, "", NOW)
        self.nodes.append(NodeView(name, presence, "", NOW, **more))
        self.assign()

    def assign(self) -> None:
        table = self.fleet.tables[Kind.PORT]
        table.domains = assign(None, list(zip(table.ids, table.labels, strict=True)), {})

    def read(self, name: str, *states: float, carrier: float = 1.0) -> None:
        values = [value for state in states for value in (state, carrier)]
        frame = Frame(1, 1, NOW, np.array([5.0]), None, np.array(values))
        assert self.fleet.frame(name, frame, NOW)
        self.fleet.advance(NOW)

    def plan(self, graph: Graph | None = None) -> FabricMap:
        return lay_out_map([node.node for node in self.nodes], self.fleet.tables[Kind.PORT], graph)

    def states(
        self, incidents: tuple[Incident, ...] = (), symptoms: tuple[Symptom, ...] = (), graph: Graph | None = None
    ) -> dict[str, list[str]]:
        found = map_states(self.plan(graph), self.fleet, self.nodes, incidents, symptoms, NOW)
        assert found["states"] == STATES
        return {name: [STATES[int(d)] for d in found[name]] for name in ("nodes", "ports", "leaves", "switches")}


def compute(**more: str) -> dict[str, str]:
    return {"role": "compute", **more}


def graph(**hosts: str) -> Graph:
    switches = {
        id: Switch(id, name, level, ports=64, labels=labels)
        for id, name, level, labels in (
            ("1", "leaf-1", 0, {}), ("2", "spine-10", 1, {}), ("3", "spine-9", 1, {}), ("4", "core-1", 2, {}),
            ("5", "top", 3, {}), ("6", "nvswitch", 1, {"network": "nvlink"}), ("7", "loose", None, {}),
        )
    }  # fmt: skip
    return Graph(switches, {}, (), {host: {"unit": unit} for host, unit in hosts.items()}, "test")


def rows(made: FabricMap, fleet: Fleet) -> list[str]:
    ids = fleet.tables[Kind.PORT].ids
    return ["-" if row == NO_ROW else str(ids[row]) for row in made.rows.tolist()]


def test_lines_are_rails_then_ports_by_role_and_cells_stand_below_their_node() -> None:
    fabric = Fabric()
    for name in ("n2", "n10"):
        fabric.node(name, {"mlx5_1/1": compute(), "mlx5_0/1": compute(), "eth9/1": {"role": "storage"}})
    fabric.node("n1", {"mlx5_0/1": compute(), "odd_1/1": compute(), "idle/1": {"role": "idle"},
                       "swept": {"swept": "1"}, "x/1": {}})  # fmt: skip
    made = fabric.plan()
    (unit,) = made.units
    assert (unit.name, unit.nodes) == ("n1 … n10", ["n1", "n2", "n10"])
    named = {line.name: line for line in unit.lines}
    table = fabric.fleet.tables[Kind.PORT]
    for line in unit.lines:
        assert [str(table.ids[row]).partition("/")[0] for row in line.rows if row != NO_ROW] == [
            node for node, row in zip(unit.nodes, line.rows, strict=True) if row != NO_ROW
        ]
    assert list(named) == ["rail 0", "rail 1", "unknown ports"]
    shown = {name for name in rows(made, fabric.fleet) if name != "-"}
    assert "n1/idle/1" not in shown
    assert "n1/swept" not in shown
    assert "n1/x/1" in shown
    assert len(made.rows) == len(unit.lines) * 3
    assert (made.generation[made.rows >= 0] == table.generation[made.rows[made.rows >= 0]]).all()


def test_a_line_has_the_usual_name_of_its_port_and_the_others_by_cell() -> None:
    fabric = Fabric()
    for number in range(3):
        fabric.node(f"n{number}", {"store/1": {"role": "storage"}})
    fabric.node("n3", {"other/1": {"role": "storage"}, "zz/1": {"role": "storage"}})
    (unit,) = fabric.plan().units
    one, two = unit.lines
    assert (one.name, one.port, one.odd, one.leaf) == ("storage ports", "store/1", {3: "other/1"}, "")
    assert (two.name, two.port, two.odd) == ("storage ports", "zz/1", {})
    assert two.rows.tolist()[:3] == [NO_ROW] * 3
    document = fabric.plan().document()
    assert document["units"][0]["lines"][0] == {"name": "storage ports", "leaf": "", "port": "store/1",
                                                "odd": {3: "other/1"}}  # fmt: skip
    assert document["units"][0]["nodes"] == ["n0", "n1", "n2", "n3"]


def test_units_are_those_of_the_topology_and_nodes_without_one_come_last_in_chunks() -> None:
    fabric = Fabric()
    for number in range(CHUNK + 3):
        fabric.node(f"n{number}", {})
    made = fabric.plan(graph(n2="su10", n0="su9", n1="su9"))
    assert [(unit.name, len(unit.nodes)) for unit in made.units] == [
        ("su9", 2), ("su10", 1), (f"n3 … n{CHUNK + 2}", CHUNK),
    ]  # fmt: skip
    assert made.units[0].nodes == ["n0", "n1"]
    assert [unit.name for unit in fabric.plan().units] == ["n0 … n31", "n32 … n34"]
    assert made.nodes == ["n0", "n1", "n2", *(f"n{n}" for n in range(3, CHUNK + 3))]
    one = Fabric()
    one.node("alone", {})
    assert [unit.name for unit in one.plan().units] == ["alone"]
    assert len(one.plan().rows) == 0


def test_tiers_are_the_switches_above_the_leaves_the_highest_first() -> None:
    fabric = Fabric()
    fabric.node("n0", {})
    cores, spines = ("cores", ["core-1"]), ("spines", ["spine-9", "spine-10"])
    assert fabric.plan(graph()).tiers == [("level 3", ["top"]), cores, spines]
    assert fabric.plan().tiers == []
    many = {str(n): Switch(str(n), f"s{n:05d}", 1, ports=64) for n in range(MAX_SWITCHES + 5)}
    (tier,) = fabric.plan(Graph(many, {}, (), {}, "test")).tiers
    assert (len(tier[1]), tier[1][0]) == (MAX_SWITCHES, "s00000")


def test_a_node_with_many_ports_has_no_more_lines_than_fit() -> None:
    fabric = Fabric()
    fabric.node("n0", {f"s{n}/1": {"role": "storage"} for n in range(MAX_LINES + 6)})
    (unit,) = fabric.plan().units
    assert len(unit.lines) == MAX_LINES
    assert unit.lines[0].port == "s0/1"


def four(states: tuple[float, ...] = (4.0, 4.0, 4.0, 4.0)) -> Fabric:
    fabric = Fabric()
    for number in range(2):
        fabric.node(f"n{number}", {"a/1": {"role": "storage"}, "b/1": {"role": "storage"}})
        fabric.read(f"n{number}", *states[2 * number : 2 * number + 2])
    return fabric


def cells(fabric: Fabric, *incidents: Incident, symptoms: tuple[Symptom, ...] = ()) -> dict[str, str]:
    """State by port."""
    made = fabric.plan()
    return dict(zip(rows(made, fabric.fleet), fabric.states(incidents, symptoms)["ports"], strict=True))


def symptom(port: str) -> Symptom:
    return Symptom("link_down", "link_down", ComponentId(Kind.PORT, *port.split("/", 1)), Severity.WARNING, NOW, 1.0,
                   (Evidence("x", "y"),), {})  # fmt: skip


def test_a_port_that_is_read_is_ok_or_off_and_one_that_is_not_is_unknown() -> None:
    found = cells(four((4.0, 1.0, float("nan"), 4.0)))
    assert found == {"n0/a/1": "ok", "n0/b/1": "off", "n1/a/1": "ok", "n1/b/1": "ok"}
    dark = four()
    dark.read("n0", float("nan"), 4.0, carrier=0.0)
    assert cells(dark)["n0/a/1"] == "off"
    assert cells(dark)["n0/b/1"] == "ok"
    silent = four()
    silent.nodes[1] = NodeView("n1", Presence.SLOW, "", NOW)
    assert cells(silent) == {"n0/a/1": "ok", "n0/b/1": "ok", "n1/a/1": "unknown", "n1/b/1": "unknown"}


@pytest.mark.parametrize(
    ("severity", "state"), [(Severity.INFO, "ok"), (Severity.WARNING, "warning"), (Severity.CRITICAL, "critical")]
)
def test_an_incident_colours_its_parts_by_severity(severity: Severity, state: str) -> None:
    made = incident(severity=severity, component="link(n0/a/1)", parts=("n0/a/1", "n9/a/1", "n0/none"))
    assert cells(four(), made) == {"n0/a/1": state, "n0/b/1": "ok", "n1/a/1": "ok", "n1/b/1": "ok"}
    worse = incident(id="2", severity=Severity.CRITICAL, component="x", parts=("n0/a/1",))
    assert cells(four(), worse, made)["n0/a/1"] == cells(four(), made, worse)["n0/a/1"] == "critical"


def test_a_symptom_is_shown_below_an_incident_and_unknown() -> None:
    fabric = four()
    fabric.nodes[1] = NodeView("n1", Presence.SLOW, "", NOW)
    found = cells(fabric, symptoms=(symptom("n0/a/1"), symptom("n1/a/1"), symptom("n9/a/1")))
    assert found == {"n0/a/1": "symptom", "n0/b/1": "ok", "n1/a/1": "unknown", "n1/b/1": "unknown"}


def test_an_incident_of_a_host_names_only_some_and_colours_all_of_it_that_have_a_symptom() -> None:
    made = incident(component="host(n0)", parts=("n0/a/1",), members=Members(2, 2))
    found = cells(four(), made, symptoms=(symptom("n0/b/1"), symptom("n1/b/1")))
    assert found == {"n0/a/1": "warning", "n0/b/1": "warning", "n1/a/1": "ok", "n1/b/1": "symptom"}
    whole = incident(component="host(n0)", parts=("n0/a/1", "n0/b/1"), members=Members(2, 2))
    assert cells(four(), whole, symptoms=(symptom("n1/b/1"),))["n1/b/1"] == "symptom"


def test_nodes_show_presence_maintenance_and_incidents_of_the_host_and_of_what_is_in_it() -> None:
    fabric = four()
    fabric.nodes[1] = NodeView("n1", Presence.LIVE, "", NOW, maintenance="m")
    assert fabric.states()["nodes"] == ["ok", "maintenance"]
    named = (("gpu(n0/gpu1)", ("n0/gpu1",)), ("host(n0)", ()), ("pcie(n0/0000:10)", ()), ("x", ("n0",)))
    for component, parts in named:
        made = incident(component=component, parts=parts, severity=Severity.CRITICAL)
        assert fabric.states((made,))["nodes"] == ["critical", "maintenance"], component
    for component in ("link(n0/a/1)", "leaf(n0)", "host(n9)"):
        assert fabric.states((incident(component=component, parts=("n0/a/1",)),))["nodes"] == ["ok", "maintenance"]


def test_switches_show_the_worst_incident_that_names_them() -> None:
    fabric = four()
    one = incident(component="switch(spine-9)", parts=())
    two = incident(id="2", component="plane(spine-9, core-1)", parts=(), severity=Severity.CRITICAL)
    over = incident(id="3", component="switch(top)", parts=(), status="resolved")
    link = incident(id="4", component="link(n0/a/1, spine-10)", parts=())
    found = fabric.states((one, two, over, link), graph=graph())["switches"]
    assert found == ["none", "critical", "critical", "none"]  # top, core-1, spine-9, spine-10
