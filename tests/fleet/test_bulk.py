"""Many nodes at once: blocks and heartbeats leave a fleet as frames one by one would."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from fabricmon.fleet.bulk import Block, note_frames
from fabricmon.model import Component, Kind, Part, Presence
from tests.fleet.site import Site, port_part

NAN = math.nan
COLUMNS = ("symbol_errors", "rcv_errors")
NODES = tuple(f"n{n}" for n in range(5))
PORTS = ("p0", "p1", "p2")


def site(missing: dict[str, str] | None = None) -> Site:
    """Nodes with three ports each, of which one may be missing."""
    made = Site()
    for node in NODES:
        names = [name for name in PORTS if name != (missing or {}).get(node)]
        made.inventory(node, Part("other", Kind.PORT, ("state",), (Component("p0"),), 5.0),
                       port_part("x", COLUMNS, *names))  # fmt: skip
    made.tick()
    return made


def read_of(made: Site, node: str, name: str) -> tuple[list[float], float, float]:
    """Values of a port, and when its part was read and received."""
    table, known = made.fleet.tables[Kind.PORT], made.fleet.nodes[node]
    row, part = made.row(node, name), known.clocks.start + 1
    cells = [float(table.cells[table.columns[column], row]) for column in COLUMNS]
    return cells, float(made.fleet.clocks.taken[part]), float(made.fleet.clocks.received[part])


@pytest.mark.parametrize("missing", [{}, {"n1": "p2", "n4": "p0"}], ids=["all present", "two missing"])
@pytest.mark.parametrize("seed", range(4))
def test_a_block_has_the_values_of_live_nodes_and_leaves_the_others_as_they_were(
    seed: int, missing: dict[str, str]
) -> None:
    rng, made = random.Random(seed), site()
    block = Block(made.fleet, "x", Kind.PORT, NODES, [PORTS] * len(NODES))
    for node in missing:
        made.inventory(node, Part("other", Kind.PORT, ("state",), (Component("p0"),), 5.0),
                       port_part("x", COLUMNS, *(name for name in PORTS if name != missing[node])))  # fmt: skip
    block.refresh([NODES.index(node) for node in missing])
    told = {(node, name): ([NAN, NAN], NAN, NAN) for node in NODES for name in PORTS}
    taken = dict.fromkeys(NODES, NAN)
    for turn in range(6):
        made.now += 10.0
        live = [turn == 3 or rng.random() < 0.7 for _ in NODES]
        values = {column: np.array([float(rng.randrange(99)) for _ in NODES for _ in PORTS]) for column in COLUMNS}
        for node, here in zip(NODES, live, strict=True):
            if here and (taken[node] != taken[node] or rng.random() < 0.8):
                taken[node] = 100.0 * turn + NODES.index(node)
        block.load(values.__getitem__, np.array(list(taken.values())), np.array(live), made.now)
        for at, node in enumerate(NODES):
            for number, name in enumerate(PORTS):
                _, before, received = told[node, name]
                if live[at]:
                    cells = [float(values[column][3 * at + number]) for column in COLUMNS]
                    told[node, name] = cells, taken[node], made.now if taken[node] != before else received
        for (node, name), (cells, read, received) in told.items():
            if missing.get(node) != name:
                found = read_of(made, node, name)
                assert found[0] == pytest.approx(cells, nan_ok=True), (turn, node, name)
                assert found[1:] == pytest.approx((read, received), nan_ok=True), (turn, node)


def test_a_node_without_the_part_is_an_error_that_names_both() -> None:
    made = site()
    with pytest.raises(KeyError, match="n0 has no part absent of kind port"):
        Block(made.fleet, "absent", Kind.PORT, NODES, [PORTS] * len(NODES))
    with pytest.raises(KeyError, match="of kind gpu"):
        Block(made.fleet, "x", Kind.GPU, NODES, [PORTS] * len(NODES))


def last_frames(made: Site) -> list[float]:
    """As the fleet and as the table of nodes has them."""
    table = made.fleet.tables[Kind.NODE]
    rows = [made.fleet.nodes[node].row for node in NODES]
    in_table = table.cells[table.columns["last_frame"], rows].tolist()
    assert in_table == pytest.approx([made.fleet.last_frame(node) for node in NODES], nan_ok=True)
    return in_table


def test_frames_are_noted_of_these_nodes_which_are_live_from_then_on() -> None:
    made = site()
    note_frames(made.fleet, [], made.now)
    assert last_frames(made) == pytest.approx([NAN] * 5, nan_ok=True)
    made.fleet.presence("n3", Presence.SLOW, "late", made.now)
    note_frames(made.fleet, [made.fleet.nodes[node] for node in ("n4", "n1", "n3")], made.now + 7.0)
    assert last_frames(made) == pytest.approx([NAN, made.now + 7, NAN, made.now + 7, made.now + 7], nan_ok=True)
    found = [made.fleet.nodes[node].presence for node in NODES]
    assert found == [Presence.NEVER, Presence.LIVE, Presence.NEVER, Presence.SLOW, Presence.LIVE]


def test_heartbeats_have_times_of_their_own_and_one_of_another_inventory_is_left_out() -> None:
    made = site()
    fleet = made.fleet
    of = {node: made.inventories[node].id for node in NODES}

    def beats(taken, **at):
        """As many parts of each; `at`: seconds from now on."""
        ids = [of.get(node, 1) + (node == "n0") for node in at]  # n0: of another inventory
        came = made.now + np.array(list(at.values()))
        fleet.heartbeats(list(at), np.array(ids, np.uint32), np.array(taken), came)

    fleet.heartbeats([], np.zeros(0, np.uint32), np.zeros((0, 2)), np.zeros(0))
    beats([[20.0, 21.0], [1.0, 2.0], [3.0, 4.0], [40.0, 41.0]], n2=1.0, n0=2.0, gone=2.5, n4=3.0)
    beats([[9.0]], n1=4.0)  # with too few parts
    assert last_frames(made) == pytest.approx([NAN, NAN, made.now + 1, NAN, made.now + 3], nan_ok=True)
    clocks = {node: fleet.nodes[node].clocks for node in NODES}
    assert [fleet.clocks.taken[clocks[node]].tolist() for node in ("n2", "n4")] == [[20.0, 21.0], [40.0, 41.0]]
    assert fleet.clocks.received[clocks["n4"]].tolist() == [made.now + 3.0] * 2
    assert np.isnan(fleet.clocks.taken[clocks["n0"]]).all()
    assert fleet.nodes["n2"].presence is Presence.LIVE
    beats([[20.0, 30.0]], n2=9.0)
    assert fleet.clocks.received[clocks["n2"]].tolist() == [made.now + 1.0, made.now + 9.0], "only what was read anew"
