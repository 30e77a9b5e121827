"""storage_path: what holds a storage port back for longer than a checkpoint (S23)."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import Views
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.rules import RULES
from fabricmon.rules.storage_path import StoragePathParams
from fabricmon.units import Duration
from tests.rules.bench_of_pressure import RATE, Pressed

NDR = 50e9
COLUMNS = ("xmit", "rcv", "rate", "carrier", "pfc_rx_pause_prio3", "pfc_tx_pause_prio3")
HOSTS = 3


class Hosts:
    """Each with a compute port and a storage port of Ethernet, read every 10 s."""

    def __init__(self) -> None:
        self.fleet, self.now, self.rule_states = Fleet(), 1_700_000_000.0, RuleStates(RULES, {})
        ports = tuple(
            Component(f"mlx5_{n}/1", {"device": f"mlx5_{n}", "port": "1", "link_layer": "Ethernet", "role": role})
            for n, role in enumerate(("compute", "storage"))
        )
        self.names = [f"host-{n}" for n in range(HOSTS)]
        for name in self.names:
            inventory = Inventory(
                1, Identity(name, "boot", name, "1", 0.0), (Part("roce", Kind.PORT, COLUMNS, ports, 10.0),)
            )
            self.fleet.inventory(name, inventory, self.now)
        self.cells = np.zeros((HOSTS, 2, len(COLUMNS)))
        self.cells[:, :, 2] = NDR
        self.cells[:, :, 3] = 1.0

    def run(self, seconds: float, paused: float) -> None:
        """All storage ports send at line rate and are paused for a share of the time."""
        for _ in range(int(seconds / 10)):
            self.now += 10.0
            self.cells[:, 1, 0] += 0.9 * (1 - paused) * NDR * 10
            self.cells[:, 1, 4] += paused * 10
            for n, name in enumerate(self.names):
                frame = Frame(1, 1, self.now, np.array([self.now]), None, self.cells[n].reshape(-1).copy())
                assert self.fleet.frame(name, frame, self.now)
            self.fleet.advance(self.now)
            self.rule_states.run(Views(self.fleet.tables, self.now))
            assert not self.rule_states.failures.counts, self.rule_states.failures.last

    def open(self) -> list[str]:
        return sorted(str(h.symptom.component) for h in self.rule_states.by_rule["storage_path"].open.values())


def test_a_checkpoint_of_minutes_is_none() -> None:
    hosts = Hosts()
    for _ in range(3):
        hosts.run(120, 0.4)
        hosts.run(300, 0.0)
        assert not hosts.open()


def test_what_lasts_ten_minutes_is_reported_of_storage_ports_only_and_ends() -> None:
    hosts = Hosts()
    hosts.run(60, 0.0)
    hosts.run(560, 0.4)
    assert not hosts.open()
    hosts.run(120, 0.4)
    assert hosts.open() == [f"host-{n}/mlx5_1/1" for n in range(HOSTS)]
    (symptom, *_) = (h.symptom for h in hosts.rule_states.by_rule["storage_path"].open.values())
    assert "could not transmit" in symptom.evidence[0].text
    assert symptom.evidence[0].value is not None
    hosts.run(300, 0.0)
    assert not hosts.open()


@pytest.mark.parametrize(("full", "found"), [(0.5, False), (0.8, True)])
def test_marks_on_a_link_with_room_mean_that_congestion_control_works(full: float, found: bool) -> None:
    ports = Pressed(roles={0: "storage"}, params={"storage_path": StoragePathParams(hold=Duration(30))})
    mine, packets = [(host, 0) for host in range(8)], full * RATE / 4096
    ports.rate(mine, phy_rx=full * RATE, rdma_rx_packets=packets, ecn_marked_rx=0.08 * packets)
    ports.polls(10)
    assert ports.open("storage_path") == (set(mine) if found else set())
