"""Rules whose conditions a rule evaluator (Prometheus, Thanos Ruler, Mimir, vmalert) evaluates. Pure.

An alert goes on until the rule evaluator reported its end, evaluated that rule, scraped the node, and the component
still existed afterwards. A rule evaluator that is away, a rule it does not evaluate, a node it cannot scrape and a
component that is gone end nothing: absence is never recovery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.fleet.table import FREE
from fabricmon.fleet.view import View
from fabricmon.model import ComponentId, Evidence, Severity
from fabricmon.rules.rule import Outcome, Rule, reading


class FiringAlert(Struct, frozen=True):
    """One firing alert of a rule and component.

    since  wall time from which its condition held, NaN unknown
    case   which of the rule's conditions it is; "" for the only one
    """

    rule: str
    component: ComponentId
    severity: Severity
    since: float
    case: str = ""


class EvaluatorReport(Struct, frozen=True):
    """The alerts of a rule evaluator at one time.

    at        wall time of the request
    alerts    all that fire
    whole     `alerts` is complete
    fresh     rules that it evaluated recently
    up        nodes that it scrapes
    """

    at: float
    alerts: Sequence[FiringAlert]
    whole: bool
    fresh: frozenset[str]
    up: frozenset[str]


@dataclass(slots=True)
class EvaluatorAlerts:
    """Alerts that a rule evaluator reports as firing.

    firing   rule -> component -> alert
    nodes    bool by the node's number in the fleet: the rule evaluator covers the node
    waiting  an alert stopped firing and its component was not confirmed since
    """

    firing: dict[str, dict[ComponentId, FiringAlert]] = field(default_factory=dict)
    nodes: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    waiting: bool = False
    _stopped: dict[tuple[str, ComponentId], float] = field(default_factory=dict)

    def update(self, report: EvaluatorReport) -> None:
        """Take a report. An alert that it lacks fires until `confirm`."""
        reported: dict[str, dict[ComponentId, FiringAlert]] = {}
        for alert in report.alerts:
            of_rule = reported.setdefault(alert.rule, {})
            before = of_rule.get(alert.component)
            of_rule[alert.component] = alert if before is None else _worse(before, alert)
        for rule, alerts in reported.items():
            self.firing.setdefault(rule, {}).update(alerts)
        for rule, components in self.firing.items():
            now = reported.get(rule, {})
            for component in components:
                key = (rule, component)
                if component in now:
                    self._stopped.pop(key, None)
                elif report.whole and rule in report.fresh and component.node in report.up:
                    self._stopped.setdefault(key, report.at)
                else:
                    self._stopped.pop(key, None)
        self.waiting = bool(self._stopped)

    def confirm(self, components: Collection[ComponentId], at: float) -> None:
        """End the alerts that stopped firing before `at` and whose component existed at `at`."""
        for key, stopped in list(self._stopped.items()):
            rule, component = key
            if stopped <= at and component in components:
                del self._stopped[key]
                del self.firing[rule][component]
        self.waiting = bool(self._stopped)

    def forget(self, node: str) -> None:
        """Drop the alerts of a node that is no longer expected."""
        for rule, alerts in self.firing.items():
            for component in [c for c in alerts if c.node == node]:
                del alerts[component]
                self._stopped.pop((rule, component), None)

    def components(self) -> Iterable[ComponentId]:
        """All components with a firing alert."""
        return (component for alerts in self.firing.values() for component in alerts)


def evaluator_rules(rules: Sequence[Rule], evaluator: EvaluatorAlerts, own: bool) -> tuple[Rule, ...]:
    """The same rules, with the alerts of the rule evaluator as outcome of the nodes that it covers.

    own  evaluate the other nodes by the rules' own tests; else they are unknown
    """
    return tuple(_evaluator_rule(rule, evaluator, own) for rule in rules)


def _evaluator_rule(rule: Rule, evaluator: EvaluatorAlerts, own: bool) -> Rule:
    def alert_of(view: View, row: int) -> FiringAlert | None:
        return evaluator.firing.get(rule.name, {}).get(view.table.ids[row])

    def test(view: View, params: Any) -> Outcome:
        theirs = outcome(view, rule, evaluator)
        return theirs if not own else _either(theirs, rule.test(view, params), evaluated_rows(view, evaluator))

    def evidence(view: View, row: int, params: Any) -> tuple[Evidence, ...]:
        if own and not evaluated_rows(view, evaluator)[row]:
            return rule.evidence(view, row, params)
        alert = alert_of(view, row)
        if alert is None:
            return (reading("the alert of the rule evaluator has ended", for_it=False),)
        case = f", {alert.case}" if alert.case else ""
        return (reading(f"alert of the rule evaluator: {rule.title} ({alert.severity}{case})"),)

    def info(view: View, row: int, params: Any) -> dict[str, str]:
        if own and not evaluated_rows(view, evaluator)[row]:
            return rule.info(view, row, params)
        alert = alert_of(view, row)
        return {"evaluated_by": "rule evaluator"} | ({alert.case: "true"} if alert is not None and alert.case else {})

    return replace(rule, test=test, evidence=evidence, info=info)


def evaluated_rows(view: View, evaluator: EvaluatorAlerts) -> NDArray[np.bool_]:
    """Per row whether the rule evaluator covers its node."""
    numbers = view.node
    inside = (numbers != FREE) & (numbers < len(evaluator.nodes))
    found = np.zeros(view.n, np.bool_)
    found[inside] = evaluator.nodes[numbers[inside]]
    return found


def outcome(view: View, rule: Rule, evaluator: EvaluatorAlerts) -> Outcome:
    """The alerts as an outcome. A row without an alert is known to be healthy while its node reports."""
    n = view.n
    fire = np.zeros(n, np.bool_)
    severity = np.full(n, rule.severity.rank, np.int8)
    since = np.full(n, np.nan)
    for component, alert in evaluator.firing.get(rule.name, {}).items():
        row = view.table.row(component)
        if row is not None:
            fire[row], severity[row], since[row] = True, alert.severity.rank, alert.since
    reporting = view.reporting() & view.present
    value = np.where(fire, 1.0, 0.0)
    return Outcome(fire, ~fire, evaluated_rows(view, evaluator) & (fire | reporting), value, severity, since)


def _either(theirs: Outcome, ours: Outcome, of_theirs: NDArray[np.bool_]) -> Outcome:
    """`theirs` for the rows that the evaluator covers, `ours` for the rest."""
    own = replace(
        ours,
        severity=theirs.severity if ours.severity is None else ours.severity,
        since=np.full(len(of_theirs), np.nan) if ours.since is None else ours.since,
    )
    names = ("fire", "clear", "known", "value", "severity", "since")
    return Outcome(*(np.where(of_theirs, getattr(theirs, name), getattr(own, name)) for name in names))


def _worse(one: FiringAlert, other: FiringAlert) -> FiringAlert:
    worst = max(one, other, key=lambda alert: alert.severity.rank)
    known = [since for since in (one.since, other.since) if since == since]
    return FiringAlert(worst.rule, worst.component, worst.severity, min(known, default=float("nan")), worst.case)
