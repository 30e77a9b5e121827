"""Hosts that die and take their links down: one chassis, or several hosts."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import MODES
from fabricmon.engine.diagnosis.dead_chassis import of_dead_chassis
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups

SILENT, DOWN = SymptomType.AGENT_SILENT, SymptomType.LINK_DOWN
HOST = next(mode for mode in MODES if mode.name == "host down")


def dead(host: int, onset: float = 100.0) -> FaultVerdict:
    """Two ports of a host are dark, and it does not answer."""
    shown = {SILENT: np.array([host]), DOWN: np.array([2 * host, 2 * host + 1])}
    return FaultVerdict((HOST,), host, 0.99, 0.99, 20.0, shown, onset, {}, (), None)


def observed(chassis: list[int], rows: list[int]) -> Observations:
    groups = Groups({"chassis": np.array(chassis, np.int32)})
    known = np.ones(len(chassis), np.bool_)
    return {SILENT: Observation(groups, np.array(rows), np.full(len(rows), 100.0), known)}


def test_two_hosts_of_one_chassis_that_die_with_their_links_are_the_chassis() -> None:
    (found,) = of_dead_chassis([dead(2), dead(3)], observed([0, 0, 1, 1], [2, 3]))
    assert (found.domain, found.group, found.mode.kind) == ("chassis", 1, "fault_domain")
    assert found.explained[SILENT].tolist() == [2, 3]
    assert found.effects[DOWN].tolist() == [4, 5, 6, 7]
    assert found.confidence > 0.99


@pytest.mark.parametrize(("chassis", "onsets"), [
    ([0, 0, 1, 1, 2, 2], (100.0, 100.0)), ([-1] * 6, (100.0, 100.0)), ([0] * 6, (100.0, 300.0)),
])  # fmt: skip
def test_hosts_of_several_chassis_or_times_are_hosts(chassis: list[int], onsets: tuple[float, float]) -> None:
    mine = [dead(1, onsets[0]), dead(4, onsets[1])]
    assert of_dead_chassis(mine, observed(chassis, [1, 4])) == mine


def test_two_of_forty_hosts_with_one_label_are_two_hosts() -> None:
    mine = [dead(2), dead(3)]
    assert of_dead_chassis(mine, observed([0] * 40, [2, 3])) == mine
