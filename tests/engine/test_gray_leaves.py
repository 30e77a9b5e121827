"""Whether a leaf loses packets, or something above it: what its ports lose beside what others lose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.gray import gray
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups

LEAVES, PORTS = 12, 16


def verdict(losses: dict[int, Sequence[float]], receivers: dict[int, int] | None = None) -> FaultVerdict:
    """The verdict on a plane of leaves of which some ports lose these shares of their packets, by leaf.

    receivers  by leaf, of how many ports it is seen that packets to them were lost
    """
    n = LEAVES * PORTS
    rows = np.arange(n, dtype=np.int32)
    zero = np.zeros(n, np.int32)
    ids = {"link": rows, "nic": rows, "leaf": rows // PORTS, "pod": zero - 1, "plane": zero, "network": zero}
    ratio = np.full(n, np.nan)
    for leaf, shares in losses.items():
        ratio[leaf * PORTS : leaf * PORTS + len(shares)] = shares
    lossy = np.flatnonzero(np.isfinite(ratio))
    observation = Observation(Groups(ids), lossy, np.zeros(len(lossy)), np.ones(n, np.bool_))
    towards = np.zeros(n, np.bool_)
    for leaf, many in (receivers or {}).items():
        towards[leaf * PORTS : leaf * PORTS + many] = True
    (found,) = gray(observation, ratio, towards)
    return found


def spread(of: Sequence[float], loss: float) -> list[float]:
    return [share * loss for share in of]


SOME = (0.25, 0.25, 0.5, 0.5, 0.75, 1.0) * 2
"""Shares of their packets that ports of other leaves send to a leaf."""


@pytest.mark.parametrize("loss", [3e-4, 2e-3, 0.04])
def test_ports_that_lose_alike_and_most_are_of_a_gray_leaf_though_one_of_their_peers_loses_as_much(loss: float) -> None:
    """The neighbours of its first hosts may send all their packets to it."""
    rng = np.random.default_rng(3)
    mine = loss * (1 + 0.02 * rng.standard_normal(PORTS))
    found = verdict({4: mine.tolist(), 3: spread(SOME, loss)})
    assert (found.mode.name, found.group) == ("leaf losing packets", 4)
    assert found.confidence >= 0.9
    assert found.explained[SymptomType.PACKET_LOSS].tolist() == list(range(4 * PORTS, 5 * PORTS))


def test_a_leaf_whose_ports_lose_unlike_shares_is_not_gray_itself() -> None:
    """What is above it carries some flows of each of its ports."""
    found = verdict({4: spread((0.25, 0.5, 0.75, 1.0) * 4, 2e-3), 3: spread(SOME, 2e-3)})
    assert found.mode.name != "leaf losing packets"


def test_a_leaf_whose_ports_lose_alike_is_not_gray_where_others_lose_more() -> None:
    found = verdict({4: spread((0.5,) * PORTS, 2e-3), 3: spread(SOME, 2e-3)})
    assert (found.mode.name, found.group) != ("leaf losing packets", 4)


UNLIKE = (2e-3, 4e-3, 2e-3, 6e-3, 4e-3, 2e-3)


def test_flows_with_both_ends_below_a_leaf_are_lost_in_it() -> None:
    found = verdict({4: UNLIKE}, {4: 6})
    assert (found.mode.name, found.mode.word, found.group) == ("part of a leaf losing packets", "leaf", 4)
    assert found.confidence >= 0.9


@pytest.mark.parametrize("less", [1.35e-3, 1.5e-3])
def test_losses_that_stand_out_a_little_take_nothing_from_where_flows_end(less: float) -> None:
    """They are 1.4 times those of others, or less."""
    found = verdict({4: (2e-3,) * 16, 7: (less,) * 4}, {4: 16, 7: 4})
    assert (found.mode.word, found.group) == ("leaf", 4)
    assert found.confidence >= 0.9


@pytest.mark.parametrize("receivers", [{}, {3: 3, 5: 3}])
def test_flows_that_may_leave_a_leaf_are_not_lost_in_it_for_sure(receivers: dict[int, int]) -> None:
    """Who receives is not seen, or is elsewhere: an uplink may lose what it sends, and nothing that it receives."""
    found = verdict({4: UNLIKE}, receivers)
    assert (found.mode.word, found.group) == ("uplinks", 4)
    assert found.confidence >= 0.9


def test_losses_at_both_ends_of_an_uplink_are_of_the_uplink() -> None:
    found = verdict({4: UNLIKE, 3: UNLIKE[:2], 5: UNLIKE[:2], 6: UNLIKE[:2]}, {4: 6, 3: 2, 5: 2, 6: 2})
    assert (found.mode.word, found.group) == ("uplinks", 4)


def test_many_ports_that_lose_alike_and_most_are_of_a_part_of_a_leaf() -> None:
    """Of ports that do not lose packets it is not known whether they send any through that part."""
    found = verdict({4: (2e-3,) * 10, 3: spread(SOME, 1e-3)})
    assert (found.mode.name, found.group) == ("part of a leaf losing packets", 4)
    assert found.confidence >= 0.9


def test_half_of_the_ports_that_lose_alike_and_most_name_a_part_of_a_leaf_among_many_others() -> None:
    """The other half send only some packets through it. Of the lossy ports of the plane less than a third are its."""
    others = dict.fromkeys((0, 1, 2, 3, 5, 6, 7, 8), (8e-4, 4e-4, 2e-4, 8e-4, 4e-4))
    found = verdict({4: (2e-3,) * 9 + (4e-4, 8e-4) * 3, **others})
    assert (found.mode.name, found.group) == ("part of a leaf losing packets", 4)
    assert found.confidence >= 0.9


def test_ports_of_an_uplink_lose_alike_on_both_of_its_sides() -> None:
    others = dict.fromkeys((0, 1, 2, 3, 5, 6, 7, 8), (2e-3, 2e-3, 1e-3, 5e-4, 2e-3))
    found = verdict({4: (2e-3,) * 9 + (1e-3, 5e-4) * 3, **others})
    assert found.mode.word != "leaf"


def of_two_leaves(inside: Sequence[float], outside: Sequence[float]) -> FaultVerdict:
    """The verdict on a plane of two leaves: what ports of the first lose, and of the second."""
    n = 2 * PORTS
    rows, zero = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ids = {"link": rows, "nic": rows, "leaf": rows // PORTS, "pod": zero - 1, "plane": zero, "network": zero}
    ratio = np.full(n, np.nan)
    ratio[: len(inside)], ratio[PORTS : PORTS + len(outside)] = inside, outside
    lossy = np.flatnonzero(np.isfinite(ratio))
    observation = Observation(Groups(ids), lossy, np.zeros(len(lossy)), np.ones(n, np.bool_))
    (found,) = gray(observation, ratio, np.zeros(n, np.bool_))
    return found


def test_a_leaf_that_is_half_of_its_plane_is_gray_where_all_of_it_loses_more_than_the_rest() -> None:
    found = of_two_leaves([2e-3] * PORTS, spread((0.25, 0.5, 0.5), 2e-3))
    assert (found.mode.name, found.group) == ("leaf losing packets", 0)
    assert found.confidence >= 0.9


def test_two_leaves_whose_ports_lose_as_much_are_their_plane() -> None:
    assert of_two_leaves(spread(SOME, 2e-3), spread(SOME, 2e-3)).domain == "plane"
    assert of_two_leaves([2e-3] * PORTS, [2e-3] * PORTS).domain == "plane"


@pytest.mark.parametrize(("losses", "domain", "sure"), [
    ({4: [1e-3, 3.3e-4], 5: [3.3e-4]}, "link", False),
    ({4: [1e-3], 3: [3.3e-4], 5: [3.3e-4], 6: [3.3e-4]}, "link", True),
    ({4: [1e-3, 3.3e-4, 3.3e-4, 3.3e-4]}, "plane", False),
])  # fmt: skip
def test_a_port_that_is_likelier_than_all_above_it_is_named_before_it_is_sure(
    losses: dict[int, list[float]], domain: str, sure: bool
) -> None:
    """All hypotheses together leave no doubt that something loses packets: it must not go unsaid."""
    found = verdict(losses)
    assert found.domain == domain
    assert found.confidence >= 0.5
    assert (found.confidence >= 0.9) == sure


def test_the_leaves_at_both_ends_of_an_uplink_are_the_likely_parts_of_the_plane() -> None:
    found = verdict({4: (2e-3,) * 5, 7: (2e-3,) * 3}, {4: 5, 7: 3})
    assert found.domain == "plane"
    assert {(part.mode.word, part.group) for part in found.within} == {("uplinks", 4), ("uplinks", 7)}


def test_a_loss_one_way_between_two_leaves_may_be_on_an_uplink_of_either() -> None:
    found = verdict({4: (2e-3,) * 4}, {7: 4})
    assert found.domain == "plane"
    assert {(part.mode.word, part.group) for part in found.within} == {("uplinks", 4), ("uplinks", 7)}


@pytest.mark.parametrize(("senders", "receivers"), [({4: 6, 8: 2}, {7: 6, 4: 2}), ({7: 6, 4: 2}, {4: 6, 8: 2})])
def test_the_leaf_at_one_end_of_every_lossy_flow_is_the_likeliest(
    senders: dict[int, int], receivers: dict[int, int]
) -> None:
    found = verdict({leaf: (2e-3,) * many for leaf, many in senders.items()}, receivers)
    named = [(part.mode.word, part.group) for part in found.within] or [(found.mode.word, found.group)]
    assert named[0] == ("uplinks", 4)


def test_a_leaf_to_which_packets_of_many_others_are_lost_is_a_part_of_the_plane() -> None:
    found = verdict(dict.fromkeys((1, 2, 3, 5), (2e-3, 2e-3)), {7: 4})
    assert [(part.mode.word, part.group) for part in found.within] == [("uplinks", 7)]
    assert len(found.explained[SymptomType.PACKET_LOSS]) == 8


def test_the_port_that_all_lossy_flows_end_at_is_the_lossy_one() -> None:
    found = verdict(dict.fromkeys((1, 2, 3, 5), (2e-3,)), {7: 1})
    assert (found.mode.name, found.group) == ("link losing packets to its port", 7 * PORTS)
    assert found.confidence >= 0.9


def test_a_loss_from_one_port_to_one_other_is_on_the_cable_of_either() -> None:
    found = verdict({4: (6e-3,)}, {7: 1})
    assert {found.group, *found.series} == {4 * PORTS, 7 * PORTS}
    assert found.domain == "link"


@pytest.mark.parametrize(("seconds", "lasts"), [(30.0, False), (90.0, True)])
def test_the_only_lossy_port_is_reported_when_its_loss_lasts(seconds: float, lasts: bool) -> None:
    n = LEAVES * PORTS
    rows, zero = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ids = {"link": rows, "nic": rows, "leaf": rows // PORTS, "pod": zero - 1, "plane": zero, "network": zero}
    ratio, read = np.full(n, np.nan), np.full(n, np.nan)
    ratio[70], read[70] = 1e-3, seconds
    observation = Observation(Groups(ids), np.array([70]), np.zeros(1), np.ones(n, np.bool_))
    found = gray(observation, ratio, np.zeros(n, np.bool_), read=read)
    assert [(one.domain, one.group, one.confidence >= 0.9) for one in found] == [("link", 70, True)] * lasts


def test_a_leaf_all_of_whose_ports_lose_and_no_other_is_not_the_plane() -> None:
    """All traffic of a rail may stay below its leaf."""
    found = verdict({4: (2e-3,) * PORTS})
    assert (found.domain, found.group) == ("leaf", 4)


def test_that_peers_of_a_port_lose_packets_to_it_shows_at_the_port() -> None:
    loss = {4: (5e-3, 2e-3, 2e-3)}
    at_the_port, elsewhere = verdict(loss, {4: 1, 7: 3}), verdict(loss, {7: 3})
    assert (at_the_port.domain, elsewhere.domain) == ("link", "link")
    assert 1.0 - elsewhere.confidence > 10 * (1.0 - at_the_port.confidence)


def test_a_plane_whose_leaves_lose_alike_has_no_likely_parts() -> None:
    found = verdict(dict.fromkeys(range(LEAVES), (2e-3, 1e-3)))
    assert (found.domain, found.within) == ("plane", ())


@pytest.mark.parametrize("plane", [0, -1])
def test_a_network_of_which_one_leaf_is_known_is_diagnosed(plane: int) -> None:
    """No port is outside of that leaf: whether it, or what is above it, loses packets is not known."""
    rows, zero = np.arange(PORTS, dtype=np.int32), np.zeros(PORTS, np.int32)
    ids = {"link": rows, "nic": rows, "leaf": zero, "pod": zero - 1, "plane": zero + plane, "network": zero}
    ratio = np.full(PORTS, np.nan)
    ratio[1:5] = (1e-3, 2e-3, 3e-3, 1e-3)
    lossy = np.flatnonzero(np.isfinite(ratio))
    observation = Observation(Groups(ids), lossy, np.zeros(len(lossy)), np.ones(PORTS, np.bool_))
    found = gray(observation, ratio, np.isfinite(ratio))
    assert [verdict.domain for verdict in found] in (["plane"], ["link"], [])
