"""Figures of rails and tiers against plain sums, and which count of bytes a port is measured by."""

from __future__ import annotations

import itertools
import math
import random
from statistics import fmean

import numpy as np
import pytest

from fabricmon.catalogue.traffic import SOURCES
from fabricmon.fleet import link
from fabricmon.fleet.bulk import note_frames
from fabricmon.fleet.conditions import STATES, GroupCondition, conditions
from fabricmon.fleet.pressure import BUSY, LARGEST_PACKET, MARKS, NOTICES, PRESSED, RECEIVE, TRANSMIT
from fabricmon.fleet.view import View
from fabricmon.model import ComponentId, Kind, Presence
from fabricmon.topology.domains import assign
from tests.fleet.site import Site, port_part

NAN = math.nan
LINE = 5e10
WORDS = {link.UP: "up", link.DOWN: "down", link.ORDERED: "down_by_order", link.INIT: "initialising",
         link.UNKNOWN: "unknown"}  # fmt: skip


def placed(site: Site) -> View:
    table = site.fleet.tables[Kind.PORT]
    table.domains = assign(None, list(zip(table.ids, table.labels, strict=True)), {})
    return View(table, site.now)


def over(figure: object, values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(figure(known)) if known else NAN  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(6))
def test_a_condition_is_of_the_ports_where_it_is_known(seed: int) -> None:
    """Two rails on four hosts; slots, states and silence as drawn."""
    rng, site = random.Random(seed), Site()
    nodes, names = [f"h{n}" for n in range(4)], ("mlx5_0/1", "mlx5_1/1")
    for node in nodes:
        parts = (port_part("x", ("state",), name, device=name[:6], port="1", role="compute") for name in names)
        site.inventory(node, *parts)
        site.send(node, {}, 100.0, default=4.0)
    site.tick()
    shown: dict[tuple[str, str], dict[str, float]] = {}
    tracks = View(site.fleet.tables[Kind.PORT], site.now).tracks
    pressure, states = tracks.pressure, tracks.link
    for node, name in itertools.product(nodes, names):
        row = np.array([site.row(node, name)])
        one = {what: rng.choice((0.0, PRESSED, 0.04, 0.6, NAN)) for what in ("waiting", "pausing")}
        one |= {what: rng.choice((0.0, 2.0, 30.0, NAN)) for what in ("marks", "notices", "missed")}
        quantities = ((pressure.stalled, ("waiting",)), (pressure.pausing, ("pausing",)),
                      (pressure.arrivals, ("marks", "", "notices")), (pressure.missed, ("missed",)))  # fmt: skip
        for slots, which in quantities:
            if rng.random() < 0.2:
                one |= dict.fromkeys(filter(None, which), NAN)  # never read
                continue
            for _ in range(3):
                amounts = tuple(np.array([10.0 * one.get(what, 0.0)]) for what in which)
                slots.add(row, np.array([10.0]), amounts, site.now)
        scale = rng.choice((1.0, 0.5))
        pressure.scale[row] = scale
        states[row] = rng.choice(tuple(WORDS))
        shown[node, name] = one | {"waiting": min(one["waiting"] / scale, 1.0), "link": float(states[row][0])}
    silent = rng.choice((None, "h2"))
    site.now += 8.0
    for node in nodes:
        if node != silent:
            site.send(node, {}, 100.0, default=4.0)
    site.now += 25.0  # of a silent node nothing has come for more than 30 s; slots are known for 30 s
    rails, tiers = conditions(placed(site))
    assert [rail.name for rail in rails] == ["0", "1"]
    assert [tier.name for tier in tiers] == ["adapter"]
    for group, ports in ((rails[0], names[:1]), (rails[1], names[1:]), (tiers[0], names)):
        members = {at: shown[at] for at in itertools.product(nodes, ports)}
        links = [WORDS[int(one["link"])] if node != silent else "unknown" for (node, _), one in members.items()]
        assert group.links == {word: links.count(word) for word in STATES}
        assert all(math.isnan(value) for value in group[2:])  # the slots are older than what they say
    site.now -= 8.0
    rails, tiers = conditions(placed(site))
    for group, ports in ((rails[0], names[:1]), (rails[1], names[1:]), (tiers[0], names)):
        of = {what: [shown[at][what] for at in itertools.product(nodes, ports)]
              for what in ("waiting", "pausing", "marks", "notices", "missed")}  # fmt: skip
        pressed = over(lambda values: sum(value >= np.float32(PRESSED) for value in values), of["waiting"])
        wanted = GroupCondition(
            group.name, group.links, over(fmean, of["waiting"]), over(max, of["waiting"]), pressed,
            over(fmean, of["pausing"]), over(max, of["pausing"]), over(sum, of["marks"]), over(sum, of["notices"]),
            over(sum, of["missed"]),
        )  # fmt: skip
        assert group[2:] == pytest.approx(wanted[2:], rel=1e-5, nan_ok=True)


def test_ports_elsewhere_and_ports_that_left_are_of_no_rail() -> None:
    site = Site()
    ports = [port_part("x", ("state",), f"mlx5_{n}/1", device=f"mlx5_{n}", port="1", role="compute") for n in range(2)]
    site.inventory("h0", *ports, port_part("sweep", ("state",), "leaf/7", swept="1"))
    site.inventory("h0", *ports[:1], port_part("sweep", ("state",), "leaf/7", swept="1"))
    site.tick()
    rails, tiers = conditions(placed(site))
    assert [(rail.name, sum(rail.links.values())) for rail in rails] == [("0", 1)]
    assert [(tier.name, sum(tier.links.values())) for tier in tiers] == [("adapter", 1)]
    assert conditions(View(Site().fleet.tables[Kind.PORT], 0.0)) == ([], [])


# --- traffic

COLUMNS = [column for _, *both in SOURCES for column in both]


@pytest.mark.parametrize("seed", range(4))
def test_each_port_is_measured_by_the_first_source_of_which_both_directions_are_known(seed: int) -> None:
    rng, site = random.Random(seed), Site()
    known = [[rng.random() < 0.6 for _ in COLUMNS] for _ in range(12)]
    names = [f"p{n}/1" for n in range(len(known))]
    delivered = COLUMNS if seed else COLUMNS[:4]  # without the last source, the one before takes what is left
    site.inventory("h", port_part("x", (*delivered, "rate"), *names))
    rates = {(name, column): rng.choice((0.0, 1e-4, 0.1, 0.5)) * LINE for name in names for column in COLUMNS}
    for second in range(0, 60, 10):
        cells = {at: rate * second if known[names.index(at[0])][COLUMNS.index(at[1])] else NAN
                 for at, rate in rates.items()}  # fmt: skip
        site.send("h", cells | {(name, "rate"): LINE for name in names}, 100.0 + second)
        view = site.tick(10.0)
    pressure = view.tracks.pressure
    for name, has in zip(names, known, strict=True):
        row = site.row("h", name)
        pairs = [(rx, tx) for at, (_, rx, tx) in enumerate(SOURCES)
                 if rx in delivered and has[2 * at] and has[2 * at + 1]]  # fmt: skip
        shares = [rates[name, column] / LINE for column in pairs[0]] if pairs else [NAN, NAN]
        found = pressure.traffic.recent[[RECEIVE, TRANSMIT], row].tolist()
        if pairs:
            assert found == pytest.approx(shares, rel=1e-4)
            assert bool(pressure.busy[row]) is (max(shares) >= BUSY)
            worked = site.now if max(shares) >= BUSY else NAN
            assert pressure.worked[row] == pytest.approx(worked, nan_ok=True)
        else:
            assert any(math.isnan(share) for share in found)


def test_marks_are_a_share_of_packets_and_where_only_bytes_are_known_of_the_fewest_there_can_be() -> None:
    site = Site()
    columns = ("ecn_marked_rx", "cnp_handled", "rdma_rx_packets", "phy_rx", "phy_tx", "rate")
    site.inventory("h", port_part("x", columns, "a/1", "b/1", "c/1"))
    for second in range(0, 60, 10):
        counts = {"ecn_marked_rx": 100.0, "cnp_handled": 30.0, "phy_rx": 0.25 * LINE, "phy_tx": 0.0}
        cells = {(name, column): rate * second for name in ("a/1", "b/1", "c/1") for column, rate in counts.items()}
        cells |= {("a/1", "rdma_rx_packets"): 400.0 * second, ("b/1", "rdma_rx_packets"): NAN}
        cells |= {("c/1", "rdma_rx_packets"): 50.0 * second} | {(f"{n}/1", "rate"): LINE for n in "abc"}
        site.send("h", cells, 100.0 + second)
        view = site.tick(10.0)
    pressure, rows = view.tracks.pressure, np.array([site.row("h", f"{n}/1") for n in "abc"])
    assert pressure.marked(rows) == pytest.approx([0.25, 100.0 / (0.25 * LINE / LARGEST_PACKET), 1.0], rel=1e-4)
    assert pressure.arrivals.recent[[MARKS, NOTICES], rows[0]].tolist() == pytest.approx([100.0, 30.0], rel=1e-4)


# --- frames of many nodes at once


def test_a_frame_is_noted_of_each_node_named_and_of_no_other() -> None:
    site = Site()
    for name in ("a", "b", "c"):
        site.inventory(name, port_part("x", ("state",), "p/1"))
    nodes = {name: site.fleet.nodes[name] for name in ("a", "b", "c")}
    site.fleet.presence("c", Presence.UNREACHABLE, "no answer", site.now)
    note_frames(site.fleet, [], site.now)
    note_frames(site.fleet, [nodes["a"], nodes["c"]], site.now + 5.0)
    table = site.fleet.tables[Kind.NODE]
    at = {name: table.value("last_frame")[table.row(ComponentId(Kind.NODE, name, "")) or 0] for name in nodes}
    assert {name: when for name, when in at.items() if not math.isnan(when)} == {
        "a": site.now + 5.0, "c": site.now + 5.0,
    }  # fmt: skip
    assert [site.fleet.last_frame(name) for name in ("a", "c")] == [site.now + 5.0] * 2
    presence = {name: site.fleet.nodes[name].presence for name in nodes}
    assert presence == {"a": Presence.LIVE, "b": Presence.NEVER, "c": Presence.UNREACHABLE}
    ages = View(site.fleet.tables[Kind.PORT], site.now + 7.0).frame_age()
    assert ages[[site.row("a", "p/1"), site.row("c", "p/1")]].tolist() == [2.0, 2.0]
    assert math.isnan(ages[site.row("b", "p/1")])
