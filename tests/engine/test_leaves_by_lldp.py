"""A leaf that only LLDP names, in the fleet: what it is named by, and what goes with a node or stays."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.engine.diagnosis.causes import UNMAPPED_LOSS
from fabricmon.engine.diagnosis.gray import gray
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.placing import Placing
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import Component, Identity, Inventory, Kind, Part

START = 1_700_000_000.0
LATER = 600.0  # seconds, longer than any pause here


class ByLldp:
    """A fleet without a map whose agents name the switches of their ports eth0, eth1, ..."""

    def __init__(self) -> None:
        self.fleet, self.now, self.shown = Fleet(), START, 0
        self.placing = Placing(self.fleet, None, of_many=True)

    def inventory(self, node: str, *leaves: str) -> None:
        self.shown += 1
        ports = tuple(
            Component(f"eth{n}", {"netdev": f"eth{n}", **({"lldp_chassis": leaf, "lldp_port": "swp1"} if leaf else {})})
            for n, leaf in enumerate(leaves)
        )
        part = Part("neighbours", Kind.PORT, ("lldp_neighbours",), ports, 60.0)
        self.fleet.inventory(node, Inventory(self.shown, Identity(node, "b", "a", "0", 1.0), (part,)), self.now)

    def forget(self, node: str) -> None:
        self.fleet.forget(node)
        self.placing.forget(node)

    def leaves(self) -> dict[str, str]:
        """Port -> leaf, of those that have one."""
        self.now += LATER
        self.placing.place(self.now, {})
        domains, table = self.placing.domains, self.fleet.tables[Kind.PORT]
        assert domains is not None
        groups = domains.port.ids["leaf"].tolist()
        return {str(table.ids[row]): domains.names["leaf"][at] for row, at in enumerate(groups) if at >= 0}


@pytest.fixture
def fleet() -> ByLldp:
    it = ByLldp()
    for node in ("host-1", "host-2", "host-3"):
        it.inventory(node, "leaf-1", "leaf-2")
    return it


def test_ports_that_fall_silent_with_their_leaf_stay_below_it(fleet: ByLldp) -> None:
    before = fleet.leaves()
    assert set(before.values()) == {"leaf-1", "leaf-2"}
    for node in ("host-1", "host-2", "host-3"):
        fleet.inventory(node, "leaf-1", "")  # eth1 is down: lldpd forgets its neighbour after two minutes
    assert fleet.leaves() == before


def test_a_port_moves_with_what_it_names(fleet: ByLldp) -> None:
    fleet.leaves()
    fleet.inventory("host-1", "leaf-1", "leaf-1")
    assert fleet.leaves()["host-1/eth1"] == "leaf-1"


def test_what_a_node_brought_leaves_with_it(fleet: ByLldp) -> None:
    fleet.inventory("host-4", "leaf-9")
    fleet.inventory("host-5", "leaf-9")
    assert fleet.leaves()["host-4/eth0"] == "leaf-9"
    fleet.forget("host-5")
    assert "host-4/eth0" not in fleet.leaves()  # what one host names is no switch
    fleet.inventory("host-6", "")
    assert "host-6/eth0" not in fleet.leaves()


def test_no_packet_is_taken_to_stay_below_a_leaf_by_lldp(fleet: ByLldp) -> None:
    fleet.leaves()
    assert fleet.placing.domains is not None
    assert (fleet.placing.domains.islands() < 0).all()


def test_names_that_always_change_are_not_kept(fleet: ByLldp) -> None:
    placed = []
    for n in range(60):
        for node in ("liar-1", "liar-2"):
            fleet.inventory(node, *(f"leaf-{n}-{port}" for port in range(250)))
        fleet.leaves()
        assert fleet.placing.domains is not None
        placed.append(len(fleet.placing.domains.names["leaf"]))
    assert max(placed) < 60 * 250


def losses(lossy: dict[int, float], leaves: int = 8, ports: int = 160) -> list[tuple[str, int]]:
    """Verdicts on ports (row -> share of packets lost) of leaves above which nothing is known."""
    rows = np.arange(ports, dtype=np.int32)
    none, leaf = np.full(ports, -1, np.int32), (rows * leaves // ports).astype(np.int32)
    ids = {"link": rows, "nic": rows, "leaf": leaf, "pod": none, "plane": none, "network": none}
    ratio = np.full(ports, np.nan)
    ratio[list(lossy)] = list(lossy.values())
    seen = Observation(Groups(ids), np.array(sorted(lossy)), np.zeros(len(lossy)), np.ones(ports, np.bool_))
    found = gray(seen, ratio, np.isin(rows, list(lossy)), np.zeros(ports, np.int32), none)
    return [(verdict.domain, verdict.group) for verdict in found]


def test_a_gray_leaf_is_named_and_what_is_above_the_leaves_is_not() -> None:
    peers = dict.fromkeys([*range(0, 40, 5), *range(60, 100, 5)], 3e-4)
    assert losses(dict.fromkeys(range(40, 60), 1e-3) | peers) == [("leaf", 2)]
    spread = dict.fromkeys(range(0, 160, 5), 1e-3)
    assert losses(spread) == [(UNMAPPED_LOSS.domain, 0)]
    uplink = dict.fromkeys([*range(40, 52), *range(0, 36, 9), *range(70, 160, 9)], 1e-3)
    assert losses(uplink) == [(UNMAPPED_LOSS.domain, 0)]
