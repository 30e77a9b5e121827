"""Hosts of one NVLink domain are of one rack where no map states racks."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from fabricmon.engine.domains.nvlink_racks import nvlink_places, racks
from fabricmon.engine.domains.placing import Placing
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import Component, ComponentId, Identity, Inventory, Kind, Part
from fabricmon.topology.graph import Graph

HOSTS = ("h0", "h1", "h2", "h3", "h4", "h5")
LABELS = st.fixed_dictionaries(
    {}, optional={"cluster": st.sampled_from(["", "A", "B"]), "chassis": st.sampled_from(["", "x", "y"])}
)
GPUS = st.lists(st.tuples(st.sampled_from(HOSTS), LABELS), max_size=24)


@example(
    [("h0", {"cluster": "B", "chassis": "x"}), ("h0", {"cluster": "B", "chassis": "y"}),
     ("h1", {"cluster": "B"}), ("h2", {"cluster": "B"})],
    {"h0"},
)  # fmt: skip
@given(GPUS, st.sets(st.sampled_from(HOSTS)))
def test_hosts_of_one_rack_report_one_cluster_and_no_two_chassis(
    gpus: list[tuple[str, dict[str, str]]], stated: set[str]
) -> None:
    rows = [(ComponentId(Kind.GPU, host, f"gpu{at}"), labels) for at, (host, labels) in enumerate(gpus)]
    found = racks(nvlink_places(rows), stated)
    reported = [(host, labels) for host, labels in gpus if labels.get("cluster")]
    clusters = {host: {labels["cluster"] for other, labels in reported if other == host} for host in HOSTS}
    assert all(len(clusters[host]) == 1 for host in found)
    for rack in set(found.values()):
        mine = {host for host in found if found[host] == rack}
        shown = [labels for host, labels in reported if host in mine]
        assert len({labels["cluster"] for labels in shown}) == 1
        assert len({labels["chassis"] for labels in shown if labels.get("chassis")}) <= 1
    chassis = {host: {labels["chassis"] for other, labels in reported if other == host and labels.get("chassis")}
               for host in HOSTS}  # fmt: skip
    assert all(len(chassis[host]) <= 1 for host in found), "a host whose GPUs contradict each other is in no domain"
    for host in found:
        whole = {other for other in HOSTS if clusters[other] == clusters[host] and len(chassis[other]) <= 1}
        assert len(whole) > 1
        assert not stated & whole


def placed(graph: Graph | None, hosts: int, cluster: str) -> dict[str, str]:
    """Rack of each host by its place, "" none."""
    fleet = Fleet()
    for number in range(hosts):
        labels = {"cluster": cluster, "clique": "1", "chassis": f"{cluster}-sn"} if cluster else {}
        parts = (
            Part("gpu", Kind.GPU, ("a",), tuple(Component(f"gpu{gpu}", labels) for gpu in range(4)), 10.0),
            Part("inventory", Kind.NODE, ("b",), (Component(""),), 10.0),
        )
        fleet.inventory(f"h{number}", Inventory(1, Identity(f"h{number}", "b", "a", "0", 1.0), parts), 10.0)
    placing = Placing(fleet, graph, True)
    placing.place(20.0, {})
    assert placing.domains is not None
    ids, nodes = placing.domains.by_table[Kind.NODE].ids["rack"], fleet.tables[Kind.NODE].ids
    names = placing.domains.names["rack"]
    return {nodes[row].node: names[at] if at >= 0 else "" for row, at in enumerate(ids.tolist())}


def test_without_a_map_its_hosts_are_one_rack() -> None:
    assert set(placed(None, 18, "A").values()) == {"NVLink domain A"}


def test_hosts_without_a_domain_and_a_host_that_is_all_of_its_domain_are_in_no_rack() -> None:
    assert set(placed(None, 18, "").values()) == {""}
    assert set(placed(None, 1, "A").values()) == {""}


def test_racks_that_a_map_states_for_a_domain_are_its_racks() -> None:
    stated = {f"h{number}": {"rack": f"r{number // 2}"} for number in range(4)}
    found = placed(Graph({}, {}, (), stated), 5, "A")
    assert found == {"h0": "r0", "h1": "r0", "h2": "r1", "h3": "r1", "h4": ""}
