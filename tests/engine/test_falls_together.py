"""Ports that fell once or twice with ports that flap: members of what flaps, or chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.falls import COMPARED, fell_alike, fell_beside, fell_with_others
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Groups
from fabricmon.fleet.downs import SOURCES, Downs

NOW, PORTS = 10_000.0, 24
LEAF = np.repeat(np.arange(3, dtype=np.int32), 8)
FLAPS = (9_700.0, 9_760.0, 9_820.0)


def downs_of(falls: dict[int, tuple[float, ...]]) -> Downs:
    downs = Downs(PORTS)
    for at, row in sorted((at, row) for row, times in falls.items() for at in times):
        rows, counts = np.array([row]), np.zeros((SOURCES, 1))
        counts[0] = 1
        downs.add(rows, counts, np.array([at]), np.zeros(1, np.bool_), at, 1.0)
    return downs


def observed(flapping: list[int], **more: list[int]) -> Observations:
    groups, known = Groups({"leaf": LEAF, "module": np.full(PORTS, -1, np.int32)}), np.ones(PORTS, np.bool_)
    found = {SymptomType.LINK_FLAPPING: Observation(groups, np.array(flapping), np.full(len(flapping), 9_820.0), known)}
    if down := more.get("down"):
        found[SymptomType.LINK_DOWN] = Observation(groups, np.array(down), np.full(len(down), 9_820.0), known)
    return found


def fell(observations: Observations, falls: dict[int, tuple[float, ...]]) -> list[int]:
    found = fell_with_others(observations, downs_of(falls), NOW)
    return [] if found is None else found.rows.tolist()


FLAPPING = [0, 1, 2]
FALLS = dict.fromkeys(FLAPPING, FLAPS)


def test_one_fall_with_most_of_the_flapping_ports_of_its_leaf_is_evidence() -> None:
    falls = {**FALLS, 3: (9_764.0,), 4: (9_790.0,), 11: (9_764.0,), 12: (9_701.0, 9_825.0)}
    assert fell(observed(FLAPPING), falls) == [3, 12], "4 fell at another moment, 11 is of another leaf and fell once"


def test_two_flapping_ports_of_a_leaf_are_too_few_for_one_fall() -> None:
    assert fell(observed([0, 1]), {0: FLAPS, 1: FLAPS, 3: (9_764.0,)}) == []


def test_ports_that_fell_twice_with_flapping_ones_are_counted_as_well() -> None:
    falls = {0: FLAPS, 1: FLAPS, 2: FLAPS[:2], 3: (9_764.0,), 4: (9_790.0,), 11: (9_764.0,)}
    assert fell(observed([0, 1]), falls) == [2, 3], "4 fell at another moment, 11 is of another leaf"
    elsewhere = {8: FLAPS, 0: FLAPS[:2], 1: FLAPS[:2], 2: FLAPS[:2], 3: (9_764.0,)}
    assert fell(observed([8]), elsewhere) == [0, 1, 2], "none of their leaf flaps"


def test_a_fall_with_a_minority_of_them_may_be_chance() -> None:
    turns = {row: tuple(at + 20.0 * row for at in FLAPS) for row in FLAPPING}
    assert fell(observed(FLAPPING), {**turns, 3: (9_760.0,)}) == []


def test_one_port_that_falls_again_and_again_is_not_most_of_them() -> None:
    falls = {0: (9_755.0, 9_760.0, 9_765.0), 1: (9_500.0, 9_560.0, 9_620.0), 2: (9_510.0, 9_570.0, 9_900.0)}
    assert fell(observed(FLAPPING), {**falls, 3: (9_764.0,)}) == []
    assert fell(observed(FLAPPING), {**falls, 1: (9_500.0, 9_560.0, 9_772.0), 3: (9_764.0,)}) == [3]


def test_ports_that_fell_together_three_times_are_alike() -> None:
    falls = {
        0: FLAPS, 1: (9_640.0, *(at + 8.0 for at in FLAPS)), 2: (*FLAPS[:2], 9_860.0),
        3: (9_500.0, 9_530.0, 9_560.0), 4: (9_505.0, 9_531.0, 9_558.0, 9_900.0), 5: (9_755.0, 9_760.0, 9_765.0),
    }  # fmt: skip
    flapping = observed([0, 1, 2, 3, 4, 5])[SymptomType.LINK_FLAPPING]
    alike = fell_alike(flapping, downs_of(falls), NOW)
    assert alike is not None
    assert alike.tolist() == [0, 0, -1, 3, 3, -1], "one moment is one, however often a port fell in it"
    count = COMPARED + 1
    many = Observation(flapping.groups, np.arange(count), np.zeros(count), np.ones(count, np.bool_))
    assert fell_alike(many, Downs(count), NOW) is None


def test_falls_of_other_hosts_with_a_flapping_link_of_no_known_leaf_are_no_chance() -> None:
    none, host = np.full(PORTS, -1, np.int32), np.arange(PORTS, dtype=np.int32)
    host[5] = 0
    falls = {0: FLAPS, 1: FLAPS[:2], 2: (FLAPS[0] + 8.0, FLAPS[2]), 3: (FLAPS[0], 9_500.0), 5: FLAPS, 7: FLAPS}
    for leaf, expected in ((none, 0.1**5), (LEAF, 1.0)):
        flapping = Observation(Groups({"leaf": leaf, "host": host}), np.array([0]), np.zeros(1), np.ones(PORTS, bool))
        found = fell_beside(flapping, np.array([1, 2, 3, 5]), downs_of(falls), NOW)
        assert found.tolist() == pytest.approx([expected]), "5 is of its host, 7 did not fall with it"


def test_a_port_that_stays_down_did_not_flap() -> None:
    assert fell(observed(FLAPPING, down=[3]), {**FALLS, 3: (9_764.0,)}) == []


def test_falls_of_long_ago_are_no_evidence() -> None:
    early = tuple(at - 700.0 for at in FLAPS)
    assert fell(observed(FLAPPING), dict.fromkeys(FLAPPING, (*early, *FLAPS)) | {3: (early[1],)}) == []


@given(st.sets(st.integers(0, PORTS - 1), max_size=8), st.sampled_from([*FLAPS, 9_730.0]))
def test_a_further_fall_takes_no_evidence_away(others: set[int], at: float) -> None:
    before = fell(observed(FLAPPING), {**FALLS, 3: (9_764.0,)})
    after = fell(observed(FLAPPING), {**FALLS, 3: (9_764.0,), **dict.fromkeys(others - {0, 1, 2, 3}, (at,))})
    assert set(before) <= set(after)
    assert not set(after) & set(FLAPPING)


def test_what_falls_on_another_leaf_takes_no_port_of_a_module_along() -> None:
    seen = observed([0])
    seen[SymptomType.LINK_FLAPPING].groups.ids["module"][:2] = 0
    falls = {0: FLAPS, 1: (9_730.0,)}
    elsewhere, beside = ({**falls, **dict.fromkeys(rows, (9_731.0,))} for rows in (range(8, 16), (2, 3)))
    assert fell(seen, elsewhere) == [1], "another leaf restarts"
    assert fell(seen, beside) == [], "their own leaf may have"
