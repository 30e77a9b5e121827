"""What a port lost while its peer was dead stays explained by that, however late it is looked at."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.losses import AFTER, place_losses, set_ports_aside, unwell
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.port_health import PortHealth
from fabricmon.topology.groups import Many

PORTS, DEAD, WAITS = 200, 7, 6
FELL, BACK = 1000.0, 1060.0


def left_over(read: float, now: float, lost: float = 1.0) -> list[int]:
    """The losses of a port, which began when another one fell, if that does not account for them; its last window ended
    at `read`."""
    rows = np.arange(PORTS, dtype=np.int32)
    zero = np.zeros(PORTS, np.int32)
    ids = {"link": rows, "nic": rows, "host": rows, "leaf": rows // 20, "pod": zero - 1, "plane": zero, "network": zero}
    groups, never = Groups(ids), np.full(PORTS, np.nan)
    fell, back, ended = never.copy(), never.copy(), never.copy()
    fell[DEAD], back[DEAD], ended[WAITS] = FELL, BACK, read
    ratio = np.where(rows == WAITS, lost, np.nan)
    health = unwell({}, groups, fell, back, now)
    ports = PortHealth(groups, health, ratio, np.empty(0, np.int64), now, np.zeros(PORTS, np.bool_), ended, np.empty(0))
    lossy = Observation(groups, np.array([WAITS]), np.array([FELL + 10.0]), np.ones(PORTS, np.bool_))
    _, left = set_ports_aside(lossy, [], ports)
    return [int(row) for row in left.rows]


def test_an_idle_port_shows_what_it_lost_to_a_dead_peer_until_it_lapses() -> None:
    for now in (FELL + 60.0, BACK + AFTER - 1.0, BACK + AFTER + 150.0):
        assert left_over(FELL + 40.0, now) == []


def test_what_is_lost_after_the_peer_is_back_is_of_something_else() -> None:
    late = BACK + AFTER + 10.0
    assert left_over(late, late) == [WAITS]


def test_a_share_of_the_packets_is_not_lost_to_a_dead_peer() -> None:
    assert left_over(FELL + 40.0, FELL + 60.0, 0.02) == [WAITS]


@pytest.mark.parametrize(("read", "left"), [(BACK + 30.0, []), (BACK + AFTER + 30.0, [0, 1]), (np.nan, [0, 1])])
def test_an_idle_flow_shows_what_it_lost_over_a_link_that_came_back(read: float, left: list[int]) -> None:
    """Two flows over the link, of which nothing is read for long after it came back; what is not known is of now."""
    rows = np.arange(PORTS, dtype=np.int32)
    groups, never = Groups({"link": rows, "host": rows, "leaf": rows // 20}), np.full(PORTS, np.nan)
    fell, back = never.copy(), never.copy()
    fell[DEAD], back[DEAD] = FELL, BACK
    now = BACK + AFTER + 200.0
    ports = PortHealth(groups, unwell({}, groups, fell, back, now), never, np.empty(0, np.int64), now,
                       np.zeros(PORTS, np.bool_), never, np.full(2, read))  # fmt: skip
    flows = Groups({}, {"link": Many(np.array([0, 1, 2]), np.array([DEAD, DEAD], np.int32))})
    lossy = Observation(flows, np.array([0, 1]), np.full(2, FELL + 10.0), np.ones(2, np.bool_))
    _, soft = place_losses({SymptomType.FLOW_LOSS: lossy}, [], ports)
    assert [row for verdict in soft for row in verdict.explained[SymptomType.FLOW_LOSS].tolist()] == left


@pytest.mark.parametrize(("down", "back", "silent", "left"), [
    (19, 0, 1, []), (19, 19, 1, []), (19, 18, 1, []), (16, 0, 1, []), (15, 0, 1, [0, 1]),
    (13, 0, 4, []), (12, 0, 4, [0, 1]),
])  # fmt: skip
def test_flows_to_a_host_whose_agent_was_silent_before_are_lost_by_its_leaf(
    down: int, back: int, silent: int, left: list[int]
) -> None:
    """Port 0 of a leaf of 20 is that of the host, of which nothing is known, as of those before `silent`; `down` others
    are down, of which `back` were until now."""
    now = FELL + 60.0
    assert flows_left(20, down, back, silent, now, now) == left


def test_two_ports_of_a_leaf_that_are_down_are_no_leaf() -> None:
    """Of three; with three of four it is."""
    assert flows_left(3, 2, 0, 1, FELL + 60.0, FELL + 60.0) == [0, 1]
    assert flows_left(4, 3, 0, 1, FELL + 60.0, FELL + 60.0) == []


def test_a_port_that_stays_down_is_not_its_leaf() -> None:
    """19 of 20 fell and 18 of them are back: what is read long afterwards is lost by something else."""
    late = BACK + AFTER + 30.0
    assert flows_left(20, 19, 18, 1, late, late) == [0, 1]
    assert flows_left(20, 19, 18, 1, late, BACK + 30.0) == []


def flows_left(ports: int, down: int, back: int, silent: int, now: float, read: float) -> list[int]:
    """Lossy flows to the host at port 0 of a leaf that no leaf accounts for."""
    rows = np.arange(ports, dtype=np.int32)
    groups, never, every = Groups({"link": rows, "host": rows, "leaf": 0 * rows}), np.full(ports, np.nan), rows >= 0
    fell, since = never.copy(), never.copy()
    fell[silent : silent + down], since[silent : silent + back] = FELL, BACK
    failed = rows[silent + back : silent + down].astype(np.int64)
    hosts = np.arange(silent)
    quiet = Observation(Groups({"host": rows}), hosts, np.full(silent, FELL - 500.0), every)
    known = np.isnan(since)  # whether a link that came up stays so is not known yet
    links = Observation(groups, failed, np.full(len(failed), FELL), known)
    seen = {SymptomType.LINK_DOWN: links, SymptomType.AGENT_SILENT: quiet}
    health = PortHealth(groups, unwell(seen, groups, fell, since, now), never, np.empty(0, np.int64), now,
                        np.zeros(ports, np.bool_), never, np.full(2, read))  # fmt: skip
    several = {domain: Many(np.array([0, 1, 2]), np.zeros(2, np.int32)) for domain in ("link", "host", "leaf")}
    lossy = Observation(Groups({}, several), np.array([0, 1]), np.full(2, FELL + 10.0), np.ones(2, np.bool_))
    _, soft = place_losses({**seen, SymptomType.FLOW_LOSS: lossy}, [], health)
    return [row for verdict in soft for row in verdict.explained[SymptomType.FLOW_LOSS].tolist()]
