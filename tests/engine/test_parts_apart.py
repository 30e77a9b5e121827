"""Parts of one switch that have no port in common may have different causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.common_cause import CommonCauses
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.group_modes import RUNS, TOGETHER_MODES
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.diagnosis.verdicts import parts_apart, parts_together
from tests.engine.test_many_at_once import DOWN, flaps, of_group, of_hosts

FLAPPING, ERRORS = SymptomType.LINK_FLAPPING, SymptomType.LINK_ERRORS
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
        return parts_apart(diagnose(self.observations, 0.0))


def shown(verdict: FaultVerdict) -> Mapping[SymptomType, list[int]]:
    return {kind: rows.tolist() for kind, rows in verdict.explained.items()}


def test_parts_of_a_leaf_without_a_common_port_are_apart_until_the_common_causes_are_known() -> None:
    leaves = Leaves((DOWN, 0, range(20, 24), 100.0), (FLAPPING, 0, range(8), 140.0))
    (whole,) = diagnose(leaves.observations, 0.0)
    apart = leaves.apart()
    for verdict, kind, at in zip(apart, (FLAPPING, DOWN), (140.0, 100.0), strict=True):
        alone = Leaves((kind, 0, range(8) if kind is FLAPPING else range(20, 24), at))
        (own,) = diagnose(alone.observations, 0.0)
        assert (verdict.modes, shown(verdict), verdict.onset) == (own.modes, shown(own), at)
        assert verdict.silent == own.silent, "as if there were no other part"
        assert verdict.apart is not None
        assert verdict.apart[0] == len(own.explained[kind]), "so many links"
        assert verdict.gain == pytest.approx(own.gain)
    for order in (apart, apart[::-1]):
        (one,) = parts_together(order)
        assert (one.modes, one.onset, one.gain) == (whole.modes, whole.onset, whole.gain)
        assert shown(one) == shown(whole)


def test_what_else_a_switch_explains_stays_with_the_surer_part() -> None:
    (whole,) = diagnose(Leaves((DOWN, 0, range(20, 24), 100.0), (FLAPPING, 0, range(8), 140.0)).observations, 0.0)
    whole = replace(whole, effects={DOWN: np.array([61]), SymptomType.PACKET_LOSS: np.array([3])})
    first, second = apart = parts_apart([whole])
    assert (first.effects, second.effects) == (whole.effects, {})
    (one,) = parts_together(apart)
    assert {kind: rows.tolist() for kind, rows in one.effects.items()} == {DOWN: [61], SymptomType.PACKET_LOSS: [3]}
    renamed = replace(whole, modes=(TOGETHER_MODES[0],))
    assert parts_apart([renamed]) == [renamed], "it is a verdict on something else now"


@pytest.mark.parametrize(("kinds", "pieces"), [
    ([(DOWN, 0, [1, 3, 5, 7], 100.0), (FLAPPING, 0, [0, 2, 4, 6], 100.0)], 1),
    ([(DOWN, 0, range(4), 100.0), (FLAPPING, 0, range(10, 18), 100.0), (ERRORS, 0, range(12, 16), 100.0)], 2),
    ([(DOWN, 0, range(4), 100.0), (FLAPPING, 0, range(10, 14), 100.0), (ERRORS, 0, range(20, 24), 100.0)], 3),
    ([(DOWN, 0, range(4), 100.0), (FLAPPING, 0, range(12), 100.0), (ERRORS, 0, range(8, 12), 100.0)], 1),
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
    assert parts_apart(verdicts) == verdicts
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


def test_a_part_that_flaps_has_a_message_beside_a_bundle_with_cables_of_its_leaf(world: Any) -> None:
    """Through the engine: the bundle has cables of two leaves, and keeps all of them."""
    w = world(hosts=64)
    cut = [*((at, 0) for at in range(40, 44)), *((at, 1) for at in range(40, 43))]
    bundle = {(f"host-{host:03d}", rail) for host, rail in cut}
    w.break_links(bundle)
    w.run(30)
    part = {(f"host-{host:03d}", 0) for host in range(12)}
    for _ in range(4):
        w.break_links(part)
        w.run(3)
        w.mend(part)
        w.run(12)
    w.run(30)
    assert sorted((i.component.partition("(")[0], i.members.bad) for i in w.firing("warning")) == [
        ("common", 7), ("part", 12),
    ]  # fmt: skip
    assert {component.partition("(")[0] for _, component in w.told()} == {"common", "part"}
