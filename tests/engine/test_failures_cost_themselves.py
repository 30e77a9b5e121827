"""A step of the evaluation that raises costs itself: the others go on, and the error is shown."""

from __future__ import annotations

from dataclasses import replace
from math import erfc, exp, gamma, isfinite, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.engine import Engine, evaluation
from fabricmon.engine.incidents.offences import HALF, certainty
from fabricmon.rules import RULES
from fabricmon.rules.rule import Scope


def test_a_symptom_whose_evidence_raises_opens_and_closes(world: Any) -> None:
    def broken(*_: object) -> tuple[()]:
        raise ZeroDivisionError("no readings")

    rules = [replace(rule, evidence=broken) if rule.name == "link_down" else rule for rule in RULES]
    graph = world().graph
    w = world(engine=Engine(Scope.FLEET, graph, {}, "test", rules=rules))
    w.fails = True
    w.break_links([("host-003", 1)])
    w.run(20)
    assert [kind for kind, _ in w.kinds()] == ["link_down"]
    assert w.engine.failures() == {"link_down evidence": "ZeroDivisionError: no readings"}
    w.mend([("host-003", 1)])
    w.run(90)
    assert w.engine.symptoms() == []
    assert w.kinds() == []


def test_a_verdict_that_cannot_be_explained_costs_its_incident_only(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    explained = evaluation.draft_of

    def broken(verdict: Any, context: Any) -> Any:
        draft = explained(verdict, context)
        if "host-003" in draft.component:
            raise OverflowError("too large")
        return draft

    monkeypatch.setattr(evaluation, "draft_of", broken)
    w = world()
    w.fails = True
    w.break_links([("host-003", 1), ("host-006", 2)])
    w.run(30)
    assert [component for _, component in w.kinds()] == ["link(host-006/mlx5_2/1, leaf-0-2/7)"]
    assert w.engine.failures() == {"explanation": "OverflowError: too large"}
    monkeypatch.undo()
    w.run(5)
    assert len(w.kinds()) == 2


def test_a_diagnosis_that_raises_costs_its_tick_and_symptoms_stay(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise IndexError("row 7")

    w = world()
    monkeypatch.setattr(evaluation, "verdicts_of", broken)
    w.fails = True
    w.break_links([("host-003", 1)])
    w.run(20)
    assert [symptom.rule for symptom in w.engine.symptoms()] == ["link_down"]
    assert w.engine.counters()["rule_failures"] > 1
    monkeypatch.undo()
    w.run(5)
    assert [kind for kind, _ in w.kinds()] == ["link_down"]


@given(st.integers(1, 100), st.floats(0.0, 20.0), st.floats(0.5, 20.0))
def test_the_certainty_of_an_offender_is_the_tail_of_its_gamma_distribution(n: int, expected: float, t: float) -> None:
    x = t * HALF * (1.0 + 2.0 * expected)
    if x > 100.0:
        return
    by_definition = erfc(sqrt(x)) + exp(-x) * sum(x ** (j - 0.5) / gamma(j + 0.5) for j in range(1, n + 1))
    assert certainty(n, expected, t) == pytest.approx(min(1.0, by_definition), abs=1e-9)


@given(st.integers(0, 5000), st.floats(0.0, 1e6), st.floats(0.0, 1e3))
def test_any_number_of_incidents_has_a_certainty(count: int, expected: float, times: float) -> None:
    sure = certainty(count, expected, times)
    assert isfinite(sure)
    assert 0.0 <= sure <= 1.0
