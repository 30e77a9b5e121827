"""Why a port that never was up is expected to be, and which readings confirm that a link is down, row by row."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from fabricmon.fleet import link
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, Kind, Part
from fabricmon.rules import link_down
from fabricmon.rules.link_down import Expected, LinkDownParams, expected
from fabricmon.topology.domains import assign
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.units import Duration
from tests.fleet.site import Site

NAN = math.nan
PARAMS = LinkDownParams()
STATES = {link.UP: (4.0, 5.0), link.DOWN: (1.0, 2.0), link.INIT: (2.0, 5.0), link.UNKNOWN: (NAN, NAN)}


Made = dict[str, list[tuple[str, dict[str, str], int]]]
"""Node -> name, labels and state of its ports."""


def ports(rng: random.Random) -> Made:
    found: Made = {}
    for host in range(rng.choice((3, 5, 6))):
        mostly = rng.choice((link.UP, link.UP, link.DOWN))
        mine = found[f"h{host}"] = []
        for nic in range(6):
            role = "compute" if nic < 5 else rng.choice(("storage", "unknown"))
            labels = {"device": f"mlx5_{nic}", "port": rng.choice(("1", "1", "1", "1", "2")), "role": role,
                      "link_layer": "InfiniBand"}  # fmt: skip
            state = rng.choice((mostly, mostly, mostly, link.UP, link.DOWN, link.INIT, link.UNKNOWN))
            mine.append((f"mlx5_{nic}/{labels['port']}", labels, state))
        if rng.random() < 0.5:
            mine.append(("leaf/9", {"swept": "1", "link_layer": "InfiniBand"}, rng.choice((link.UP, link.DOWN))))
    return found


def fleet_of(made: Made, planned: set[tuple[str, str]]) -> View:
    site = Site()
    for node, mine in made.items():
        components = tuple(Component(name, labels) for name, labels, _ in mine)
        site.inventory(node, Part("infiniband", Kind.PORT, ("state", "phys_state"), components, 10.0))
        shown: dict[tuple[str, str], float] = {}
        for name, _, state in mine:
            shown[name, "state"], shown[name, "phys_state"] = STATES[state]
        site.send(node, shown, 100.0)
    adapters = {f"{node}/{name[:6]}": Adapter(f"{node}/{name[:6]}", node, name[:6]) for node, name in planned}
    cables = [cable(End(f"{node}/{name[:6]}", int(name[-1])), End("leaf", at + 1))
              for at, (node, name) in enumerate(sorted(planned))]  # fmt: skip
    graph = Graph({"leaf": Switch("leaf", "leaf", 0)}, adapters, tuple(cables)) if planned else None
    table = site.fleet.tables[Kind.PORT]
    table.domains = assign(graph, list(zip(table.ids, table.labels, strict=True)), {})
    return site.tick(1.0)


def why(made: Made, planned: set[tuple[str, str]], node: str, at: int, params: LinkDownParams) -> Expected:
    name, labels, state = made[node][at]
    if "swept" in labels or state not in (link.INIT, link.DOWN):
        return Expected.NOT
    if state == link.INIT:
        return Expected.PHYSICAL

    def most(others: list[int]) -> bool:
        return len(others) >= params.peers and others.count(link.UP) >= params.share * len(others)

    named = labels["role"] != "unknown"
    alike = [one[2] for one in made[node] if one[0] != name and "swept" not in one[1]
             and (one[1]["role"], one[1]["port"]) == (labels["role"], labels["port"])]  # fmt: skip
    if named and most(alike):
        return Expected.SISTERS
    if (node, name) in planned:
        return Expected.PLAN
    same = [one[2] for other, mine in made.items() if other != node
            for one in mine if (one[0], one[1].get("role")) == (name, labels["role"])]  # fmt: skip
    return Expected.PEERS if named and most(same) else Expected.NOT


@pytest.mark.parametrize("seed", range(12))
def test_a_port_that_never_was_up_is_expected_by_what_is_known_of_it_best_first(seed: int) -> None:
    rng = random.Random(seed)
    made = ports(rng)
    planned = {(node, name) for node, mine in made.items() for name, labels, _ in mine
               if "swept" not in labels and rng.random() < 0.3} if seed % 2 else set()  # fmt: skip
    params = rng.choice((PARAMS, LinkDownParams(peers=2, share=0.5)))
    view = fleet_of(made, planned)
    found = expected(view, params)
    rows = {(component.node, component.name): row for row, component in enumerate(view.table.ids)}
    for node, mine in made.items():
        for at, (name, _, _) in enumerate(mine):
            assert Expected(int(found[rows[node, name]])) is why(made, planned, node, at, params), (node, name)
    later = View(view.table, view.now + float(params.never) - 1e-3)
    assert not link_down.test(later, params).known[found > 0].any()


# --- a second reading

SLOW, QUICK = 60.0, 10.0


class TwoReaders:
    """One port whose state is read every minute and whose carrier every ten seconds."""

    def __init__(self) -> None:
        self.site, self.taken = Site(), [100.0, 100.0]
        port = (Component("p/1", {"device": "p", "link_layer": "Ethernet"}),)
        self.site.inventory(
            "h", Part("ib", Kind.PORT, ("state",), port, SLOW), Part("net", Kind.PORT, ("carrier",), port, QUICK)
        )

    def read(self, *collectors: int, up: bool, after: float) -> View:
        self.site.now += after
        for which in collectors:
            self.taken[which] += after
        values = np.array([4.0, 1.0] if up else [1.0, 0.0])
        self.site.frames += 1
        times = np.array(self.taken)
        frame = Frame(self.site.inventories["h"].id, self.site.frames, 0.0, times, None, values)
        assert self.site.fleet.frame("h", frame, self.site.now)
        return self.site.tick()


def confirmed(view: View, params: LinkDownParams = PARAMS) -> bool:
    found = link_down.test(view, params).confirmed
    assert found is not None
    return bool(found[0])


def test_a_link_is_confirmed_down_by_a_second_reading_of_any_witness() -> None:
    port = TwoReaders()
    port.read(0, 1, up=True, after=0.0)
    view = port.read(0, 1, up=False, after=10.0)
    assert not confirmed(view)
    assert not confirmed(port.site.tick(9.0))
    assert confirmed(port.read(1, up=False, after=1.0))


def test_a_second_reading_that_is_overdue_is_not_awaited() -> None:
    port = TwoReaders()
    port.read(0, 1, up=True, after=0.0)
    port.read(0, 1, up=False, after=10.0)
    assert not confirmed(port.site.tick(1.5 * QUICK - 0.01))
    assert confirmed(port.site.tick(0.02))


def test_no_hold_needs_no_second_reading_and_a_sweep_has_none() -> None:
    port = TwoReaders()
    port.read(0, 1, up=True, after=0.0)
    view = port.read(0, 1, up=False, after=10.0)
    assert confirmed(view, LinkDownParams(hold=Duration(0)))
    view.tracks.facts.swept[0] = True
    assert confirmed(view)
