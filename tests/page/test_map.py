"""The map: its layout, and that a component without data is never shown as OK."""

import json

import numpy as np
import pytest

from fabricmon.central.page.map_layout import lay_out_map
from fabricmon.central.page.map_states import STATES, map_states
from fabricmon.engine.engine import Engine
from fabricmon.forms.natural import natural
from fabricmon.model import Kind, Members, Presence, Severity
from fabricmon.rules.rule import Scope
from fabricmon.sim.inlet import BulkInlet
from fabricmon.sim.layout import Layout
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sim.world import World
from tests.page.scenes import incident

NOW = 1_790_000_000.0


class Lab:
    """An engine that has seen a small fabric."""

    def __init__(self, nodes=16, graph=True):
        self.layout = Layout.from_graph(rail_fabric(nodes=nodes, unit=8), storage=0)
        self.world = World(self.layout, 1, 10.0)
        self.engine = Engine(Scope.FLEET, self.layout.graph if graph else None)
        self.inlet, self.now = BulkInlet(self.world), NOW
        self.poll()

    def poll(self, polls=2):
        for _ in range(polls):
            self.now += 10.0
            self.world.advance(self.world.now + 10.0)
            self.inlet.poll(self.engine, self.now)
            self.engine.tick(self.now)

    def plan(self):
        return lay_out_map(list(self.engine.fleet.nodes), self.engine.fleet.tables[Kind.PORT], self.engine.topology())

    def health(self, incidents=(), made=None):
        made = made or self.plan()
        found = map_states(made, self.engine.fleet, self.engine.nodes(), incidents, self.engine.symptoms(), self.now)
        return {name: [STATES[int(d)] for d in found[name]] for name in ("nodes", "ports", "leaves", "switches")}

    def state(self, found, node, rail):
        """The state of one node's port on a rail."""
        at = 0
        for unit in self.plan().units:
            for line in unit.lines:
                if node in unit.nodes and line.name == f"rail {rail}":
                    return found["ports"][at + unit.nodes.index(node)]
                at += len(unit.nodes)
        raise KeyError(node)


@pytest.fixture(scope="module")
def lab():
    return Lab()


def test_units_rails_and_leaves_are_those_of_the_topology(lab):
    made = lab.plan()
    assert [unit.name for unit in made.units] == ["su0", "su1"]
    assert [line.name for line in made.units[0].lines] == [f"rail {n}" for n in range(8)]
    assert made.units[1].lines[3].leaf == "su1/rail3"
    assert made.units[0].lines[2].port == "mlx5_2/1"
    assert made.units[0].nodes == [f"host-{n:03d}" for n in range(8)]
    assert [name for name, _ in made.tiers] == ["spines"]
    assert len(made.rows) == 128
    assert (made.rows >= 0).all()
    assert set(map(int, made.rows)) == set(range(128))


def test_without_a_topology_nodes_are_in_the_order_of_their_names():
    lab = Lab(graph=False)
    made = lab.plan()
    assert [unit.name for unit in made.units] == ["host-000 … host-015"]
    assert [line.name for line in made.units[0].lines] == [f"rail {n}" for n in range(8)]
    assert set(lab.health()["leaves"]) == {"none"}


def test_a_healthy_fabric_is_ok_and_parts_without_data_are_not(lab):
    found = lab.health()
    assert set(found["nodes"]) == set(found["ports"]) == set(found["leaves"]) == {"ok"}
    assert set(found["switches"]) == {"none"}


@pytest.mark.parametrize("presence", [p for p in Presence if p is not Presence.LIVE])
def test_what_is_not_seen_is_unknown(presence):
    lab = Lab()
    lab.engine.presence("host-003", presence, "", lab.now)
    found = lab.health()
    assert found["nodes"].count("unknown") == 1
    assert found["ports"].count("unknown") == 8
    assert {lab.state(found, "host-003", rail) for rail in range(8)} == {"unknown"}


def test_old_readings_are_unknown_although_the_agent_counts_as_live():
    lab = Lab()
    lab.now += 3600.0
    assert set(lab.health()["ports"]) == {"unknown"}
    assert set(lab.health()["leaves"]) == {"unknown"}


def test_a_node_that_was_expected_and_never_seen_is_on_the_map():
    lab = Lab()
    lab.engine.presence("host-099", Presence.NEVER, "not connected yet", lab.now)
    assert "host-099" in lab.plan().nodes
    assert lab.health()["nodes"].count("unknown") == 1


def test_an_incident_colours_what_it_names(lab):
    found = lab.health([incident(parts=("host-005/mlx5_3/1",), component="link(host-005/mlx5_3/1, x/1)")])
    assert lab.state(found, "host-005", 3) == "warning"
    assert found["ports"].count("warning") == 1
    assert set(found["nodes"]) == {"ok"}
    resolved = lab.health([incident(parts=("host-005/mlx5_3/1",), status="resolved")])
    assert "warning" not in resolved["ports"]


def test_a_leaf_that_is_down_is_shown_with_its_ports(lab):
    parts = tuple(f"host-{n:03d}/mlx5_2/1" for n in range(8))
    made = incident(severity=Severity.CRITICAL, component="leaf(su0/rail2)", parts=parts, members=Members(8, 8))
    found = lab.health([made])
    assert found["leaves"].index("critical") == 2
    assert found["leaves"].count("critical") == 1
    assert found["ports"].count("critical") == 8


def test_a_crashed_host_is_critical_not_unknown():
    lab = Lab()
    lab.engine.presence("host-002", Presence.UNREACHABLE, "", lab.now)
    made = incident(severity=Severity.CRITICAL, component="host(host-002)", parts=("host-002",), members=Members(1, 1))
    found = lab.health([made])
    assert found["nodes"].count("critical") == 1
    assert lab.state(found, "host-002", 0) == "unknown"


def test_a_plan_that_is_behind_shows_no_other_port_in_a_cell():
    lab = Lab()
    made = lab.plan()
    lab.engine.forget("host-003", lab.now)
    found = lab.health(made=made)
    assert found["ports"].count("unknown") == 8
    assert found["nodes"].count("unknown") == 1


def test_names_with_numbers_stand_in_the_order_of_the_numbers():
    assert sorted(["host-10", "host-9", "host-1b", "a"], key=natural) == ["a", "host-1b", "host-9", "host-10"]


def test_the_map_of_ten_thousand_nodes_is_small(lab):
    few, many = lab.plan(), Lab(nodes=128).plan()
    assert many.rows.dtype == np.int32
    more = len(json.dumps(many.document())) - len(json.dumps(few.document()))
    assert more / (128 - 16) < 120  # bytes a node; one has eight ports
