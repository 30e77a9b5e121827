"""Faults that begin at one moment, or beside each other, are told apart by what they can have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.common_cause import CommonCauses
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.group_modes import RUNS, TOGETHER_MODES
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.diagnosis.verdicts import parts_apart, parts_together, with_dark_hosts
from fabricmon.engine.domains.row_domains import RowDomains
from tests.engine.test_many_at_once import DOWN, broken, flaps, of_group, of_hosts

FLAPPING, ERRORS, SILENT = SymptomType.LINK_FLAPPING, SymptomType.LINK_ERRORS, SymptomType.AGENT_SILENT
HOSTS = 32
RUN_OF = {DOWN: "run_down", FLAPPING: "run_flapping", ERRORS: "run_errors"}


class Leaves:
    """Two leaves with a port of each of 32 hosts; row = host * 2 + leaf. Neighbouring ports of them show something."""

    def __init__(self, *shown: tuple[SymptomType, int, Sequence[int], float]) -> None:
        """shown: symptom type, leaf, hosts, onset"""
        self.domains = of_hosts(HOSTS, 2)
        port = self.domains.port
        port.ids["leaf"][:] = np.arange(2 * HOSTS) % 2
        for run in RUNS:
            port.ids[run] = np.full(2 * HOSTS, -1, np.int32)
        rows: dict[SymptomType, list[int]] = {}
        onset: dict[SymptomType, list[float]] = {}
        for kind, leaf, hosts, at in shown:
            port.ids[RUN_OF[kind]][[2 * host + leaf for host in range(min(hosts), max(hosts) + 1)]] = leaf
            rows.setdefault(kind, []).extend(2 * host + leaf for host in hosts)
            onset.setdefault(kind, []).extend([at] * len(hosts))
        known = np.ones(2 * HOSTS, np.bool_)
        self.observations: Observations = {
            kind: Observation(port, np.array(mine), np.array(onset[kind]), known) for kind, mine in rows.items()
        }

    def apart(self) -> list[FaultVerdict]:
        return parts_apart(diagnose(self.observations, 0.0), self.observations, self.domains)


def shown(verdict: FaultVerdict) -> Mapping[SymptomType, list[int]]:
    return {kind: rows.tolist() for kind, rows in verdict.explained.items()}


def test_parts_of_a_leaf_without_a_common_port_are_apart_until_the_common_causes_are_known() -> None:
    leaves = Leaves((DOWN, 0, range(20, 24), 100.0), (FLAPPING, 0, range(8), 140.0))
    (whole,) = diagnose(leaves.observations, 0.0)
    apart = leaves.apart()
    assert sorted((v.domain, v.onset, shown(v)) for v in apart) == [
        ("run_down", 100.0, {DOWN: [40, 42, 44, 46]}), ("run_flapping", 140.0, {FLAPPING: [*range(0, 16, 2)]}),
    ]  # fmt: skip
    (one,) = parts_together(apart)
    assert (one.modes, one.onset, one.gain) == (whole.modes, whole.onset, whole.gain)
    assert shown(one) == shown(whole)


@pytest.mark.parametrize(("kinds", "pieces"), [
    ([(DOWN, 0, [1, 3, 5, 7], 100.0), (FLAPPING, 0, [0, 2, 4, 6], 100.0)], 1),
    ([(DOWN, 0, range(4), 100.0), (FLAPPING, 0, range(10, 18), 100.0), (ERRORS, 0, range(12, 16), 100.0)], 2),
    ([(DOWN, 0, range(4), 100.0), (FLAPPING, 0, range(10, 14), 100.0), (ERRORS, 0, range(20, 24), 100.0)], 3),
    ([(DOWN, 0, range(4), 100.0), (FLAPPING, 1, range(10, 18), 100.0)], 2),
])  # fmt: skip
def test_parts_that_share_ports_are_one(
    kinds: list[tuple[SymptomType, int, Sequence[int], float]], pieces: int
) -> None:
    leaves = Leaves(*kinds)
    whole, apart = diagnose(leaves.observations, 0.0), leaves.apart()
    assert len(apart) == pieces
    assert sorted(map(str, map(shown, parts_together(apart)))) == sorted(map(str, map(shown, whole)))


def test_other_verdicts_are_never_apart_nor_together() -> None:
    common = [
        FaultVerdict((mode,), 0, 0.9, 0.9, 9.0, {kind: np.array([1])}, 100.0, {}, (), None)
        for mode in TOGETHER_MODES[:3] for kind in list(mode.q)[:1]
    ]  # fmt: skip
    verdicts = [*common, of_group("module down", 0, [2, 3]), of_group("leaf down", 1, range(4)), flaps(2, range(8, 12))]
    assert parts_apart(verdicts, {}, of_hosts(8, 2)) == verdicts
    assert parts_together(verdicts) == verdicts


def test_a_part_of_a_leaf_that_flaps_is_named_beside_a_bundle_that_has_cables_of_it() -> None:
    """Seven cables of two leaves are cut, and ten seconds later a part of one of these leaves begins to flap."""
    cut = (DOWN, 0, range(20, 24), 100.0), (DOWN, 1, range(20, 23), 100.0)
    causes, domains = CommonCauses(), Leaves(*cut).domains
    for kinds, words in ((cut, {"common": 7}), ((*cut, (FLAPPING, 0, range(12), 110.0)), {"common": 7, "part": 12})):
        leaves = Leaves(*kinds)
        domains.port.ids.update(leaves.domains.port.ids)
        found = causes.joined(leaves.apart(), leaves.observations, domains, lambda _kind, _rows: True, 115.0)
        assert {v.mode.word: sum(map(len, v.explained.values())) for v in parts_together(found)} == words


@pytest.mark.parametrize(("flapping", "words"), [(1, ["common", "link"]), (0, ["common"])])
def test_a_link_that_flaps_is_named_beside_links_that_went_down_when_it_fell(flapping: int, words: list[str]) -> None:
    """It fell for the first time as they did, is a part of them for that moment, and falls again and again."""
    domains, causes = of_hosts(32, 1), CommonCauses()
    domains.port.ids["leaf"][:] = np.arange(32) // 8
    rows = [0, 5, 11, 17, 23, 30]
    (found,) = causes.joined(broken(rows), {}, domains, lambda _kind, _rows: True, 103.0)
    assert found.explained[DOWN].tolist() == rows
    *others, last = broken(rows)
    if flapping:
        last = replace(last, explained={DOWN: np.array([30]), FLAPPING: np.array([30])})
    later = causes.joined([*others, last], {}, domains, lambda _kind, _rows: True, 140.0)
    assert sorted(verdict.mode.word for verdict in later) == words


@pytest.mark.parametrize(("leaves", "links", "shared", "dead"), [
    (8, 32, True, True),
    (8, 31, True, False),  # one of their links is up
    (1, 4, True, False),  # it may be a part of that leaf, and their way to the server
    (8, 32, False, False),  # these are all hosts of their leaves
])  # fmt: skip
def test_hosts_that_fell_silent_and_all_links_of_which_go_dark_are_dead(
    leaves: int, links: int, shared: bool, dead: bool
) -> None:
    """Four hosts of 16 fall silent, and 20 s later their links are down, as a sweep of the switches shows."""
    domains: RowDomains = of_hosts(16, leaves)
    domains.port.ids["leaf"][:] = np.arange(16 * leaves) % leaves
    if not shared:
        domains.port.ids["leaf"][4 * leaves :] += leaves
    silent, together = (
        next(mode for mode in TOGETHER_MODES if mode.name == name) for name in ("hosts silent", "links down")
    )
    fell = FaultVerdict((silent,), 0, 0.99, 0.99, 50.0, {SILENT: np.arange(4)}, 100.0, {}, (), None)
    dark = FaultVerdict((together,), 0, 0.99, 0.99, 50.0, {DOWN: np.arange(links)}, 120.0, {}, (), None)
    found = with_dark_hosts([fell, dark], domains)
    assert [verdict.mode.name for verdict in found] == (["hosts dead"] if dead else ["hosts silent", "links down"])
    if dead:
        assert found[0].effects[DOWN].tolist() == list(range(links))
    beside = broken([15 * leaves])
    assert len(with_dark_hosts([fell, dark, *beside], domains)) == len(found) + 1, "a link elsewhere is its own"
