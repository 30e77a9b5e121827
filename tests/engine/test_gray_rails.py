"""Losses and rails: peers of a port are on its rail, what carries all rails loses packets of all of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.gray import gray
from fabricmon.engine.diagnosis.losses import SUSPECT
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups

RAILS, PORTS = 8, 32
"""Leaves of one unit, one a rail, and ports of each."""


def verdicts(
    losses: Mapping[int, float], *, rails: bool = True, units: int = 1, lasted: float = 0.0, towards: bool = False
) -> list[FaultVerdict]:
    """The verdicts on a plane of which some ports (row -> share of packets) lose; leaf and rail `r` have the rows from
    `r * PORTS`. `rails`: they are known; `units`: so many times as many leaves, whose ports lose nothing; `lasted`:
    seconds from the first lossy window to the last; `towards`: packets to these ports are lost, too."""
    n = RAILS * PORTS * units
    rows = np.arange(n, dtype=np.int32)
    zero = np.zeros(n, np.int32)
    ids = {"link": rows, "nic": rows, "leaf": rows // PORTS, "pod": zero - 1, "plane": zero, "network": zero}
    ratio = np.full(n, np.nan)
    ratio[list(losses)] = list(losses.values())
    lossy = np.array(sorted(losses))
    observation = Observation(Groups(ids), lossy, np.zeros(len(lossy)), np.ones(n, np.bool_))
    on = rows // PORTS % RAILS if rails else None
    return gray(observation, ratio, np.isin(rows, lossy) & towards, on, read=np.full(n, lasted))


def suspected(losses: Mapping[int, float], lasted: float) -> list[FaultVerdict]:
    """Those of a unit that are reported."""
    return [verdict for verdict in verdicts(losses, lasted=lasted) if verdict.confidence >= SUSPECT]


def adapter(row: int, loss: float, peers: int = 3) -> dict[int, float]:
    """A port that loses packets, and its peers, that lose what they send to it."""
    return {row: loss, **{row + 1 + at: loss / peers for at in range(peers)}}


def test_a_lossy_port_of_thousands_is_named_by_a_few_of_its_peers() -> None:
    """Of all ports that are found lossy one in a hundred may be so by chance, not one in thousands of all ports."""
    (found,) = verdicts(adapter(40, 4e-3), units=16, towards=True)
    assert (found.domain, found.group) == ("link", 40)
    assert found.confidence >= 0.9
    assert found.some >= 0.9


def test_one_weak_loss_may_be_chance() -> None:
    assert verdicts({40: 5e-5}, units=4) == []


def test_peers_on_its_rail_alone_name_a_lossy_port() -> None:
    (known,), (unknown,) = verdicts(adapter(40, 5e-4)), verdicts(adapter(40, 5e-4), rails=False)
    assert (known.domain, known.group) == ("link", 40)
    assert known.confidence > unknown.confidence


def test_ports_that_lose_on_many_rails_are_no_peers_of_one() -> None:
    """The one that loses most would have been named without rails known."""
    losses = {5: 0.018, 40: 0.006, 70: 0.006, 100: 0.006, 140: 0.006}
    (unknown,), (known,) = verdicts(losses, rails=False), verdicts(losses)
    assert unknown.domain == "link"
    assert known.domain == "plane"
    assert known.some >= 0.9


def test_two_lossy_ports_of_two_rails_are_two() -> None:
    found = verdicts(adapter(40, 1.2e-3, 4) | adapter(200, 3e-4))
    assert [(one.domain, one.group) for one in found] == [("link", 40), ("link", 200)]
    assert [one.effects[SymptomType.PACKET_LOSS].tolist() for one in found] == [[41, 42, 43, 44], [201, 202, 203]]


def test_ports_of_another_rail_are_peers_where_those_of_its_own_do_not_account_for_it() -> None:
    """A port whose peers are on all rails: what those lose is no second fault."""
    losses = {40: 4e-3} | {at * PORTS + 9: 5e-4 for at in range(RAILS)}
    assert len(verdicts(losses)) == 1


def test_ports_that_lose_as_much_as_one_another_are_not_peers_of_one_of_them() -> None:
    """Each would send to that one only, which has three peers: they are below one leaf, of which an uplink is lossy."""
    (found,) = verdicts(dict.fromkeys((40, 41, 42, 43), 2e-3))
    assert (found.domain, found.mode.word, found.group) == ("leaf", "uplinks", 1)
    assert found.confidence >= 0.9


def test_many_ports_of_all_rails_are_of_the_plane() -> None:
    (found,) = verdicts(dict.fromkeys(range(0, RAILS * PORTS * 8, 2), 1e-4), units=8)
    assert (found.domain, found.confidence) == ("plane", pytest.approx(1.0))


def test_one_weak_loss_is_reported_when_it_lasts() -> None:
    """It may be chance once; a cable that spoils what its host sends makes no other port lose packets."""
    assert suspected({40: 5e-5}, 30.0) == []
    (found,) = suspected({40: 5e-5}, 60.0)
    assert (found.domain, found.group) == ("link", 40)
