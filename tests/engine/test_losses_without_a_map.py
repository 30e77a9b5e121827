"""Ports that lose packets on a server that knows no topology: one of them by its amount, or a part without a name."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GRAY_MODES, UNMAPPED_LOSS
from fabricmon.engine.diagnosis.gray import gray
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups

PORTS, RAILS = 400, 4


def verdicts(
    losses: Mapping[int, float], *, towards: tuple[int, ...] = (), mapped: int = 0, rails: int = RAILS
) -> list[FaultVerdict]:
    """The verdicts on ports (row -> share of packets lost); row r is of rail r % RAILS. No leaf, plane or network is
    known but of the last `mapped` rows; of the others the rail is r % `rails`."""
    rows = np.arange(PORTS, dtype=np.int32)
    none = np.full(PORTS, -1, np.int32)
    known = np.where(rows >= PORTS - mapped, 0, -1).astype(np.int32)
    ids = {"link": rows, "nic": rows, "leaf": none, "pod": none, "plane": known, "network": known}
    ratio = np.full(PORTS, np.nan)
    ratio[list(losses)] = list(losses.values())
    lossy = np.array(sorted(losses))
    observation = Observation(Groups(ids), lossy, np.zeros(len(lossy)), np.ones(PORTS, np.bool_))
    return gray(observation, ratio, np.isin(rows, towards), np.where(known < 0, rows % rails, rows % RAILS))


def test_one_port_that_loses_what_its_peers_lose_together_is_named() -> None:
    peers = dict.fromkeys((4, 8, 12, 16), 3e-4)
    (found,) = verdicts({40: 1.2e-3, **peers}, towards=(40,))
    assert (found.domain, found.group) == ("link", 40)
    assert found.confidence >= 0.9


@pytest.mark.parametrize(("lost", "named"), [(0.02, True), (1.0, False)])
@pytest.mark.parametrize("mapped", [0, PORTS])
def test_a_port_alone_that_loses_all_its_packets_has_lost_its_peer(lost: float, named: bool, mapped: int) -> None:
    """Its peer may be a host that no agent is on; a cable that is up loses a share of the packets."""
    assert [(v.domain, v.group) for v in verdicts({40: lost}, mapped=mapped)] == [("link", 40)] * named


def test_two_ports_that_lose_as_much_are_not_told_apart_but_by_what_they_receive() -> None:
    """Each is the other's only peer."""
    (even,), (clear,) = verdicts({40: 1e-2, 44: 1e-2}), verdicts({40: 1e-2, 44: 1e-2}, towards=(40,))
    assert even.confidence < 0.5
    assert (clear.domain, clear.group) == ("link", 40)
    assert clear.confidence > even.confidence


def test_that_all_losses_are_stronger_is_no_evidence_for_a_port() -> None:
    pattern = {40: 2.0, **dict.fromkeys(range(44, 72, 4), 0.8)}
    (weak,), (strong,) = (verdicts({row: share * of for row, of in pattern.items()}) for share in (1e-3, 1e-2))
    assert weak.mode is strong.mode is UNMAPPED_LOSS
    assert weak.confidence == pytest.approx(strong.confidence, abs=0.01)


@pytest.mark.parametrize("share", [5e-4, 1e-2])
def test_many_ports_that_lose_alike_are_a_part_without_a_name(share: float) -> None:
    losses = dict.fromkeys(range(100, 112), share)
    (found,) = verdicts(losses, towards=(200, 201))
    assert found.mode is UNMAPPED_LOSS
    assert found.confidence >= 0.9
    assert found.explained[SymptomType.PACKET_LOSS].tolist() == list(losses)
    assert found.effects[SymptomType.PACKET_LOSS].tolist() == [200, 201]


def test_a_few_ports_that_lose_alike_are_none() -> None:
    assert [v for v in verdicts(dict.fromkeys((4, 8, 12), 5e-4)) if v.domain == UNMAPPED_LOSS.domain] == []


def test_ports_that_a_map_lacks_are_not_taken_for_a_fabric_of_their_own() -> None:
    assert verdicts({40: 1.2e-3, 44: 4e-4, 48: 4e-4, 52: 4e-4}, mapped=300) == []


@pytest.mark.parametrize("rails", [RAILS, PORTS])
def test_a_port_that_a_map_lacks_may_be_the_lossy_one_of_those_in_it(rails: int) -> None:
    """Rails of ports that the map lacks may have names of their own."""
    peers = dict.fromkeys((104, 108, 112, 16), 3e-4)
    (found,) = verdicts({40: 1.2e-3, **peers}, towards=(40,), mapped=300, rails=rails)
    assert (found.domain, found.group) == ("link", 40)
    assert found.confidence >= 0.9
    assert found.effects[SymptomType.PACKET_LOSS].tolist() == sorted(peers)


def test_ports_that_a_map_lacks_are_in_no_part_of_it() -> None:
    """Twelve ports of a plane that lose alike are of the plane; four beside them that it lacks are not counted."""
    losses = dict.fromkeys(range(200, 212), 5e-4)
    (without,), (beside,) = (verdicts(losses | more, mapped=300) for more in ({}, dict.fromkeys(range(4), 5e-4)))
    assert (without.domain, beside.domain) == ("plane", "plane")
    assert without.explained[SymptomType.PACKET_LOSS].tolist() == beside.explained[SymptomType.PACKET_LOSS].tolist()


def test_its_prior_is_that_of_any_part_of_several_ports() -> None:
    parts = [mode.cost for mode in GRAY_MODES if mode.domain not in ("link", "nic")]
    assert abs(UNMAPPED_LOSS.cost + log(sum(exp(-cost) for cost in parts))) < 1e-9
    assert UNMAPPED_LOSS.cost < min(parts)


def test_ports_that_receive_duplicates_on_other_rails_are_no_part_of_it() -> None:
    """As where a job begins meanwhile: what loses packets of one rail has both ends of its flows there."""
    (found,) = verdicts(dict.fromkeys(range(100, 148, 4), 5e-4), towards=(200, 201, 202, 300))
    assert found.mode is UNMAPPED_LOSS
    assert found.effects[SymptomType.PACKET_LOSS].tolist() == [200, 300]
