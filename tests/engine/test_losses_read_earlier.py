"""What a port lost while its peer was dead stays explained by that, however late it is looked at."""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.losses import AFTER, PortHealth, place_losses, unwell
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.groups import Groups

PORTS, DEAD, WAITS = 200, 7, 6
FELL, BACK = 1000.0, 1060.0


def blamed(read: float, now: float, lost: float = 1.0) -> list[str]:
    """What is blamed for the losses of a port that began when another one fell; its last window ended at `read`."""
    rows = np.arange(PORTS, dtype=np.int32)
    zero = np.zeros(PORTS, np.int32)
    ids = {"link": rows, "nic": rows, "host": rows, "leaf": rows // 20, "pod": zero - 1, "plane": zero, "network": zero}
    groups, never = Groups(ids), np.full(PORTS, np.nan)
    fell, back, ended = never.copy(), never.copy(), never.copy()
    fell[DEAD], back[DEAD], ended[WAITS] = FELL, BACK, read
    ratio = np.where(rows == WAITS, lost, np.nan)
    health = unwell({}, groups, fell, back, now)
    ports = PortHealth(groups, health, ratio, np.empty(0, np.int64), now, np.zeros(PORTS, np.bool_), ended)
    lossy = Observation(groups, np.array([WAITS]), np.array([FELL + 10.0]), np.ones(PORTS, np.bool_))
    _, soft = place_losses({SymptomType.PACKET_LOSS: lossy}, [], ports)
    return [verdict.mode.name for verdict in soft]


def test_an_idle_port_shows_what_it_lost_to_a_dead_peer_until_it_lapses() -> None:
    assert [blamed(FELL + 40.0, now) for now in (FELL + 60.0, BACK + AFTER - 1.0, BACK + AFTER + 150.0)] == [[], [], []]


def test_what_is_lost_after_the_peer_is_back_is_of_something_else() -> None:
    late = BACK + AFTER + 10.0
    assert blamed(late, late) == ["link losing packets"]


def test_a_share_of_the_packets_is_not_lost_to_a_dead_peer() -> None:
    assert blamed(FELL + 40.0, FELL + 60.0, 0.02) == ["link losing packets"]
