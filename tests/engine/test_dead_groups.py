"""Hosts that die and take their links down: one chassis, rack or power domain, or several hosts."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import MODES
from fabricmon.engine.diagnosis.dead_groups import of_dead_groups
from fabricmon.engine.diagnosis.group_modes import PARTIAL_MODES
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups

SILENT, DOWN = SymptomType.AGENT_SILENT, SymptomType.LINK_DOWN
SILENT_RACK = next(mode for mode in PARTIAL_MODES if mode.name == "hosts of a rack silent")
HOST = next(mode for mode in MODES if mode.name == "host down")


def dead(host: int, onset: float = 100.0) -> FaultVerdict:
    """Two ports of a host are dark, and it does not answer."""
    shown = {SILENT: np.array([host]), DOWN: np.array([2 * host, 2 * host + 1])}
    return FaultVerdict((HOST,), host, 0.99, 0.99, 20.0, shown, onset, {}, (), None)


def observed(group: list[int], rows: list[int], *domains: str) -> Observations:
    groups = Groups({domain: np.array(group, np.int32) for domain in domains or ("chassis",)})
    known = np.ones(len(group), np.bool_)
    return {SILENT: Observation(groups, np.array(rows), np.full(len(rows), 100.0), known)}


def test_two_hosts_of_one_chassis_that_die_with_their_links_are_the_chassis() -> None:
    (found,) = of_dead_groups([dead(2), dead(3)], observed([0, 0, 1, 1], [2, 3]))
    assert (found.domain, found.group, found.mode.kind) == ("chassis", 1, "fault_domain")
    assert found.explained[SILENT].tolist() == [2, 3]
    assert found.effects[DOWN].tolist() == [4, 5, 6, 7]
    assert found.confidence > 0.99


@pytest.mark.parametrize(("chassis", "onsets"), [
    ([0, 0, 1, 1, 2, 2], (100.0, 100.0)), ([-1] * 6, (100.0, 100.0)), ([0] * 6, (100.0, 300.0)),
])  # fmt: skip
def test_hosts_of_several_chassis_or_times_are_hosts(chassis: list[int], onsets: tuple[float, float]) -> None:
    mine = [dead(1, onsets[0]), dead(4, onsets[1])]
    assert of_dead_groups(mine, observed(chassis, [1, 4])) == mine


def test_two_of_forty_hosts_with_one_label_are_two_hosts() -> None:
    mine = [dead(2), dead(3)]
    assert of_dead_groups(mine, observed([0] * 40, [2, 3])) == mine


@pytest.mark.parametrize(("domains", "named"), [
    (("rack",), "rack"), (("power",), "power"), (("rack", "power"), "power"), (("chassis", "rack"), "chassis"),
])  # fmt: skip
@pytest.mark.parametrize("hosts", [3, 4, 8, 18])
def test_hosts_of_a_group_that_go_dark_are_the_group(hosts: int, domains: tuple[str, ...], named: str) -> None:
    group = [0] * 5 + [1] * hosts + [2] * 7
    rows = list(range(5, 5 + hosts))
    outside = dead(0)
    kept, found = of_dead_groups([outside, *map(dead, rows)], observed(group, [0, *rows], *domains))
    assert kept is outside
    assert (found.domain, found.group, found.seen) == (named, 1, True)
    assert found.explained[SILENT].tolist() == rows
    assert len(found.effects[DOWN]) == 2 * hosts


@pytest.mark.parametrize("dark", range(9))
def test_silent_hosts_whose_ports_no_one_sweeps_died_with_most(dark: int) -> None:
    rows = list(range(2, 10))
    found = of_dead_groups([dead(row) for row in rows[:dark]], observed([0, 0, *[1] * 8], rows, "rack"))
    assert [verdict.domain for verdict in found] == (["rack"] if dark >= 4 else ["host"] * dark)
    assert dark < 4 or found[0].explained[SILENT].tolist() == rows


def test_a_group_of_silent_hosts_is_dead_once_they_go_dark() -> None:
    silent = FaultVerdict((SILENT_RACK,), 1, 0.99, 0.99, 20.0, {SILENT: np.arange(4, 8)}, 100.0, {}, (), None)
    (found,) = of_dead_groups([silent, *map(dead, (4, 5, 6))], observed([0] * 4 + [1] * 4, [4, 5, 6, 7], "rack"))
    assert (found.mode.name, found.explained[SILENT].tolist()) == ("hosts of a rack dead", [4, 5, 6, 7])
