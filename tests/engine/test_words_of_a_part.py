"""A group is down where nearly all of it is; of a part of it the incident names how much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import MODES
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.incidents.explain import is_partly

DOWN, FLAPPING = SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING


def verdict(name: str, shown: dict[SymptomType, list[int]], observed: int) -> FaultVerdict:
    mode = next(mode for mode in MODES if mode.name == name)
    explained = {kind: np.array(rows, np.int64) for kind, rows in shown.items()}
    silent = {kind: observed - len(rows) for kind, rows in shown.items()}
    return FaultVerdict((mode,), 0, 0.99, 0.99, 50.0, explained, 100.0, silent, (), None)


@given(bad=st.integers(2, 60), healthy=st.integers(0, 60))
def test_a_part_is_less_than_four_of_five_observed_members(bad: int, healthy: int) -> None:
    assert is_partly(verdict("rail down", {DOWN: list(range(bad))}, bad + healthy)) is (bad < 0.8 * (bad + healthy))


def test_members_count_once_whatever_they_show() -> None:
    """A leaf restarts: some of its links are down, all others flapped."""
    shown = {DOWN: list(range(16)), FLAPPING: list(range(16, 32))}
    assert not is_partly(verdict("leaf rebooting", shown, 32))
    assert is_partly(verdict("leaf rebooting", shown, 64))


def test_what_was_not_observed_makes_no_part() -> None:
    assert not is_partly(verdict("leaf down", {DOWN: [1, 2, 3]}, 3))


@pytest.mark.parametrize(("hosts", "whole"), [(3, False), (5, False), (7, True), (8, True)])
def test_a_rail_of_which_most_links_are_up_is_not_down(world: Any, hosts: int, whole: bool) -> None:
    w = world(topology=False)
    w.break_links(w.ports(w.hosts[:hosts], rail=1))
    w.run(40)
    found = [incident for incident in w.firing() if incident.component == "rail(1)"]
    for incident in found:
        title = f"Rail 1 is down: {hosts} of 8 links" if whole else f"{hosts} of 8 links of rail 1 went down together"
        assert incident.title == title
        assert ("and others of the rail did not" in incident.why) is not whole
    assert found or not whole


@pytest.mark.parametrize("rails", [3, 4])
def test_links_of_a_host_that_stay_up_are_named(world: Any, rails: int) -> None:
    w = world()
    w.break_links({("host-003", rail) for rail in range(rails)})
    w.run(150)
    (incident,) = w.firing()
    assert incident.component == "host(host-003)"
    assert ("others of its links are up" in incident.why) is (rails < 4)


def test_many_links_below_their_rate_did_not_come_up_at_a_moment(world: Any) -> None:
    w = world(units=2, hosts=16, topology=False)
    w.half |= w.ports(w.hosts[:6], rail=1)
    w.run(200)
    for incident in w.firing():
        assert "came up" not in f"{incident.title} {incident.why}"
