"""Whether a leaf loses packets, or something above it: what its ports lose beside what others lose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.diagnose import FaultVerdict
from fabricmon.engine.diagnosis.gray import gray
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.groups import Groups

LEAVES, PORTS = 12, 16


def verdict(losses: dict[int, Sequence[float]]) -> FaultVerdict:
    """The verdict on a plane of leaves of which some ports lose these shares of their packets, by leaf."""
    n = LEAVES * PORTS
    rows = np.arange(n, dtype=np.int32)
    zero = np.zeros(n, np.int32)
    ids = {"link": rows, "nic": rows, "leaf": rows // PORTS, "pod": zero - 1, "plane": zero, "network": zero}
    ratio = np.full(n, np.nan)
    for leaf, shares in losses.items():
        ratio[leaf * PORTS : leaf * PORTS + len(shares)] = shares
    lossy = np.flatnonzero(np.isfinite(ratio))
    observation = Observation(Groups(ids), lossy, np.zeros(len(lossy)), np.ones(n, np.bool_))
    (found,) = gray(observation, ratio, np.zeros(n, np.bool_))
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
