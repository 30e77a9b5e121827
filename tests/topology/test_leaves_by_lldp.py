"""Leaves that only LLDP names: who is one, which ports are below it, and what is not concluded."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.model import ComponentId, Kind
from fabricmon.topology.domains import Assigner, Labels, assign
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.topology.groups import Domains
from fabricmon.topology.infer import annotate
from fabricmon.topology.lldp_switches import MOST_TEXT, LldpSwitches

Row = tuple[ComponentId, Labels]
FREE: Row = (ComponentId(Kind.PORT, "", ""), {})


def port(node: str, name: str, chassis: str = "", switch_port: str = "", id: str = "", **labels: str) -> Row:
    named = {"lldp_chassis": chassis, "lldp_chassis_id": id or chassis, "lldp_port": switch_port}
    known = {"netdev": name, **labels, **{label: value for label, value in named.items() if value}}
    return ComponentId(Kind.PORT, node, name), known


def leaf(found: Domains, row: int) -> str:
    return found.name("leaf", row)


def below(found: Domains, rows: Sequence[Row]) -> dict[str, set[str]]:
    """Leaf -> its ports."""
    groups: dict[str, set[str]] = defaultdict(set)
    for row, (component, _) in enumerate(rows):
        if name := leaf(found, row):
            groups[name].add(str(component))
    return dict(groups)


def planned(*hosts: str) -> Graph:
    """eth0 of some hosts on leaf-1, which has a spine."""
    adapters = {f"{host}/eth0": Adapter(f"{host}/eth0", host, "eth0") for host in hosts}
    cables = [cable(End(f"{host}/eth0", 1), End("leaf-1", at + 1)) for at, host in enumerate(hosts)]
    up = cable(End("leaf-1", 99), End("spine-1", 1))
    switches = {name: Switch(name, name) for name in ("leaf-1", "spine-1")}
    return annotate(Graph(switches, adapters, (*cables, up)))


CHASSIS = ("leaf-1", "leaf-2", "host-1", "")
NAMED = st.builds(
    port, st.sampled_from(("host-1", "host-2", "host-3")), st.sampled_from(("eth0", "eth1")),
    st.sampled_from(CHASSIS), st.sampled_from(("swp1", "")),
)  # fmt: skip


@given(st.lists(NAMED, max_size=12, unique_by=lambda row: row[0]), st.randoms(use_true_random=False))
def test_the_groups_do_not_depend_on_the_order_of_the_inventories(rows: list[Row], order: random.Random) -> None:
    shuffled = order.sample(rows, len(rows))
    one, other = assign(None, rows, {}), assign(None, shuffled, {})
    assert below(one, rows) == below(other, shuffled)
    by_row = {rows[at][0]: one.name("link", at) for at in range(len(rows))}
    assert by_row == {shuffled[at][0]: other.name("link", at) for at in range(len(rows))}


@given(st.lists(NAMED, min_size=1, max_size=8), st.integers(0, 3))
def test_step_by_step_is_as_at_once_and_a_port_without_lldp_stays_where_it_was(
    named: list[Row], forgotten: int
) -> None:
    places = {component: at for at, component in enumerate(dict.fromkeys(component for component, _ in named))}
    rows, last = [FREE] * len(places), [FREE] * len(places)
    assigner = Assigner(None, {})
    for component, labels in named:
        at = places[component]
        rows[at] = component, labels
        last[at] = rows[at] if "lldp_chassis" in labels or last[at] is FREE else last[at]
        found = assigner.assign(rows)
    assert below(found, rows) == below(assign(None, last, {}), last)
    node = f"host-{forgotten}"
    rows = [FREE if component.node == node else (component, labels) for component, labels in rows]
    last = [FREE if component.node == node else (component, labels) for component, labels in last]
    assert below(assigner.assign(rows), rows) == below(assign(None, last, {}), last)


def test_a_leaf_has_the_name_of_its_chassis_and_its_links_both_ends() -> None:
    rows = [port(f"host-{n}", "eth0", "leaf-1", f"swp{n}", "02:00:00:00:00:0A") for n in (1, 2)]
    found = assign(None, rows, {})
    assert [leaf(found, 0), leaf(found, 1)] == ["leaf-1", "leaf-1"]
    assert found.about["leaf"] == [{"switch": "leaf-1", "guid": "02:00:00:00:00:0a", "ports": "2"}]
    assert found.name("link", 0) == "host-1/eth0, leaf-1/swp1"


def test_both_legs_of_a_bond_are_on_their_own_leaves() -> None:
    rows = [port(f"host-{h}", f"eth{leg}", f"tor-{leg}", bond="bond0") for h in range(3) for leg in range(2)]
    assert [leaf(assign(None, rows, {}), at) for at in range(6)] == ["tor-0", "tor-1"] * 3


def test_nothing_above_the_leaves_is_concluded() -> None:
    rows = [port(f"host-{h}", "eth0", f"leaf-{h // 2}") for h in range(8)]
    found = assign(None, rows, {})
    assert all((found.ids[domain] < 0).all() for domain in ("pod", "plane", "network", "module"))
    assert (found.socket < 0).all()


@pytest.mark.parametrize(
    "rows",
    [
        [port("host-1", "eth0", "dpu"), port("host-1", "eth1", "dpu"), port("host-2", "eth0", "dpu-2")],  # own agents
        [port("host-1", "eth0", "host-2.example"), port("host-3", "eth0", "host-2.example"), port("host-2", "eth0")],
        [port("host-1", "eth0", ", ()", id="1"), port("host-2", "eth0", "", id="2")],  # a name without an id is one
    ],
)
def test_what_one_host_names_or_is_a_host_is_no_switch(rows: list[Row]) -> None:
    found = assign(None, rows, {})
    assert not below(found, rows)
    assert [found.name("link", at) for at in range(len(rows))] == [str(component) for component, _ in rows]


def test_a_plan_wins_and_a_port_that_it_lacks_joins_the_switch_that_it_has() -> None:
    rows = [
        port("host-1", "eth0", "leaf-9"), port("host-2", "eth0", "leaf-9"), port("host-3", "eth1", "Leaf-1", "swp3"),
        port("host-4", "eth1", "leaf-9"), port("host-5", "eth1", "alone"),
    ]  # fmt: skip
    found = assign(planned("host-1", "host-2"), rows, {})
    assert [leaf(found, at) for at in range(5)] == ["leaf-1", "leaf-1", "leaf-1", "leaf-9", ""]
    assert found.ids["network"][2] == found.ids["network"][0] >= 0 > found.ids["network"][3]
    assert found.name("link", 2) == "host-3/eth1, leaf-1/swp3"


def test_a_port_outlasts_a_new_topology_though_it_receives_no_lldp_any_more() -> None:
    named = LldpSwitches()
    rows = [port("host-1", "eth0", "leaf-7"), port("host-2", "eth0", "leaf-7")]
    Assigner(None, {}, named).assign(rows)
    silent = [port("host-1", "eth0"), port("host-2", "eth0")]
    found = Assigner(planned("host-3"), {}, named).assign(silent)
    assert [leaf(found, at) for at in range(2)] == ["leaf-7", "leaf-7"]


def test_another_port_in_the_row_has_nothing_of_the_former() -> None:
    assigner = Assigner(None, {})
    assigner.assign([port("host-1", "eth0", "leaf-7"), port("host-2", "eth0", "leaf-7")])
    rows = [port("host-1", "eth0", "leaf-7"), port("host-3", "eth0")]
    assert not below(assigner.assign(rows), rows)


def test_a_scheduler_places_hosts_and_lldp_their_ports() -> None:
    attached = Graph({"block-1": Switch("block-1", "block-1")}, {}, (), attached={"host-1": ("block-1",)})
    device = {"device": "mlx5_0", "port": "1"}
    rows = [port(f"host-{n}", "mlx5_0/1", "leaf-1", **device) for n in (1, 2)]
    assert [leaf(assign(attached, rows, {}), at) for at in range(2)] == ["leaf-1", "leaf-1"]
    assert [leaf(assign(attached, rows[:1], {}), 0)] == ["block-1"]


@given(st.lists(st.tuples(st.sampled_from(("same", "other")), st.sampled_from("ab")), min_size=4, max_size=8))
def test_two_chassis_never_have_one_name(named: list[tuple[str, str]]) -> None:
    rows = [
        port(f"host-{2 * n + h}", "eth0", name, id=f"02:0{n}{suffix}")
        for n, (name, suffix) in enumerate(named)
        for h in range(2)
    ]
    found = assign(None, rows, {})
    groups = below(found, rows)
    assert len(groups) == len(named)
    assert set(map(len, groups.values())) == {2}


def test_a_renamed_switch_is_one_leaf_by_the_name_that_most_ports_give() -> None:
    names = ["old", "old", "new", "new", "new"]
    rows = [port(f"host-{n}", "eth0", name, id="02:00") for n, name in enumerate(names)]
    assert set(below(assign(None, rows, {}), rows)) == {"new"}


@given(st.sampled_from(("host-1", "leaf-2", "x")), st.sampled_from(("02:01", "02:02", "x")))
def test_a_lying_host_moves_no_port_of_another(name: str, id: str) -> None:
    rows = [port(f"host-{n}", f"eth{leg}", f"leaf-{leg}", id=f"02:0{leg}") for n in range(3) for leg in (1, 2)]
    with_lies = [*rows, *(port("liar", f"eth{n}", name, id=id) for n in range(2))]
    found = assign(None, with_lies, {})
    assert [leaf(found, at) for at in range(len(rows))] == ["leaf-1", "leaf-2"] * 3


@given(st.text(min_size=1, max_size=200))
def test_a_lying_name_is_short_and_divides_no_component(name: str) -> None:
    rows = [port(f"host-{n}", "eth0", name, name) for n in range(2)]
    found = assign(None, rows, {})
    for text in found.names["leaf"]:
        assert len(text) <= MOST_TEXT
        assert not set(text) & set(",() \n")
