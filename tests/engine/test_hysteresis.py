"""The state machine of one rule, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.engine.symptoms.rule_state import RuleState
from fabricmon.model import ComponentId, Evidence, Kind, Severity, SymptomChange
from fabricmon.rules.promql import not_expressible
from fabricmon.rules.rule import Outcome, Rule, RuleParams, Scope


class Params(RuleParams, frozen=True):
    hold: float = 5.0
    clear: float = 10.0


RULE = Rule(
    name="broken",
    kind="link_down",
    table=Kind.PORT,
    severity=Severity.WARNING,
    scope=Scope.NODE,
    params=Params,
    test=lambda view, params: view,
    evidence=lambda view, row, params: (),
    title="Broken",
    why="",
    decision="",
    action="",
    promql=not_expressible(""),
)
IDS = [ComponentId(Kind.PORT, "h", f"p{n}/1") for n in range(4)]
READ = lambda row: ((Evidence(str(IDS[row]), "seen"),), {"row": str(row)})  # noqa: E731


def outcome(fire: str, known: str = "1111", severity: Any = None, since: Any = None) -> Outcome:
    """One character a row: 1 fires, 0 is clear, - neither."""
    return Outcome(
        np.array([c == "1" for c in fire]),
        np.array([c == "0" for c in fire]),
        np.array([c == "1" for c in known]),
        np.arange(len(fire), dtype=float),
        severity,
        since,
    )


def told(changes: list[SymptomChange]) -> list[tuple[str, bool]]:
    return [(c.symptom.component.name, c.opened) for c in changes]


def test_it_opens_after_the_hold_and_closes_after_the_clear_hold() -> None:
    rule_state = RuleState(RULE, Params())
    assert rule_state.advance(outcome("1000"), IDS, 0.0, READ) == []
    assert rule_state.advance(outcome("1000"), IDS, 4.9, READ) == []
    opened = rule_state.advance(outcome("1000"), IDS, 5.0, READ)
    assert told(opened) == [("p0/1", True)]
    assert (opened[0].symptom.since, opened[0].at, opened[0].symptom.info) == (0.0, 5.0, {"row": "0"})
    assert rule_state.advance(outcome("0000"), IDS, 6.0, READ) == []
    assert rule_state.advance(outcome("1000"), IDS, 15.0, READ) == []
    assert rule_state.advance(outcome("0000"), IDS, 16.0, READ) == []
    assert told(rule_state.advance(outcome("0000"), IDS, 26.0, READ)) == [("p0/1", False)]


def test_between_the_levels_it_stays_what_it_is() -> None:
    rule_state = RuleState(RULE, Params(0.0, 0.0))
    rule_state.advance(outcome("1000"), IDS, 0.0, READ)
    assert rule_state.advance(outcome("----"), IDS, 100.0, READ) == []
    assert list(rule_state.open) == [0]


def test_an_unknown_row_keeps_its_state() -> None:
    rule_state = RuleState(RULE, Params(0.0, 0.0))
    rule_state.advance(outcome("1000"), IDS, 0.0, READ)
    assert rule_state.advance(outcome("0111", known="0000"), IDS, 1e6, READ) == []
    assert list(rule_state.open) == [0]


def test_a_row_that_was_never_known_never_fires() -> None:
    rule_state = RuleState(RULE, Params(0.0, 0.0))
    for now in range(100):
        assert rule_state.advance(outcome("1111", known="0000"), IDS, float(now), READ) == []


def test_the_time_a_fault_began_before_the_tick_counts_towards_the_hold() -> None:
    rule_state = RuleState(RULE, Params())
    changes = rule_state.advance(outcome("1000", since=np.array([91.0, np.nan, np.nan, np.nan])), IDS, 100.0, READ)
    assert told(changes) == [("p0/1", True)]
    assert changes[0].symptom.since == 91.0


def test_an_onset_is_never_in_the_future() -> None:
    rule_state = RuleState(RULE, Params(0.0, 0.0))
    (change,) = rule_state.advance(outcome("1000", since=np.full(4, 5000.0)), IDS, 100.0, READ)
    assert change.symptom.since == 100.0


def test_severity_rises_within_an_episode_and_never_falls() -> None:
    rule_state = RuleState(RULE, Params(0.0, 0.0))
    rank = np.array([1, 1, 1, 1], np.int8)
    rule_state.advance(outcome("1000", severity=rank), IDS, 0.0, READ)
    (risen,) = rule_state.advance(outcome("1000", severity=rank + 1), IDS, 1.0, READ)
    assert (risen.symptom.severity, risen.opened) == (Severity.CRITICAL, True)
    assert rule_state.advance(outcome("1000", severity=rank), IDS, 2.0, READ) == []
    assert rule_state.open[0].symptom.severity is Severity.CRITICAL


def test_a_component_that_left_takes_its_symptom_along() -> None:
    rule_state = RuleState(RULE, Params(0.0, 0.0))
    rule_state.advance(outcome("1100"), IDS, 0.0, READ)
    assert told(rule_state.drop([1, 2], 1.0, "gone")) == [("p1/1", False)]
    assert list(rule_state.open) == [0]


def test_rows_may_be_added_at_any_tick() -> None:
    rule_state = RuleState(RULE, Params(0.0, 0.0))
    rule_state.advance(outcome("10", known="11"), IDS[:2], 0.0, READ)
    assert told(rule_state.advance(outcome("1001"), IDS, 1.0, READ)) == [("p3/1", True)]


@given(st.lists(st.tuples(st.text("10-", min_size=3, max_size=3), st.text("10", min_size=3, max_size=3)), max_size=40))
@settings(max_examples=150)
def test_openings_and_closings_alternate_and_need_a_known_reading(steps: list[tuple[str, str]]) -> None:
    rule_state = RuleState(RULE, Params(2.0, 2.0))
    is_open: set[str] = set()
    for now, (fire, known) in enumerate(steps):
        for name, opened in told(rule_state.advance(outcome(fire, known), IDS[:3], float(now), READ)):
            row = int(name[1])
            assert known[row] == "1"
            assert fire[row] == ("1" if opened else "0")
            assert (name in is_open) is not opened
            (is_open.add if opened else is_open.discard)(name)
    assert {f"p{row}/1" for row in rule_state.open} == is_open
