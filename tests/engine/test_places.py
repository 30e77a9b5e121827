"""Labels for where an incident is follow from its component and the topology."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricmon.engine.incidents.places import place_of
from fabricmon.fleet.table import Table
from fabricmon.model import Kind
from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage

RAIL, LEAF = "su0/1", "su0/rail1"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    made = Stage(Path(tmp_path_factory.mktemp("stage")), 16, past=60)
    made.then = {50.0: [FAULTS["link_down"](made.layout, made.layout.port_name(9))]}
    made.live_through()
    return made


@pytest.mark.parametrize(("component", "labels"), [
    ("link(host-001/mlx5_1/1, su0-rail1-leaf/2)", {"node": "host-001", "device": "mlx5_1", "rail": RAIL, "leaf": LEAF}),
    ("nic(host-001/mlx5_1)", {"node": "host-001", "device": "mlx5_1", "rail": RAIL, "leaf": LEAF}),
    ("gpu(host-001/GPU-7)", {"node": "host-001", "device": "GPU-7"}),
    ("link(host-001/mlx5_99/1)", {"node": "host-001", "device": "mlx5_99"}),
    ("host(host-001)", {"node": "host-001"}),
    (f"leaf({LEAF})", {"leaf": LEAF, "rail": RAIL}),
    (f"rail({RAIL})", {"rail": RAIL, "leaf": LEAF}),
    ("leaf(su9/rail9)", {"leaf": "su9/rail9"}),
    ("link(su0-rail1-leaf/33, spine-1/4)", {}),
    ("link(host-001/mlx5_1/1, su0-rail1-leaf/2, host-002/mlx5_1/1, su0-rail1-leaf/3)", {}),  # one of the two
    ("host(host-099)", {}),
    ("power(rack-2)", {}),
    ("3 separate faults", {}),
])  # fmt: skip
def test_a_component_has_the_labels_of_its_place(stage: Stage, component: str, labels: dict[str, str]) -> None:
    fleet = stage.central.engine.fleet
    assert place_of(component, fleet.tables[Kind.PORT], fleet.nodes) == labels


def test_without_a_topology_a_port_has_its_node_and_device(stage: Stage) -> None:
    ports: Table = stage.central.engine.fleet.tables[Kind.PORT]
    before, ports.domains = ports.domains, None
    try:
        assert place_of("link(host-001/mlx5_1/1)", ports, {"host-001"}) == {"node": "host-001", "device": "mlx5_1"}
    finally:
        ports.domains = before


def test_an_incident_has_them(stage: Stage) -> None:
    (incident,) = (i for i in stage.central.engine.incidents() if i.kind == "link_down")
    assert incident.labels["rail"] == RAIL
    assert incident.labels["leaf"] == LEAF
    assert (incident.labels["node"], incident.labels["device"]) == ("host-001", "mlx5_1")
