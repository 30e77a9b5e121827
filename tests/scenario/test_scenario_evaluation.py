"""What is held against a run, and what is not: incidents made by hand against expectations."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fabricmon.model import Evidence, Incident, Members, Notification, Severity
from fabricmon.sim.scenarios.evaluation import RunEvaluation, Seen, Version, evaluate
from fabricmon.sim.scenarios.scenario import Allowed, CandidateGroup, Expectations, Forbidden, Required
from fabricmon.units import Duration

ZERO = 1_800_000_000.0
CABLE = "link(host-007/mlx5_3/1, su0-rail3-leaf/8)"


def at(
    when: float, kind: str = "link_flapping", component: str = CABLE, severity: Severity = Severity.WARNING,
    status: str = "firing", since: float = 0.0, id: str = "", **other: Any,
) -> Version:
    resolved = ZERO + when if status == "resolved" else None
    given = {
        "resolved": resolved, "confidence": 0.95, "title": "Link flapping", "why": "", "action": "",
        "members": Members(1, 1),
    } | other  # fmt: skip
    return Version(when, Incident(id or component, status, severity, kind, component, ZERO + since, **given))


def seen(
    *versions: Version, told: tuple[Incident, ...] = (), poll: float = 10.0, rates_off: float | None = None
) -> Seen:
    notes = (Notification("k", "default", told, ZERO, "new incident"),) if told else ()
    return Seen(
        versions, notes, ZERO, lambda t: math.ceil(t / poll) * poll, {"second": 33.0},
        None if rates_off is None else (rates_off, "host-001/mlx5_0/1"),
    )


def required(**other: Any) -> Required:
    given: dict[str, Any] = {"kind": "link_flapping", "component": "link(host-007/mlx5_3/1)", "by": Duration(160)}
    return Required(**(given | other))


def verdict(expectation: Required, *versions: Version) -> RunEvaluation:
    return evaluate(Expectations(required=(expectation,)), seen(*versions))


def test_an_incident_in_time_is_found_with_its_delay() -> None:
    found = verdict(required(), at(150))
    assert found.ok
    assert found.found[0].delay == 150


@pytest.mark.parametrize("component", [
    "link(host-007/mlx5_3/1)", CABLE, "link(su0-rail3-leaf/8, host-007/mlx5_3/1)", "link(su0-rail3-leaf/8)",
    "link(host-007/mlx5_3/*)", "link(*, su0-rail3-leaf/*)", "*",
])
def test_a_link_has_two_ends_in_any_order(component: str) -> None:
    assert verdict(required(component=component), at(150)).ok


@pytest.mark.parametrize("component", ["link(host-007/mlx5_3)", "link(host-07/mlx5_3/1)", "nic(host-007/mlx5_3)"])
def test_another_component_is_another_component(component: str) -> None:
    result = verdict(required(component=component), at(150))
    assert len(result.missed) == 1
    assert not result.found


def test_too_late_and_too_early_are_late() -> None:
    assert verdict(required(), at(161)).late
    assert verdict(required(earliest=Duration(150)), at(149)).late
    assert verdict(required(earliest=Duration(150)), at(150)).ok


def test_a_deadline_counts_from_the_first_poll_that_could_see_the_fault() -> None:
    assert verdict(required(by=Duration(20), fault="second"), at(60)).ok  # began at 33 s, first poll at 40 s
    assert verdict(required(by=Duration(20), fault="second"), at(61)).late


def test_the_severity_must_be_reached_in_time_and_not_passed() -> None:
    critical = required(severity=Severity.CRITICAL)
    assert verdict(critical, at(100), at(150, severity=Severity.CRITICAL)).ok
    assert verdict(critical, at(100)).wrong
    assert verdict(critical, at(100), at(170, severity=Severity.CRITICAL)).late
    warning = required(severity=Severity.WARNING)
    assert verdict(warning, at(100), at(300, severity=Severity.CRITICAL)).wrong
    assert verdict(required(severity=(Severity.INFO, Severity.WARNING)), at(100)).ok


def test_confidence_counts_when_it_is_reached() -> None:
    unsure, sure = at(100, confidence=0.7), at(170, confidence=0.99)
    assert verdict(required(confidence=0.9), unsure).wrong
    assert verdict(required(confidence=0.9), unsure, sure).late
    assert verdict(required(confidence=0.9, by=Duration(170)), unsure, sure).ok


@pytest.mark.parametrize(("demand", "met", "unmet"), [
    ({"members": "32 of 32"}, {"members": Members(32, 32)}, {"members": Members(31, 32)}),
    ({"mode": ("leaf down", "leaf *ing")}, {"labels": {"mode": "leaf rebooting"}}, {"labels": {"mode": "rail down"}}),
    ({"labels": {"slow": "true"}}, {"labels": {"slow": "true"}}, {}),
    ({"contains": ("3 DOWNS",)}, {"evidence": (Evidence("x", "3 downs, weighted by age 2.9"),)}, {}),
    ({"candidates": (CandidateGroup("spine(p5-*)", 2),)}, {"candidates": ("spine(p5-1)", "spine(p5-2)")},
     {"candidates": ("spine(p5-1)", "spine(p4-2)")}),
    ({"only_candidates": ("port(*)",)}, {"candidates": ("port(a/1)",)}, {"candidates": ("port(a/1)", "leaf(b)")}),
])  # fmt: skip
def test_what_is_demanded_of_an_incident(demand: dict[str, Any], met: dict[str, Any], unmet: dict[str, Any]) -> None:
    assert verdict(required(**demand), at(150, **met)).ok
    assert verdict(required(**demand), at(150, **unmet)).wrong


def test_a_resolution_has_its_time_too() -> None:
    expectation = required(resolved_from=Duration(1000), resolved_by=Duration(2000))
    assert verdict(expectation, at(150)).wrong
    assert verdict(expectation, at(150), at(1500, status="resolved")).ok
    assert verdict(expectation, at(150), at(900, status="resolved")).wrong
    assert verdict(expectation, at(150), at(2100, status="resolved")).wrong
    again = (at(150), at(1500, status="resolved"), at(1600))
    assert verdict(expectation, *again).wrong


def test_two_requirements_may_ask_for_one_incident() -> None:
    both = (required(incident="a"), required(kind="link_down", incident="a"))
    assert evaluate(Expectations(required=both), seen(at(100), at(120, kind="link_down"))).ok
    apart = evaluate(Expectations(required=both), seen(at(100), at(120, kind="link_down", id="another")))
    assert len(apart.missed) == 1


def test_forbidden_ones_count_once_an_incident_and_only_in_their_time() -> None:
    rule = Forbidden(kind="link_flapping", earliest=Duration(200))
    result = evaluate(Expectations(forbidden=(rule,)), seen(at(150), at(210), at(220), at(230, status="resolved")))
    assert len(result.false) == 1
    assert evaluate(Expectations(forbidden=(rule,)), seen(at(150), at(210, status="resolved"))).ok
    assert evaluate(Expectations(forbidden=(Forbidden(but=("link(host-007/mlx5_3/1)",)),)), seen(at(150))).ok
    assert evaluate(Expectations(forbidden=(Forbidden(severity=Severity.CRITICAL),)), seen(at(150))).ok
    assert not evaluate(Expectations(forbidden=(Forbidden(labels={"slow": ""}),)), seen(at(150))).ok


def test_only_lets_pass_what_is_required_allowed_or_info() -> None:
    stray = at(150, "link_errors", "link(host-001/mlx5_0/1)")
    only = Expectations(required=(required(),), only=True)
    assert len(evaluate(only, seen(at(150), stray)).false) == 1
    info = at(150, "link_errors", "link(host-001/mlx5_0/1)", Severity.INFO)
    assert evaluate(only, seen(at(150), info)).ok
    allowed = Expectations(required=(required(),), only=True, allowed=(Allowed(kind="link_errors"),))
    assert evaluate(allowed, seen(at(150), stray)).ok
    assert not evaluate(Expectations(only=True, allowed=(Allowed(severity=Severity.INFO),)), seen(stray)).ok


def test_the_same_incident_under_its_first_kind_is_excused() -> None:
    down_first = at(100, "link_down", id="one")
    assert evaluate(Expectations(required=(required(),), only=True), seen(down_first, at(150, id="one"))).ok


def test_no_incident_begins_in_the_future() -> None:
    assert len(evaluate(Expectations(), seen(at(150, since=155))).false) == 1
    assert evaluate(Expectations(), seen(at(150, since=150))).ok


def test_more_notifications_than_expected_are_a_failure() -> None:
    told = (at(150).incident, at(150, component="link(x)").incident)
    assert evaluate(Expectations(notifications=2), seen(told=told)).ok
    result = evaluate(Expectations(notifications=1), seen(told=told))
    assert result.notified == 2
    assert len(result.false) == 1


def test_rates_may_be_off_by_so_much() -> None:
    assert evaluate(Expectations(rates=0.05), seen(rates_off=0.04)).ok
    assert not evaluate(Expectations(rates=0.05), seen(rates_off=0.06)).ok
    assert not evaluate(Expectations(rates=0.05), seen(rates_off=math.nan)).ok
