"""What probes show between leaves: numbers of each pair, and the page of them."""

from __future__ import annotations

import asyncio
import math

import pytest

from fabricmon.central.evaluation.probed_pairs import ProbedPairs
from fabricmon.central.page.heat_map import MAX_LEAVES, probes_page
from fabricmon.fleet.leaf_pairs import LeafPairs, leaf_pairs, probed_flows
from fabricmon.model import Kind
from tests.probe.fleet_of_probes import PER_WINDOW, ProbedFleet


def leaf(node: str) -> int:
    return int(node[1:]) // 12


def pairs_of(fleet: ProbedFleet) -> LeafPairs:
    tables = fleet.engine.fleet.tables
    return leaf_pairs(probed_flows(tables[Kind.FLOW], tables[Kind.PORT]))


@pytest.fixture(scope="module")
def fleet() -> ProbedFleet:
    """Two leaves; from leaf 1 to leaf 0 probes are slow, and those of one node are lost."""
    made = ProbedFleet()
    slow = {(1, 0): 70e-6, (0, 0): 10e-6, (1, 1): 11e-6, (0, 1): 20e-6}
    made.rtt = lambda one, other, _: slow[leaf(one), leaf(other)] * (1 + int(one[1:]) / 1000)
    made.loss = lambda one, other, _: float(one == "n13" and leaf(other) == 0)
    made.step(8)
    return made


def test_each_ordered_pair_has_its_flows_probes_and_round_trips(fleet: ProbedFleet) -> None:
    found = pairs_of(fleet)
    every = {(pair.near, pair.far): pair for pair in map(found.pair, range(len(found.flows)))}
    assert sorted(every) == [(f"leaf-{a}", f"leaf-{b}") for a in (0, 1) for b in (0, 1)]
    within, slow = every["leaf-0", "leaf-0"], every["leaf-1", "leaf-0"]
    assert (within.flows, within.answered, within.lost) == (48, 48, 0)
    assert within.sent == 6 * PER_WINDOW * 48
    assert 10e-6 <= within.rtt <= within.slowest < 10.2e-6
    lost = sum(leaf(target.node) == 0 for _, target, _ in fleet._flows["n13"])
    assert 0 < lost == slow.flows - slow.answered
    assert slow.lost == 6 * PER_WINDOW * lost
    assert 70e-6 < slow.rtt < slow.slowest < 72e-6


def test_the_worst_pair_comes_first_and_a_rail_has_its_own(fleet: ProbedFleet) -> None:
    found = pairs_of(fleet)
    rows = found.of_rail("0")
    assert len(rows) == 4
    assert found.pair(rows[0])[1:3] == ("leaf-1", "leaf-0")
    assert found.pair(rows[1])[1:3] == ("leaf-0", "leaf-1")  # without loss the slowest
    assert len(found.of_rail("9")) == 0


def test_void_windows_are_unknown_and_without_probes_there_are_no_pairs() -> None:
    made = ProbedFleet()
    made.step(2)
    made.void = {f"n{n}" for n in range(12)}
    made.step(2)
    found = pairs_of(made)
    own = {found.pair(at).near: found.pair(at) for at in found.of_rail("0").tolist()}
    assert (own["leaf-0"].answered, math.isnan(own["leaf-0"].rtt)) == (0, True)
    assert own["leaf-1"].answered > 0
    assert "unknown µs" in probes_page(found, "")
    made.step(7)
    assert {pairs_of(made).pair(at).near for at in pairs_of(made).of_rail("0").tolist()} == {"leaf-1"}
    ports = made.engine.fleet.tables[Kind.PORT]
    assert len(leaf_pairs(probed_flows(ports, ports)).flows) == 0


async def test_questions_of_one_window_have_one_answer_and_the_next_window_another(fleet: ProbedFleet) -> None:
    now = 100.0
    pairs = ProbedPairs(fleet.engine, lambda: now)
    first, same = await asyncio.gather(pairs.newest(), pairs.newest())
    now += 9.0
    assert first is same is await pairs.newest()
    assert first.lost.sum() == pairs_of(fleet).lost.sum() > 0
    now += 2.0
    assert await pairs.newest() is not first


def test_the_page_shows_levels_losses_and_what_is_wrong(fleet: ProbedFleet) -> None:
    html = probes_page(pairs_of(fleet), "no such rail")
    assert html.count("<rect") == 4
    assert html.count('class="lost"') == 1
    assert "leaf-1 to leaf-0: 71 µs" in html
    assert 'href="probes?rail=0" aria-current="page"' in html
    first = html[html.index("Worst pairs") :]
    assert first.index("leaf-1") < first.index("leaf-0")


def test_a_page_without_probes_says_how_to_get_them() -> None:
    assert "central.probe.enabled" in probes_page(LeafPairs(), "")


def test_a_map_of_many_leaves_is_bounded_and_has_the_worst() -> None:
    made = ProbedFleet(leaves=60, hosts=2)
    made.rtt = lambda one, other, _: 900e-6 if "n119" in (one, other) else 20e-6
    made.step(2)
    html = probes_page(pairs_of(made), "0")
    assert html.count('class="name"') == MAX_LEAVES
    assert ">leaf-59<" in html
    assert "and 12 more" in html
