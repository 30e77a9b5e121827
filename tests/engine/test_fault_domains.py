"""Which fault domains a row is in, however topology and node name things."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from fabricmon.model import ComponentId, Kind
from fabricmon.topology.domains import Assigner, assign
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.topology.groups import Domains
from fabricmon.topology.swept import graph_of

LEAF = "0x000000000000aa01"


def row(host: str, name: str, **labels: str) -> tuple[ComponentId, dict[str, str]]:
    device, _, port = name.partition("/")
    facts = {"device": device} | ({"port": port} if port else {}) | labels
    return ComponentId(Kind.PORT, host, name), facts


def graph(*adapters: Adapter, labels: dict[str, str] | None = None) -> Graph:
    switch = Switch(LEAF, "leaf-3", 0, labels=labels or {})
    cables = tuple(cable(End(a.id, 1), End(LEAF, 10 + n)) for n, a in enumerate(adapters))
    return Graph({LEAF: switch}, {a.id: a for a in adapters}, cables)


def name(domains: Domains, domain: str, at: int) -> str | None:
    id = int(domains.ids[domain][at])
    return None if id < 0 else domains.names[domain][id]


def test_a_guid_joins_a_port_with_its_cable_whatever_it_is_called() -> None:
    known = graph(Adapter("0x0000000000bb0011", "", ""))
    found = assign(known, [row("host-1", "ibp12s0/1", node_guid="0000:0000:00bb:0011")], {})
    assert name(found, "link", 0) == "host-1/ibp12s0/1, leaf-3/10"
    assert name(found, "leaf", 0) == "leaf-3"
    assert found.about["leaf"][0] == {"switch": "leaf-3", "guid": LEAF, "ports": "1"}


def test_without_a_guid_host_and_device_name_join_them() -> None:
    known = graph(Adapter("0x1", "host-1", "mlx5_3"), Adapter("0x2", "host-2", "mlx5_3"))
    found = assign(known, [row("host-2.cluster.example", "mlx5_3/1")], {})
    assert name(found, "link", 0) == "host-2.cluster.example/mlx5_3/1, leaf-3/11"


def test_hca_n_counts_from_one_and_mlx5_n_from_zero() -> None:
    known = graph(Adapter("0x1", "host-1", "HCA-1"), Adapter("0x2", "host-1", "HCA-2"))
    found = assign(known, [row("host-1", "mlx5_0/1"), row("host-1", "mlx5_1/1")], {})
    assert [name(found, "link", n) for n in (0, 1)] == ["host-1/mlx5_0/1, leaf-3/10", "host-1/mlx5_1/1, leaf-3/11"]


def test_a_host_that_no_cable_places_is_below_the_switch_a_scheduler_names() -> None:
    cabled = graph(Adapter("0x1", "host-1", "mlx5_0"))
    rack = Switch("s7", "s7", 0)
    both = Graph(
        {**cabled.switches, "s7": rack}, cabled.adapters, cabled.cables,
        attached={"host-1": ("s7",), "host-2": ("s7", LEAF), "host-3": ("nowhere",)},
    )  # fmt: skip
    rows = [
        row("host-1", "mlx5_0/1", role="compute"),
        row("host-2.cluster.example", "mlx5_0/1", role="compute"),
        row("host-2.cluster.example", "mlx5_1/1"),
        row("host-2.cluster.example", "mlx5_9/1", role="storage"),
        row("host-2.cluster.example", "eth0"),
        row("host-3", "mlx5_0/1"),
        row("host-4", "mlx5_0/1"),
    ]
    found = assign(both, rows, {})
    assert [name(found, "leaf", n) for n in range(len(rows))] == ["leaf-3", "s7", "s7", None, None, None, None]
    assert found.about["leaf"][1] == {"switch": "s7", "guid": "s7"}
    assert name(found, "rail", 1) == "0", "which rail it is, the switch does not tell"


def test_a_lid_joins_nothing() -> None:
    known = graph(Adapter("0x1", "", ""))
    found = assign(known, [row("host-1", "mlx5_0/1", lid="10")], {})
    assert name(found, "leaf", 0) is None
    assert name(found, "link", 0) == "host-1/mlx5_0/1"


def test_a_leaf_of_a_rail_optimised_unit_is_named_by_unit_and_rail() -> None:
    switches = {f"0x{n}": Switch(f"0x{n}", f"sw{n}", 0, labels={"unit": "su1", "rail": str(n)}) for n in (1, 2)}
    adapters = {f"0xb{n}": Adapter(f"0xb{n}", "host-1", f"mlx5_{n}") for n in (1, 2)}
    known = Graph(switches, adapters, tuple(cable(End(f"0xb{n}", 1), End(f"0x{n}", 7)) for n in (1, 2)))
    found = assign(known, [row("host-1", "mlx5_1/1"), row("host-1", "mlx5_2/1")], {})
    assert [name(found, "leaf", n) for n in (0, 1)] == ["su1/rail1", "su1/rail2"]
    assert [name(found, "rail", n) for n in (0, 1)] == ["su1/1", "su1/2"]


def test_without_a_topology_a_rail_is_the_adapters_place_among_its_role() -> None:
    rows = [
        row(host, f"mlx5_{n}/1", role="storage" if n == 1 else "compute")
        for host in ("host-1", "host-2")
        for n in (0, 1, 3, 4)
    ]
    found = assign(None, rows, {"host-1": "rack-1"})
    assert [name(found, "rail", n) for n in range(4)] == ["0", "storage/0", "1", "2"]
    assert name(found, "leaf", 0) is None
    assert [name(found, "power", n) for n in (0, 4)] == ["rack-1", None]


def test_a_missing_adapter_does_not_shift_the_rails_of_its_host() -> None:
    rows = [row(f"host-{h}", f"mlx5_{n}/1") for h in range(4) for n in range(4) if (h, n) != (2, 1)]
    found = assign(None, rows, {})
    at = [c for c, _ in rows].index(ComponentId(Kind.PORT, "host-2", "mlx5_2/1"))
    assert name(found, "rail", at) == "2"


def test_a_device_without_a_port_is_in_no_link_and_an_interface_is() -> None:
    found = assign(None, [row("h", "mlx5_0"), (ComponentId(Kind.PORT, "h", "eth0"), {"netdev": "eth0"})], {})
    assert [name(found, "link", n) for n in (0, 1)] == [None, "h/eth0"]


@pytest.mark.parametrize("odd", ["²", "①", "٣", "-1", "1 ", ""])
def test_an_odd_port_of_one_agent_costs_the_other_rows_nothing(odd: str) -> None:
    known = graph(Adapter("0x0000000000bb0011", "host-1", "mlx5_0"), Adapter("0x0000000000bb0012", "host-2", "mlx5_0"))
    strange = row("host-1", "mlx5_0", port=odd, node_guid="0x0000000000bb0011")
    told = row("host-1", "leaf-3/1", port=odd, ports=odd, remote_port=odd, swept="switch", node_guid=LEAF,
               remote_guid="0x0000000000bb0011")  # fmt: skip
    found = assign(known, [strange, told, row("host-2", "mlx5_0/1")], {})
    assert name(found, "link", 2) == "host-2/mlx5_0/1, leaf-3/11"
    assert graph_of([strange, told]) is not None


def test_a_change_of_some_rows_gives_what_a_new_assignment_of_all_would() -> None:
    known = graph(Adapter("0x1", "host-1", "mlx5_0"), Adapter("0x2", "host-2", "mlx5_0"))
    rows = [row("host-1", "mlx5_0/1"), row("host-2", "mlx5_0/1"), row("host-3", "mlx5_0/1")]
    assigner = Assigner(known, {"host-2": "rack-1"})
    assigner.assign(rows)
    rows[0] = (ComponentId(Kind.PORT, "", ""), {})
    rows[2] = row("host-3", "mlx5_0/1", node_guid="0000:0000:0000:0001")
    rows.append(row("host-4", "mlx5_1/1", role="storage"))
    step, anew = assigner.assign(rows), assign(known, rows, {"host-2": "rack-1"})
    for domain in step.ids:
        assert [name(step, domain, n) for n in range(4)] == [name(anew, domain, n) for n in range(4)]


def test_a_free_row_is_in_no_group() -> None:
    found = assign(None, [(ComponentId(Kind.PORT, "", ""), {}), row("h", "mlx5_0/1")], {})
    assert all(found.ids[domain][0] == -1 for domain in found.ids)


def test_every_named_adapter_of_a_real_fabric_finds_its_leaf() -> None:
    shared = Path(os.environ.get("FABRICMON_SHARED", Path(__file__).parents[3] / "shared"))
    dump = shared / "captures/fabric/ibnetdiscover/ndr-rail-example.txt"
    if not dump.exists():
        pytest.skip(f"{dump} is not here")
    from fabricmon.sources import load

    known = load(str(dump))
    named = [a for a in known.adapters.values() if a.host and a.name]
    rows = [row(a.host, f"{a.name}/1", node_guid=a.id) for a in named]
    found = assign(known, rows, {})
    assert len(named) > 100
    assert (found.ids["leaf"] >= 0).all()
    per_leaf = Counter(found.ids["leaf"].tolist())
    assert max(per_leaf.values()) <= 40
    assert len(set(found.names["leaf"])) == len(found.names["leaf"])
