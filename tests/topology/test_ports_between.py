"""Ports that a map lacks: which get the place between their neighbours', and which do not."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.model import ComponentId, Kind
from fabricmon.sim.shapes import dual_tor, rail_fabric
from fabricmon.topology.domains import Assigner, Labels, assign
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.topology.groups import Domains
from fabricmon.topology.infer import annotate

Row = tuple[ComponentId, Labels]
FREE: Row = (ComponentId(Kind.PORT, "", ""), {})


def port(host: str, device: str = "mlx5_0", at: int = 1, **labels: str) -> Row:
    return ComponentId(Kind.PORT, host, f"{device}/{at}"), {"device": device, "port": str(at), **labels}


def planned(sockets: Mapping[str, tuple[str, int]], device: str = "mlx5_0") -> Graph:
    """A map that has one adapter of some hosts: host -> leaf and its port. All leaves have a spine."""
    adapters = {f"{host}/{device}": Adapter(f"{host}/{device}", host, device) for host in sockets}
    leaves = sorted({leaf for leaf, _ in sockets.values()})
    up = [cable(End(leaf, 99), End("spine", at + 1)) for at, leaf in enumerate(leaves)]
    down = [cable(End(f"{host}/{device}", 1), End(leaf, socket)) for host, (leaf, socket) in sockets.items()]
    switches = {name: Switch(name, name) for name in (*leaves, "spine")}
    return annotate(Graph(switches, adapters, (*down, *up)))


def in_a_row(hosts: Collection[int], leaf: str = "leaf-1", step: int = 1) -> dict[str, tuple[str, int]]:
    """host-k on port k * step of one leaf."""
    return {f"host-{k}": (leaf, k * step) for k in hosts}


def place(found: Domains, row: int) -> tuple[str, int, str]:
    """Leaf, its port, and the module."""
    return found.name("leaf", row), int(found.socket[row]), found.name("module", row)


NOWHERE = ("", -1, "")
TWO_LEAVES = in_a_row([1, 2, 3, 4]) | {f"host-{k}": ("leaf-2", k - 4) for k in (5, 6, 7, 8)}


def two_leaves(*without: str) -> dict[str, tuple[str, int]]:
    return {host: place for host, place in TWO_LEAVES.items() if host not in without}




@pytest.mark.parametrize(
    ("known", "asked", "expected"),
    [
        (in_a_row([1, 2, 4, 5]), ["host-3"], [("leaf-1", 3, "leaf-1/3-4")]),
        (in_a_row([1, 3, 4]), ["host-2"], [("leaf-1", 2, "leaf-1/1-2")]),
        (in_a_row([1, 2, 5, 6]), ["host-4", "host-3"], [("leaf-1", 4, "leaf-1/3-4"), ("leaf-1", 3, "leaf-1/3-4")]),
        (in_a_row([1, 2, 4, 5], step=2), ["host-3"], [("leaf-1", 6, "leaf-1/5-6")]),
        ({f"host-{k}": ("leaf-1", 20 - k) for k in (8, 9, 11, 12)}, ["host-10"], [("leaf-1", 10, "leaf-1/9-10")]),
        (in_a_row([2, 3, 4]), ["host-1"], [NOWHERE]),
        (in_a_row([1, 2, 3]), ["host-4"], [NOWHERE]),
        (in_a_row([1, 3]), ["host-2"], [NOWHERE]),
        (in_a_row([1, 2, 5, 6]), ["host-3"], [NOWHERE]),
        (in_a_row([1, 2, 4, 5]) | {"other": ("leaf-1", 3)}, ["host-3"], [NOWHERE]),
        (in_a_row([1, 2, 4, 5]), ["host-3", "host-3a"], [NOWHERE, NOWHERE]),
        (in_a_row([1, 2, 4]) | {"host-5": ("leaf-1", 9)}, ["host-3"], [NOWHERE]),
        (in_a_row([1, 2]) | in_a_row([4, 5], "leaf-2"), ["host-3"], [NOWHERE]),
        (two_leaves("host-4"), ["host-4"], [("leaf-1", 4, "leaf-1/3-4")]),
        (two_leaves("host-5"), ["host-5"], [("leaf-2", 1, "leaf-2/1-2")]),
        (two_leaves("host-4", "host-5"), ["host-5", "host-4"],
         [("leaf-2", 1, "leaf-2/1-2"), ("leaf-1", 4, "leaf-1/3-4")]),
        (two_leaves("host-1"), ["host-1"], [("leaf-1", 1, "leaf-1/1-2")]),
        (two_leaves("host-8"), ["host-8"], [("leaf-2", 4, "leaf-2/3-4")]),
        (TWO_LEAVES, ["host-9"], [NOWHERE]),
        (two_leaves("host-8"), ["login-8"], [NOWHERE]),
        (in_a_row([1, 2, 3]) | {f"host-{k}": ("leaf-2", k - 3) for k in (5, 6, 7)}, ["host-4"], [NOWHERE]),
    ],
    ids=["between", "second of its leaf", "two", "every second port", "downwards", "first of all", "last of all",
         "nothing beside to compare", "one host of two", "port is taken", "two for one port", "beside is irregular",
         "between two leaves", "last of its leaf", "first of its leaf", "last and first", "first of the first leaf",
         "last of the last leaf", "beyond the last", "another kind of name", "either of two leaves"],
)  # fmt: skip
def test_what_has_a_place(
    known: dict[str, tuple[str, int]], asked: list[str], expected: list[tuple[str, int, str]]
) -> None:
    rows = [*map(port, known), *map(port, asked)]
    found = assign(planned(known), rows, {})
    assert [place(found, len(known) + at) for at in range(len(asked))] == expected


def test_only_the_same_adapter_of_other_hosts_counts() -> None:
    graph = planned(in_a_row([1, 2, 4, 5]))
    others = [port("host-3", "mlx5_1"), port("host-3", "mlx5_0", 2), port("host-3", role="storage")]
    found = assign(graph, [*others, port("host-3", "HCA-1")], {})
    assert [place(found, row)[0] for row in range(4)] == ["", "", "", "leaf-1"]


def test_a_port_that_names_its_switch_by_lldp_or_is_put_below_one_stays_there() -> None:
    known = in_a_row([1, 2, 4, 5])
    by_lldp = port("host-3", lldp_chassis="leaf-2", lldp_chassis_id="00:02", lldp_port="7")
    found = assign(planned(known), [by_lldp, port("host-2")], {})
    assert found.socket[0] == -1
    attached = msgspec.structs.replace(planned(known), attached={"host-3": ("spine",)})
    assert assign(attached, [port("host-3")], {}).name("leaf", 0) == "spine"


def rows_of(graph: Graph) -> tuple[list[Row], list[tuple[str, int]]]:
    """A row of each adapter's port, and where it is in truth."""
    rows, places = [], []
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            adapter = graph.adapters.get(near.node)
            if adapter is not None and far.node in graph.switches:
                rows.append(port(adapter.host, adapter.name, near.port))
                places.append((far.node, far.port))
    return rows, places


def without(graph: Graph, lost: Collection[int]) -> Graph:
    """The graph without some of the adapters' cables, by their number in `rows_of`."""
    ends = [n for n, link in enumerate(graph.cables) if link.a.node in graph.adapters or link.b.node in graph.adapters]
    gone = {ends[number] for number in lost}
    return msgspec.structs.replace(graph, cables=tuple(c for n, c in enumerate(graph.cables) if n not in gone))


FABRICS = [annotate(rail_fabric(nodes=32, unit=16)), annotate(dual_tor(units=1, hosts=16))]


@pytest.mark.parametrize("fabric", FABRICS, ids=["rail-optimised", "dual ToR"])
@given(st.randoms(use_true_random=False), st.sampled_from([1, 2, 5, 20]))
def test_in_a_regular_fabric_every_place_found_is_right(fabric: Graph, chance: random.Random, percent: int) -> None:
    rows, places = rows_of(fabric)
    lost = chance.sample(range(len(rows)), max(1, len(rows) * percent // 100))
    found = assign(without(fabric, lost), rows, {})
    about = found.about["leaf"]
    for row in lost:
        if (leaf := found.group("leaf", row)) >= 0:
            assert (about[leaf]["guid"], int(found.socket[row])) == places[row]


def test_most_of_what_a_map_lacks_here_and_there_is_found() -> None:
    fabric, chance, number, found_of = FABRICS[0], random.Random(3), 0, 0
    rows, _ = rows_of(fabric)
    for _ in range(20):
        lost = chance.sample(range(len(rows)), len(rows) // 20)
        found = assign(without(fabric, lost), rows, {})
        number, found_of = number + len(lost), found_of + sum(found.socket[row] >= 0 for row in lost)
    assert found_of / number > 0.8


def test_in_a_real_fabric_nearly_every_place_found_is_right(shared_dir: Path) -> None:
    """1,247 adapters of a real storage network, of which every twentieth cable is lost; some of its ports are free."""
    fabric = sources.load(str(shared_dir / "captures/fabric/ibnetdiscover/selene.storage.txt.gz"))
    chance = random.Random(5)
    rows, places = rows_of(fabric)
    lost = [row for row in chance.sample(range(len(rows)), len(rows) // 20) if rows[row][0].node]
    found = assign(without(fabric, lost), rows, {})
    about, leaves = found.about["leaf"], {row: found.group("leaf", row) for row in lost}
    placed = [row for row in lost if leaves[row] >= 0]
    right = [row for row in placed if (about[leaves[row]]["guid"], int(found.socket[row])) == places[row]]
    assert len(placed) > len(lost) / 3
    assert len(right) >= 0.95 * len(placed)


@given(st.randoms(use_true_random=False))
def test_names_without_order_give_no_place(chance: random.Random) -> None:
    """A wrong one takes two hosts that follow each other by chance, a free port between theirs, and a pair beside."""
    names = [f"h{chance.getrandbits(40):010x}" for _ in range(64)]
    known = {name: (f"leaf-{at // 16}", at % 16 + 1) for at, name in enumerate(names)}
    lacking = chance.sample(names, 3)
    found = assign(planned({n: p for n, p in known.items() if n not in lacking}), [port(name) for name in lacking], {})
    assert sum(bool(found.name("leaf", row)) for row in range(3)) <= 1


WITH_GAPS = planned(in_a_row([1, 2, 4, 7, 8, 11, 12, 13]))


@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["host", "storage", "free"])), min_size=1, max_size=25))
def test_step_by_step_is_as_at_once(steps: Sequence[tuple[int, str]]) -> None:
    assigner, rows = Assigner(WITH_GAPS, {}), [FREE] * 13
    for at, what in steps:
        rows[at] = FREE if what == "free" else port(f"host-{at + 1}", role=what)
        found = assigner.assign(rows)
        anew = Assigner(WITH_GAPS, {}).assign(rows)
        for domain in ("leaf", "rail", "module", "network"):
            assert [found.name(domain, row) for row in range(13)] == [anew.name(domain, row) for row in range(13)]
        assert found.socket.tolist() == anew.socket.tolist()
