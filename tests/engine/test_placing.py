"""Rows and their groups while components, names and sweeps change: at once unplaced, after a pause placed as anew."""

from __future__ import annotations

from collections import defaultdict
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.engine.domains import placing
from fabricmon.engine.domains.placing import CHECKED, PREPARING, Placing
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import (
    Component,
    ComponentId,
    Identity,
    Inventory,
    Kind,
    Part,
    Severity,
    Symptom,
    SymptomChange,
)
from tests.hostile.kinds import sweep

NODES = ("host-1", "host-2", "host-3")
PORTS = tuple(f"mlx5_{n}/1" for n in range(4))
LATER = 600.0  # seconds, longer than any pause here
Members = dict[str, set[frozenset[tuple[Kind, int]]]]


def inventory(node: str, named: dict[str, int], gpus: int, peer: str, swept: int) -> Inventory:
    """`named`: port name -> GUID of the port; `swept`: ports of switches that the node sweeps."""
    ports = tuple(
        Component(name, {"device": name[:6], "port": "1", "role": "compute", "port_guid": f"0x{0xB001 + guid:016x}"})
        for name, guid in named.items()
    )
    inside = tuple(Component(f"gpu{n}", {"pci": f"{n}"}) for n in range(gpus))
    flows = tuple(Component(f"{name}>{peer}", {"port": name, "peer": peer}) for name in named)
    parts = [Part("infiniband_state", Kind.PORT, ("state",), ports, 1.0), Part("gpu", Kind.GPU, ("a",), inside, 1.0)]
    parts += [Part("flows", Kind.FLOW, ("b",), flows, 1.0)]
    parts += [Part("fabric", Kind.PORT, ("state",), sweep(swept, 1), 1.0)]
    return Inventory(1, Identity(node, "b", "a", "0", 1.0), tuple(part for part in parts if part.components))


CHANGES = st.one_of(
    st.builds(
        inventory, st.sampled_from(NODES), st.dictionaries(st.sampled_from(PORTS), st.integers(0, 7)),
        st.integers(0, 2), st.sampled_from([f"{node}/{PORTS[0]}" for node in NODES]), st.sampled_from([0, 0, 5, 70]),
    ),
    st.sampled_from(NODES),  # forgotten
)  # fmt: skip


class Placed:
    """A fleet with its placing, and which rows came to stand for something else."""

    def __init__(self) -> None:
        self.fleet, self.now = Fleet(), 1_700_000_000.0
        self.placing = Placing(self.fleet, None, of_many=True)
        self.unplaced: dict[Kind, set[int]] = defaultdict(set)
        self._generation: dict[Kind, list[int]] = {}

    def change(self, change: Inventory | str) -> None:
        if isinstance(change, str):
            self.fleet.forget(change)
            self.placing.forget(change)
        else:
            self.fleet.inventory(change.identity.node, change, self.now)

    def place(self, pause: float) -> bool:
        self.now += pause
        moved: dict[Kind, list[int]] = {}
        for kind, table in self.fleet.tables.items():
            now, before = table.generation[: table.n].tolist(), self._generation.get(kind, [])
            moved[kind] = [row for row, (old, new) in enumerate(zip(before, now, strict=False)) if old != new]
            self._generation[kind] = now
        return self.placing.place(self.now, moved)

    @property
    def domains(self) -> RowDomains:
        assert self.placing.domains is not None
        return self.placing.domains


def members(domains: RowDomains) -> Members:
    """Domain -> its groups, as the rows of all tables in each."""
    found: dict[str, dict[int, set[tuple[Kind, int]]]] = defaultdict(lambda: defaultdict(set))
    for kind, groups in domains.by_table.items():
        for domain in (*groups.ids, *groups.many):
            for group in range(len(domains.names.get(domain, ())) + 1):
                found[domain][group].update((kind, row) for row in domains.members(kind, domain, group).tolist())
    return {domain: {frozenset(rows) for rows in groups.values() if rows} for domain, groups in found.items()}


def without(groups: Members, rows: dict[Kind, set[int]]) -> Members:
    gone = {(kind, row) for kind, those in rows.items() for row in those}
    return {domain: {kept for group in of if (kept := group - gone)} for domain, of in groups.items()}


@given(st.lists(st.tuples(CHANGES, st.sampled_from([0.2, 0.2, 2.0, LATER])), min_size=1, max_size=12),
       st.sampled_from([8_000, 3, 40]))  # fmt: skip
def test_a_row_that_changed_is_in_no_group_until_all_are_placed_as_from_nothing(
    changes: list[tuple[Inventory | str, float]], at_once: int
) -> None:
    with mock.patch.object(placing, "PLACED", at_once):  # few: many calls give a part of the rows their places
        _as_from_nothing(changes)


def _as_from_nothing(changes: list[tuple[Inventory | str, float]]) -> None:
    it = Placed()
    it.change(inventory("host-1", {PORTS[0]: 0, PORTS[1]: 1}, 1, f"host-2/{PORTS[0]}", 5))
    it.place(0.0)
    for change, pause in changes:
        former, before = it.domains, members(it.domains)
        generation = {kind: table.generation.copy() for kind, table in it.fleet.tables.items()}
        it.change(change)
        it.place(pause)
        if it.domains is not former:
            fresh = Placing(it.fleet, None, of_many=True)
            fresh.place(it.now, {})
            assert fresh.domains is not None
            assert members(it.domains) == members(fresh.domains)
            assert (it.domains.echo, it.domains.reported_by) == (fresh.domains.echo, fresh.domains.reported_by)
            assert it.domains.near.tolist() == fresh.domains.near.tolist()
            continue
        moved = {
            kind: {row for row, old in enumerate(generation[kind].tolist()) if table.generation[row] != old}
            for kind, table in it.fleet.tables.items()
        }
        assert pause < LATER or not any(moved.values())
        assert members(it.domains) == without(before, moved)
        ports = moved[Kind.PORT]
        assert not ports & (it.domains.echo.keys() | set(it.domains.echo.values()) | it.domains.reported_by.keys())
        assert not ports & set(it.domains.near.tolist())


def test_a_node_that_renames_its_ports_has_all_rows_placed_once_a_pause() -> None:
    it = Placed()
    placed = []
    for n in range(60):
        it.change(inventory("host-1", {f"mlx5_{n}_{m}/1": 8 * n + m for m in range(300)}, 0, "", 0))
        before = it.placing.domains
        it.place(0.2)
        placed.append(it.placing.domains is not before)
    assert sum(placed) <= 1 + 60 * 0.2 / (1.0 + 300 / CHECKED)


def test_many_new_rows_get_their_places_in_parts_and_all_of_them_however_the_topology_changes() -> None:
    it = Placed()
    it.change(inventory("host-1", {PORTS[0]: 0}, 0, "", 0))
    it.place(0.0)
    first = it.domains
    named = {f"mlx5_{n}/1": n for n in range(500)}
    with mock.patch.object(placing, "PLACED", 100):
        it.change(inventory("host-2", named, 0, "", 5))
        it.place(2.0)
        it.place(0.1)
        assert it.domains is first
        for n in range(int(PREPARING) + 1):
            it.change(inventory("host-3", {}, 0, "", 5 + n))  # another sweep each time
            it.place(1.0)
    assert it.domains is not first
    host = it.fleet.nodes["host-2"].rows[Kind.PORT]
    assert all(it.domains.host(row) == "host-2" for name, row in host.items() if name in named)


def test_a_port_without_a_place_yet_teaches_no_group_of_ports_without_a_leaf() -> None:
    """Its leaf may be known after the next placing. (Four such ports of two hosts that fall together are a group.)"""
    it = Placed()
    fallen = [ComponentId(Kind.PORT, node, name) for node in NODES[:2] for name in PORTS[:2]]
    for node in NODES[:2]:
        it.change(inventory(node, {PORTS[2]: 0, PORTS[3]: 1}, 0, "", 0))
    it.place(0.0)
    for node in NODES[:2]:
        it.change(node)
    for node in NODES[:2]:
        it.change(inventory(node, {PORTS[0]: 0, PORTS[1]: 1}, 0, "", 0))
    groups = []
    for pause in (0.2, LATER, LATER, LATER):
        it.place(pause)
        it.placing.learn([_fell(component, it.now) for component in fallen], it.now)
        it.placing.learn([], it.now + 60.0)
        groups.append(it.domains.names["learned"])
    assert groups == [[], [], ["learned group 1"], ["learned group 1"]]


def _fell(component: ComponentId, at: float) -> SymptomChange:
    symptom = Symptom("link_down", "link_down", component, Severity.WARNING, at, 1.0)
    return SymptomChange(symptom, True, at, "")
