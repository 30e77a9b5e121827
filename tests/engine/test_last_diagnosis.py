"""The diagnosis that is kept while its input stays the same, against one that is made anew each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.last_diagnosis import LastDiagnosis
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.runs import LastParts, parts
from fabricmon.engine.domains.groups import Groups
from tests.engine.test_search_is_the_optimum import fabric, small_fabrics

Facts = dict[SymptomType, Observation]
DOWN, SILENT = SymptomType.LINK_DOWN, SymptomType.AGENT_SILENT
LEAF = set(range(1, 32, 4))


def anew(facts: Facts) -> Facts:
    """The same facts in arrays of their own."""
    return {
        kind: Observation(found.groups, found.rows.copy(), found.onset.copy(), found.known.copy())
        for kind, found in facts.items()
    }


@given(st.lists(st.tuples(small_fabrics(), st.sampled_from([0.002, 0.3])), min_size=1, max_size=4))
@settings(max_examples=50)
def test_it_is_what_a_new_diagnosis_would_be(ticks: list[tuple[Facts, float]]) -> None:
    last = LastDiagnosis()
    for facts, silence in [tick for tick in ticks for _ in range(2)]:
        assert repr(last.of(anew(facts), silence)) == repr(diagnose(facts, silence))


def test_the_same_input_is_diagnosed_once() -> None:
    last, facts = LastDiagnosis(), fabric(4, 8, LEAF, set(), set())
    (verdict,) = last.of(facts, 0.002)
    again = anew(facts)
    again[DOWN].groups = Groups({domain: ids.copy() for domain, ids in facts[DOWN].groups.ids.items()})
    assert last.of(again, 0.002)[0] is verdict
    assert last.of(again, 0.2)[0] is verdict, "no agent is silent: nothing depends on how often agents are"


def _row(found: Observation) -> Observation:
    return replace(found, rows=found.rows[1:], onset=found.onset[1:])


def _onset(found: Observation) -> Observation:
    return replace(found, onset=found.onset + np.eye(len(found.rows))[0] * 500.0)


def _known(found: Observation) -> Observation:
    return replace(found, known=found.known & (np.arange(len(found.known)) != 0))


def _leaf(found: Observation) -> Observation:
    other = {**found.groups.ids, "leaf": np.roll(found.groups.ids["leaf"], 4 * 4 + 1)}
    return replace(found, groups=Groups(other))


@pytest.mark.parametrize("change", [_row, _onset, _known, _leaf])
def test_a_change_of_any_part_of_the_input_is_diagnosed(change: Callable[[Observation], Observation]) -> None:
    last, facts = LastDiagnosis(), fabric(4, 8, LEAF, set(), set())
    (verdict,) = last.of(facts, 0.002)
    other = {**facts, DOWN: change(facts[DOWN])}
    assert all(found is not verdict for found in last.of(other, 0.002))
    assert repr(last.of(other, 0.002)) == repr(diagnose(other, 0.002))


def test_the_rate_of_silent_agents_counts_where_one_is_silent() -> None:
    last, facts = LastDiagnosis(), fabric(4, 8, set(), set(), {3})
    facts[SILENT] = Observation(
        Groups({"host": np.arange(8, dtype=np.int32), "power": np.arange(8, dtype=np.int32) // 2}),
        np.array([2, 3]), np.zeros(2), np.ones(8, np.bool_),
    )  # fmt: skip
    assert repr(last.of(facts, 1e-6)) != repr(last.of(facts, 0.9))


def test_groups_that_changed_in_place_are_diagnosed_after_clear() -> None:
    last, facts = LastDiagnosis(), fabric(4, 8, LEAF, set(), set())
    before = last.of(facts, 0.002)
    facts[DOWN].groups.ids["leaf"][:] = -1
    last.clear()
    assert repr(last.of(facts, 0.002)) == repr(diagnose(facts, 0.002)) != repr(before)


def test_parts_of_a_switch_are_looked_for_again_in_other_input_also_in_one_changed_in_place() -> None:
    leaf, socket, known = np.zeros(16, np.int32), np.arange(1, 17, dtype=np.int32), np.ones(16, np.bool_)
    shows, last = (socket > 4) & (socket < 9), LastParts()
    found = last.of("part", leaf, socket, shows, known)
    assert found[0].rows.tolist() == [4, 5, 6, 7]
    assert last.of("part", leaf.copy(), socket, shows, known) is found
    leaf[:] = -1
    assert last.of("part", leaf, socket, shows, known) == parts(leaf, socket, shows, known) == {}
