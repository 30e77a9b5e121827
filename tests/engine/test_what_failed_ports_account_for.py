"""A port that works although it failed accounts for what others lose only if they may lose it on the way to it."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.losses import place_losses, set_ports_aside, unwell
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.port_health import PortHealth, PortWork

PORTS, FAILED, RECEIVER, LOSSY = 200, 7, 90, (30, 50, 70)
FAULT, NOW = 1000.0, 1100.0
FAULTS = (SymptomType.NIC_FAULT, SymptomType.LINK_ERRORS)


def left_over(
    fault: SymptomType, *, worked: float = NOW, receivers: tuple[int, ...] = (), counted: bool = True,
    loses: tuple[int, ...] = LOSSY, plane: int = 0, amounts: dict[int, float] | None = None, began: float = 60.0,
    slow: float = 1.0, beyond: tuple[int, ...] = (), also: tuple[int, ...] = (),
) -> list[int]:  # fmt: skip
    """Which of the lossy ports another one does not account for, whose adapter or cable failed before.

    worked  when it last carried traffic; receivers: ports to which packets are seen to be lost; counted: whether that
    is read of the failed port; plane: of the receivers; amounts: shares of packets that ports lose, instead of `loses`;
    began: when the others began to lose packets, seconds after the fault; slow: share of what others send that the
    failed port does; beyond: ports of another plane; also: other ports that failed in that way
    """
    rows = np.arange(PORTS, dtype=np.int32)
    zero = np.zeros(PORTS, np.int32)
    planes = np.where(np.isin(rows, receivers), plane, 0).astype(np.int32)
    planes[list(beyond)] = 1
    groups = Groups({"link": rows, "nic": rows, "host": rows, "leaf": zero, "pod": zero - 1, "plane": planes,
                     "network": zero})  # fmt: skip
    every, never = np.ones(PORTS, np.bool_), np.full(PORTS, np.nan)
    failed = Observation(groups, np.array([FAILED, *also]), np.full(1 + len(also), FAULT), every)
    lost = amounts or dict.fromkeys(loses, 0.01)
    losing, ratio = np.array(sorted(lost)), np.full(PORTS, np.nan)
    ratio[list(lost)] = list(lost.values())
    onset = np.where(losing == FAILED, FAULT + 60.0, FAULT + began)
    lossy = Observation(groups, losing, onset, every)
    newest = np.where(rows == FAILED, worked, NOW)
    ports = PortHealth(
        groups, unwell({fault: failed}, groups, never, never, NOW), ratio, np.empty(0, np.int64), NOW,
        np.isin(rows, receivers), np.full(PORTS, NOW), np.empty(0),
        work=PortWork(newest, never, every, zero - 1), counted=every if counted else rows != FAILED,
        lost=None if amounts is None else ratio * np.where(rows == FAILED, slow, 1.0),
    )  # fmt: skip
    if amounts is None:
        return [int(row) for row in set_ports_aside(lossy, [], ports)[1].rows]
    _, soft = place_losses({SymptomType.PACKET_LOSS: lossy, fault: failed}, [], ports)
    return sorted({int(row) for verdict in soft for row in verdict.explained[SymptomType.PACKET_LOSS]})


@pytest.mark.parametrize("fault", FAULTS)
def test_peers_lose_packets_on_the_way_to_it(fault: SymptomType) -> None:
    for receivers in ((), (FAILED,), (FAILED, RECEIVER)):
        assert left_over(fault, receivers=receivers) == []
    assert left_over(fault, loses=(FAILED, *LOSSY), receivers=(RECEIVER,)) == []  # these receive what it sends


@pytest.mark.parametrize("fault", FAULTS)
def test_no_peer_sends_to_a_port_that_is_idle(fault: SymptomType) -> None:
    for worked in (-np.inf, FAULT - 600.0):
        assert left_over(fault, worked=worked) == list(LOSSY)
    for worked in (FAULT - 10.0, NOW, np.nan):  # what is not read may be traffic
        assert left_over(fault, worked=worked) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_what_arrives_elsewhere_is_not_lost_on_the_way_to_it(fault: SymptomType) -> None:
    assert left_over(fault, receivers=(RECEIVER,)) == list(LOSSY)
    assert left_over(fault, receivers=(RECEIVER,), counted=False) == []
    assert left_over(fault, receivers=(RECEIVER,), plane=1) == []  # of another plane


@pytest.mark.parametrize("fault", [*FAULTS, SymptomType.LINK_FLAPPING])
def test_a_failed_port_that_stands_out_accounts_for_what_its_peers_lose(fault: SymptomType) -> None:
    """Each packet that is lost on the way to or from it counts at a port of its plane, and half of them at itself."""
    peers = tuple(range(100, 112))
    assert left_over(fault, amounts={FAILED: 0.012} | dict.fromkeys(peers, 0.001), receivers=(FAILED,)) == []


FLAPS = SymptomType.LINK_FLAPPING
PEERS = tuple(range(100, 112))


@pytest.mark.parametrize("own", [{}, {FAILED: 1e-7}, {FAILED: 0.001}, {FAILED: 0.7}])
def test_a_link_that_flaps_does_not_account_for_what_others_lose_and_it_does_not(own: dict[int, float]) -> None:
    """It loses nothing, timeouts alone, no more than each of them, or stalls."""
    assert set(PEERS) <= set(left_over(FLAPS, amounts=own | dict.fromkeys(PEERS, 0.001)))


def test_a_link_that_flaps_accounts_for_what_began_with_its_own_loss_only() -> None:
    for began in (-60.0, 900.0):
        lost = {FAILED: 0.012} | dict.fromkeys(PEERS, 0.001)
        assert set(PEERS) <= set(left_over(FLAPS, amounts=lost, receivers=(FAILED,), began=began))


def test_a_link_that_flaps_accounts_for_no_more_than_it_has_peers() -> None:
    many = tuple(range(100, 150))
    assert set(many) <= set(left_over(FLAPS, amounts={FAILED: 0.06} | dict.fromkeys(many, 0.001), receivers=(FAILED,)))


def test_a_link_that_flaps_and_sends_little_does_not_account_for_more_packets_than_it_loses() -> None:
    lost = {FAILED: 0.2} | dict.fromkeys(PEERS, 0.005)
    assert left_over(FLAPS, amounts=lost, receivers=(FAILED,)) == []
    assert set(PEERS) <= set(left_over(FLAPS, amounts=lost, receivers=(FAILED,), slow=0.01))


def test_what_is_lost_in_another_plane_is_not_lost_on_the_way_to_it() -> None:
    """Row 3 is the first of all rows, and the lossy port of the other plane."""
    lost = {FAILED: 0.012, 3: 0.04} | dict.fromkeys(PEERS, 0.001)
    assert left_over(FLAPS, amounts=lost, receivers=(FAILED,), beyond=(3,)) == [3]


def test_which_of_two_ports_that_flap_and_lose_packets_accounts_for_others_is_not_known() -> None:
    lost = {FAILED: 0.012, 150: 0.012} | dict.fromkeys(PEERS, 0.002)
    assert set(PEERS) <= set(left_over(FLAPS, amounts=lost, receivers=(FAILED, 150), also=(150,)))
