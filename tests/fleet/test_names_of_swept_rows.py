"""What an incident names, and which row that is: a host's own port, or a port elsewhere that a node sweeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fabricmon.engine.incidents.claim_lookup import ClaimLookup
from fabricmon.engine.incidents.restored import PartState
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.tracks import FlowTracks
from fabricmon.model import (
    Component,
    ComponentId,
    Identity,
    Inventory,
    Kind,
    Part,
    Presence,
    SweptId,
    row_id,
    rows_by_name,
)

PORT = ("leaf-3/12",)


def inventory(number: int, node: str, *components: Component, kind: Kind = Kind.PORT) -> Inventory:
    identity = Identity(node, "boot", f"agent-{node}", "1", 1.0)
    return Inventory(number, identity, (Part("fabric", kind, ("state",), components, 30.0),))


def swept(name: str) -> Component:
    device, _, port = name.rpartition("/")
    return Component(name, {"swept": "switch", "device": device, "port": port, "node_guid": "0x1"})


def own(name: str) -> Component:
    return Component(name, {"device": name.partition("/")[0], "port": "1"})


def fleet_of(**nodes: tuple[Component, ...]) -> Fleet:
    fleet = Fleet()
    fleet.expected_from = 0.0
    for number, (node, components) in enumerate(nodes.items(), 1):
        fleet.inventory(node.replace("_", "-"), inventory(number, node.replace("_", "-"), *components), float(number))
    return fleet


def lookup(fleet: Fleet, healthy: Any = lambda *_: True) -> ClaimLookup:
    return ClaimLookup(fleet, SimpleNamespace(healthy=healthy), SimpleNamespace(domains=None))  # type: ignore[arg-type]


def test_a_swept_row_is_named_by_the_port_and_found_by_it() -> None:
    fleet = fleet_of(host_a=(swept("leaf-3/12"), own("mlx5_0/1")))
    found = fleet.find("leaf-3/12")
    assert found == ComponentId(Kind.PORT, "host-a", "leaf-3/12")
    assert (str(found), hash(found)) == ("leaf-3/12", hash(ComponentId(Kind.PORT, "host-a", "leaf-3/12")))
    assert fleet.find("host-a/leaf-3/12") == found, "as an earlier release wrote it"
    assert fleet.find("leaf-3/12, spine-1/4") == found
    assert str(fleet.find("host-a/mlx5_0/1")) == "host-a/mlx5_0/1"
    assert fleet.find("leaf-3/13") is None


def test_of_two_sweepers_the_one_that_still_reads_the_port_is_found() -> None:
    fleet = fleet_of(host_a=(swept("leaf-3/12"),), host_b=(swept("leaf-3/12"),))
    fleet.inventory("host-a", inventory(9, "host-a", own("mlx5_0/1")), 9.0)
    found = fleet.find("leaf-3/12")
    assert found is not None
    assert found.node == "host-b"
    fleet.forget("host-b")
    found = fleet.find("leaf-3/12")
    assert found is not None
    assert found.node == "host-a", "the record of the former one"
    fleet.forget("host-a")
    assert fleet.find("leaf-3/12") is None


def test_a_name_with_a_comma_and_a_label_that_comes_later() -> None:
    fleet = fleet_of(host_a=(swept("Leaf 3, rack 2/12"), Component("leaf-9/1", {"device": "leaf-9", "port": "1"})))
    assert fleet.find("Leaf 3, rack 2/12") is not None
    assert fleet.find("leaf-9/1") is None
    fleet.inventory("host-a", inventory(9, "host-a", swept("leaf-9/1")), 9.0)
    assert str(fleet.find("leaf-9/1")) == "leaf-9/1"


def test_no_sweeper_takes_the_name_of_what_a_host_has() -> None:
    fleet = fleet_of(host_b=(swept("host-a/mlx5_0/1"), swept("host-a/gpu0")), host_a=(own("mlx5_0/1"),))
    fleet.inventory("host-c", inventory(7, "host-c", Component("host-a/gpu0", {"swept": "gpu"}), kind=Kind.GPU), 7.0)
    parts = [("fabric", Kind.PORT, own("mlx5_0/1")), ("gpu", Kind.GPU, Component("gpu0", {}))]
    mine = tuple(Part(name, kind, ("state",), (component,), 30.0) for name, kind, component in parts)
    fleet.inventory("host-a", Inventory(8, Identity("host-a", "boot", "agent-host-a", "1", 1.0), mine), 8.0)
    port, gpu = fleet.find("host-a/mlx5_0/1"), fleet.find("host-a/gpu0")
    assert port is not None
    assert gpu is not None
    assert (port.node, gpu.node, gpu.kind) == ("host-a", "host-a", Kind.GPU)
    assert str(row_id(Kind.GPU, "host-c", "host-a/gpu0", {"swept": "gpu"})) == "host-c/host-a/gpu0"


@pytest.mark.parametrize("order", [1, -1])
def test_by_name_a_hosts_own_row_comes_first(order: int) -> None:
    ids = [SweptId(Kind.PORT, "sweeper", "host-a/mlx5_0/1"), ComponentId(Kind.PORT, "host-a", "mlx5_0/1")][::order]
    row = rows_by_name(ids)["host-a/mlx5_0/1"]
    assert ids[row].node == "host-a"


def test_a_port_elsewhere_is_awaited_while_a_node_may_yet_sweep_it() -> None:
    fleet = Fleet()
    fleet.expected_from = 0.0
    fleet.presence("host-a", Presence.NEVER, "", 0.0)
    assert lookup(fleet).part_state(*PORT, "link_down", 0.0, 3_600.0) is PartState.UNCONFIRMED
    fleet.inventory("host-a", inventory(1, "host-a", own("mlx5_0/1")), 3_600.0)
    assert lookup(fleet).part_state(*PORT, "link_down", 0.0, 3_700.0) is PartState.UNCONFIRMED, "no sweep yet"
    assert lookup(fleet).part_state(*PORT, "link_down", 0.0, 4_300.0) is PartState.LEFT, "it sweeps nothing"
    fleet.presence("host-b", Presence.NEVER, "", 4_300.0)
    assert lookup(fleet).part_state(*PORT, "link_down", 0.0, 8 * 86_400.0) is PartState.LEFT, "after a week"
    fleet.inventory("host-b", inventory(1, "host-b", swept("leaf-3/12")), 4_400.0)
    assert lookup(fleet).part_state(*PORT, "link_down", 0.0, 4_400.0) is PartState.HEALTHY
    assert lookup(fleet, lambda *_: False).part_state(*PORT, "link_down", 0.0, 4_400.0) is PartState.UNCONFIRMED


def test_a_sweep_of_the_hosts_does_not_take_their_probes_over() -> None:
    fleet, hosts = Fleet(), [f"host-{n}" for n in range(4)]
    counted = ("state", "rdma_tx_packets")
    for number, host in enumerate(hosts, 1):
        others = [other for other in hosts if other != host]
        flows = [Component(f"mlx5_0/1>{o}", {"port": "mlx5_0/1", "peer": f"{o}/mlx5_0/1"}) for o in others]
        parts = (Part("roce", Kind.PORT, counted, (own("mlx5_0/1"),), 10.0),
                 Part("probe", Kind.FLOW, ("flow_packets", "flow_lost", "flow_rtt"), tuple(flows), 10.0))  # fmt: skip
        fleet.inventory(host, Inventory(number, Identity(host, "boot", f"agent-{host}", "1", 1.0), parts), 1.0)
    fleet.inventory("sweeper", inventory(9, "sweeper", *(swept(f"{host}/mlx5_0/1") for host in hosts)), 2.0)
    flows, ports = fleet.tables[Kind.FLOW], fleet.tables[Kind.PORT]
    assert isinstance(flows.tracks, FlowTracks)
    ends = flows.tracks.probes.ends(flows, ports)
    assert {ports.ids[row].node for row in (*ends.near.tolist(), *ends.far.tolist())} == set(hosts)


@pytest.mark.parametrize("first", [True, False])
def test_what_a_host_under_maintenance_sweeps_is_not_and_does_not_boot_with_it(first: bool) -> None:
    components = swept("leaf-3/12"), own("mlx5_0/1")
    fleet = fleet_of() if first else fleet_of(host_a=components)
    fleet.maintain(["host-a"])
    fleet.inventory("host-a", inventory(2, "host-a", *components), 2.0)
    again = inventory(3, "host-a", *components)
    identity = msgspec.structs.replace(again.identity, boot_id="another boot")
    fleet.inventory("host-a", msgspec.structs.replace(again, identity=identity), 3.0)
    ports = fleet.tables[Kind.PORT]
    rows = {name: row for row, one in enumerate(ports.ids) if (name := one.name)}
    assert [bool(ports.quiet[rows[name]]) for name in ("leaf-3/12", "mlx5_0/1")] == [False, True]
    assert ports.begun[rows["mlx5_0/1"]] == 3.0
    assert ports.begun[rows["leaf-3/12"]] != 3.0
