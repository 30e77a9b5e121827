"""Far ends of flows of which no agent has reported: placed by the topology, whatever the reporting agent writes."""

from __future__ import annotations

import pytest

from fabricmon.model import ComponentId, Kind, SweptId
from fabricmon.sim import shapes
from fabricmon.sim.layout import Layout
from fabricmon.topology.domains import Assigner
from fabricmon.topology.groups import Domains, Many

GRAPH = shapes.rail_optimised(4, 8, 2, 4, planes=True)
LAYOUT = Layout.from_graph(GRAPH, gpus=1, nvlinks=1, storage=0, power_hosts=8)
NEAR, FAR = LAYOUT.hosts[0], LAYOUT.hosts[9]
PORT = (ComponentId(Kind.PORT, NEAR, "mlx5_0/1"), {"device": "mlx5_0", "port": "1"})


def names(groups: dict[str, Many], domains: Domains, domain: str) -> list[str]:
    """Names of the groups of the first flow."""
    many = groups[domain]
    return [domains.names[domain][group] for group in many.group[many.start[0] : many.start[1]].tolist()]


def placed(peer: str, *more: tuple[ComponentId, dict[str, str]], nodes: tuple[str, ...] = ()) -> dict[str, list[str]]:
    assigner = Assigner(GRAPH, {})
    domains = assigner.assign([PORT, *more])
    flows = [(ComponentId(Kind.FLOW, NEAR, f"mlx5_0/1>{peer}"), {"port": "mlx5_0/1", "peer": peer})]
    groups, _ = assigner.flows(flows, domains, nodes)
    return {domain: names(groups, domains, domain) for domain in ("link", "nic", "host", "leaf")}


def test_a_far_end_without_an_agent_has_its_link_adapter_host_and_leaf() -> None:
    found = placed(f"{FAR}/mlx5_0/1")
    assert found["host"] == [FAR]
    assert f"{FAR}/mlx5_0" in found["nic"]
    assert any(link.startswith(f"{FAR}/mlx5_0/1, ") for link in found["link"])
    assert len(found["leaf"]) == 2


def test_a_host_is_called_as_the_node_that_it_is() -> None:
    name = f"{FAR}.example.com"
    assert placed(f"{name}/mlx5_0/1", nodes=(name,))["host"] == [name]
    assert placed(f"{FAR}/mlx5_0/1", nodes=(name,))["host"] == [name]


def test_a_far_end_that_the_topology_does_not_have_has_no_groups() -> None:
    assert placed("elsewhere/mlx5_0/1")["host"] == []
    assert placed("nonsense")["host"] == []


def test_a_switch_is_no_host() -> None:
    switch = next(iter(GRAPH.switches.values())).name
    assert placed(f"{switch}/anything/1")["host"] == []


def test_names_that_an_agent_makes_up_make_no_groups() -> None:
    assigner = Assigner(GRAPH, {})
    domains = assigner.assign([PORT])
    sizes = set()
    for turn in range(3):
        flows = [
            (ComponentId(Kind.FLOW, NEAR, f"f{n}"), {"port": "mlx5_0/1", "peer": f"{FAR}.x{turn}-{n}/mlx5_0/1"})
            for n in range(200)
        ]
        assigner.flows(flows, domains)
        sizes.add(tuple(len(domains.names[domain]) for domain in ("link", "nic", "host", "leaf")))
    assert len(sizes) == 1
    assert assigner.links_without_rows == 1


@pytest.mark.parametrize("last", [True, False])
def test_a_sweepers_row_of_a_hosts_port_is_not_where_its_flows_begin(last: bool) -> None:
    labels = {"swept": "adapter", "device": f"{NEAR}/mlx5_0", "port": "1", "node_guid": "0x1"}
    swept = SweptId(Kind.PORT, FAR, f"{NEAR}/mlx5_0/1"), labels
    rows = [PORT, swept] if last else [swept, PORT]
    assigner = Assigner(GRAPH, {})
    domains = assigner.assign(rows)
    flows = [(ComponentId(Kind.FLOW, NEAR, "f"), {"port": "mlx5_0/1", "peer": f"{FAR}/mlx5_0/1"})]
    _, near = assigner.flows(flows, domains)
    assert near.tolist() == [rows.index(PORT)]
