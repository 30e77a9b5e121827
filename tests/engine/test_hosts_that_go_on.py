"""Silent hosts that received traffic, and towards which no port that works on loses packets, are more likely up."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.exchanging import ASKED, Exchanging, ExchangingHosts
from fabricmon.engine.diagnosis.losses import NEAR, unwell
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.groups import Groups, Ints, Mask
from fabricmon.engine.domains.port_health import PortHealth, PortWork

HOSTS, RAILS = 40, 4
SILENT = 3
FELL = 10_000.0
ALL = (44, 45, 46, 47)
OFTEN, SELDOM = 3e-4, 6.7e-5
"""Chances of a silence for reasons of its own: in a fleet with many such, and in one that has none."""


class Fabric:
    """HOSTS with a port on each rail, all at work, and one that fell silent at FELL."""

    def __init__(self) -> None:
        self.rows = np.arange(HOSTS * RAILS, dtype=np.int32)
        self.host, none = self.rows // RAILS, np.full(HOSTS * RAILS, -1, np.int32)
        ids = {"link": self.rows, "nic": self.rows, "host": self.host, "leaf": self.rows % RAILS}
        self.groups = Groups(ids | {"plane": none + 1, "network": none + 1})
        self.nodes = Groups({"host": np.arange(HOSTS, dtype=np.int32), "power": none[:HOSTS]})
        self.now = FELL + ASKED
        self.silent = {SILENT: FELL}
        self.losing: dict[int, float] = {}
        self.unread: Mask = np.zeros(len(self.rows), np.bool_)
        self.stopped = self.idle = self.late = False
        self.job: Ints = np.full(len(self.rows), -1)
        self.hosts = ExchangingHosts()

    def ask(self, silence: float = OFTEN) -> Exchanging:
        n, mine = len(self.rows), self.host == SILENT
        never, zero = np.full(n, np.nan), np.zeros(n, np.bool_)
        at = np.array(sorted(self.losing), np.int64)
        lost = Observation(self.groups, at, np.array([self.losing[row] for row in at.tolist()]), ~zero)
        onset = np.array([self.silent[row] for row in sorted(self.silent)])
        silent = Observation(self.nodes, np.array(sorted(self.silent), np.int64), onset, np.ones(HOSTS, np.bool_))
        found = {SymptomType.AGENT_SILENT: silent, SymptomType.PACKET_LOSS: lost}
        newest = np.where(mine, FELL - 5.0, FELL - 2.0 if self.stopped else self.now - 3.0)
        read = np.where(mine, FELL - 5.0, FELL + 12.0 if self.late else self.now - 3.0)
        received = ~(mine & self.idle)
        work = PortWork(newest, np.full(n, FELL - 5_000.0), received, self.job.astype(np.int32))
        ratio = np.where(np.isin(self.rows, at), 1e-7, np.nan)
        ports = PortHealth(
            self.groups, unwell(found, self.groups, never, never, self.now), ratio, np.empty(0, np.int64),
            self.now, zero, read, np.empty(0), self.rows % RAILS, work=work,
        )  # fmt: skip
        return self.hosts.update(found, ports, ~self.unread, lambda _: silence)

    def up(self, silence: float = OFTEN) -> bool:
        return SILENT in self.ask(silence).up.tolist()


def test_a_host_that_received_until_then_and_loses_nothing_is_up_where_agents_often_fall_silent() -> None:
    assert Fabric().up(OFTEN)
    assert not Fabric().up(SELDOM)


@pytest.mark.parametrize("way", ["idle", "stopped"])
def test_no_loss_towards_a_host_that_no_one_sends_to_is_no_evidence(way: str) -> None:
    fabric = Fabric()
    setattr(fabric, way, True)
    assert not fabric.up()


def test_ports_whose_losses_are_not_read_may_be_the_ones_that_send_to_it() -> None:
    fabric = Fabric()
    fabric.unread = fabric.host % 2 == 0
    assert not fabric.up()
    assert fabric.up(10 * OFTEN)


def test_hosts_without_ports_that_are_read_may_be_the_ones_that_send_to_it() -> None:
    fabric = Fabric()
    fabric.nodes = Groups({"host": np.arange(2 * HOSTS, dtype=np.int32), "power": np.full(2 * HOSTS, -1, np.int32)})
    assert not fabric.up()


@pytest.mark.parametrize(("rows", "up"), [((44,), True), ((44, 45), False), ((44, 49, 58, 63), False)])
def test_losses_on_half_of_its_rails_may_be_towards_it(rows: tuple[int, ...], up: bool) -> None:
    fabric = Fabric()
    fabric.losing = dict.fromkeys(rows, FELL + 8.0)
    assert fabric.up() is up


def test_losses_that_began_long_before_are_towards_others() -> None:
    fabric = Fabric()
    fabric.losing = dict.fromkeys(ALL, FELL - 300.0)
    assert fabric.up()


def test_ports_of_another_job_do_not_send_to_it() -> None:
    fabric = Fabric()
    fabric.losing = dict.fromkeys(ALL, FELL + 8.0)
    fabric.job = np.where(fabric.host == 11, 1, 0)
    assert fabric.up()


def test_a_host_that_losses_made_doubtful_is_not_up_when_its_peers_gave_it_up() -> None:
    fabric = Fabric()
    fabric.losing = dict.fromkeys(ALL, FELL + 8.0)
    assert not fabric.up()
    fabric.losing, fabric.now = {}, FELL + NEAR
    assert not fabric.up()
    fabric.silent = {SILENT: FELL + 30.0}  # it reported in between: another silence
    fabric.now = FELL + 30.0 + ASKED
    assert not fabric.up()  # it has done no work since


def test_what_is_not_read_yet_is_waited_for_and_no_longer() -> None:
    fabric = Fabric()
    fabric.late, fabric.now = True, FELL + 21.0
    assert [rows.tolist() for rows in fabric.ask()] == [[], [SILENT]]
    assert fabric.ask(SELDOM).pending.tolist() == []
    fabric.now = FELL + ASKED
    assert [rows.tolist() for rows in fabric.ask()] == [[], []]
    fabric.late = False
    assert fabric.up()


def test_a_host_that_is_up_stays_so_while_nothing_is_lost_and_not_after_a_loss() -> None:
    fabric = Fabric()
    assert fabric.up()
    fabric.now = FELL + 600.0
    assert fabric.up()
    fabric = Fabric()
    assert fabric.up()
    fabric.losing, fabric.now = dict.fromkeys(ALL, FELL + 40.0), FELL + 45.0
    assert not fabric.up()
