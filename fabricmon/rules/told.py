"""Rules whose conditions another engine evaluates: a ruler says which alerts fire, and that is the outcome. Pure.

What fires goes on until the ruler says otherwise and could know: it evaluated that rule, it reads the node, and the
component was still there afterwards. A ruler that is away, a rule it does not evaluate, a node it cannot scrape and a
component that is gone say nothing: absence is never recovery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.fleet.table import NOBODY
from fabricmon.fleet.view import FRESH_AT_LEAST, View
from fabricmon.model import ComponentId, Evidence, Severity
from fabricmon.rules.rule import Outcome, Rule


class Alert(Struct, frozen=True):
    """One firing alert of a rule and component.

    since  wall time from which its condition held, NaN where the ruler does not tell
    case   which of the rule's conditions it is; "" for the only one
    """

    rule: str
    component: ComponentId
    severity: Severity
    since: float
    case: str = ""


class Report(Struct, frozen=True):
    """What a ruler said at one time.

    at        wall time of the question
    alerts    all that fire
    whole     nothing was left out: what is not among the alerts does not fire
    fresh     rules that it evaluated a short while ago
    up        nodes that it reads
    """

    at: float
    alerts: Sequence[Alert]
    whole: bool
    fresh: frozenset[str]
    up: frozenset[str]


@dataclass(slots=True)
class Told:
    """What is firing by the word of a ruler.

    firing   rule -> component -> alert
    nodes    nodes that the ruler speaks for, by their number in the fleet
    waiting  whether something stopped firing and nobody looked since whether it is still there
    """

    firing: dict[str, dict[ComponentId, Alert]] = field(default_factory=dict)
    nodes: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    waiting: bool = False
    _stopped: dict[tuple[str, ComponentId], float] = field(default_factory=dict)

    def take(self, report: Report) -> None:
        """What the ruler said now. What it does not say any more goes on for the time being."""
        said: dict[str, dict[ComponentId, Alert]] = {}
        for alert in report.alerts:
            of_rule = said.setdefault(alert.rule, {})
            before = of_rule.get(alert.component)
            of_rule[alert.component] = alert if before is None else _worse(before, alert)
        for rule, alerts in said.items():
            self.firing.setdefault(rule, {}).update(alerts)
        for rule, components in self.firing.items():
            now = said.get(rule, {})
            for component in components:
                key = (rule, component)
                if component in now:
                    self._stopped.pop(key, None)
                elif report.whole and rule in report.fresh and component.node in report.up:
                    self._stopped.setdefault(key, report.at)
                else:
                    self._stopped.pop(key, None)
        self.waiting = bool(self._stopped)

    def there(self, components: Collection[ComponentId], at: float) -> None:
        """What there is, by an answer to a question of `at`: of that, what had stopped firing before has ended."""
        for key, stopped in list(self._stopped.items()):
            rule, component = key
            if stopped <= at and component in components:
                del self._stopped[key]
                del self.firing[rule][component]
        self.waiting = bool(self._stopped)

    def forget(self, node: str) -> None:
        """The node is no longer expected."""
        for rule, alerts in self.firing.items():
            for component in [c for c in alerts if c.node == node]:
                del alerts[component]
                self._stopped.pop((rule, component), None)

    def components(self) -> Iterable[ComponentId]:
        """All that something fires of."""
        return (component for alerts in self.firing.values() for component in alerts)


def told_rules(rules: Sequence[Rule], told: Told, own: bool) -> tuple[Rule, ...]:
    """The same rules, judged by the ruler's word on the nodes that it speaks for.

    own  the others are judged by the rules themselves; else nothing is known of them
    """
    return tuple(_told(rule, told, own) for rule in rules)


def _told(rule: Rule, told: Told, own: bool) -> Rule:
    def alert_of(view: View, row: int) -> Alert | None:
        return told.firing.get(rule.name, {}).get(view.table.ids[row])

    def test(view: View, params: Any) -> Outcome:
        theirs = outcome(view, rule, told)
        return theirs if not own else _either(theirs, rule.test(view, params), spoken_for(view, told))

    def evidence(view: View, row: int, params: Any) -> tuple[Evidence, ...]:
        if own and not spoken_for(view, told)[row]:
            return rule.evidence(view, row, params)
        alert = alert_of(view, row)
        component = str(view.table.ids[row])
        if alert is None:
            return (Evidence(component, "the ruler's alert has ended", for_it=False),)
        case = f", {alert.case}" if alert.case else ""
        return (Evidence(component, f"alert of the ruler: {rule.title} ({alert.severity}{case})"),)

    def info(view: View, row: int, params: Any) -> dict[str, str]:
        if own and not spoken_for(view, told)[row]:
            return rule.info(view, row, params)
        alert = alert_of(view, row)
        return {"told_by": "ruler"} | ({alert.case: "true"} if alert is not None and alert.case else {})

    return replace(rule, test=test, evidence=evidence, info=info)


def spoken_for(view: View, told: Told) -> NDArray[np.bool_]:
    """Per row whether the ruler speaks for its node."""
    numbers = view.node
    inside = (numbers != NOBODY) & (numbers < len(told.nodes))
    found = np.zeros(view.n, np.bool_)
    found[inside] = told.nodes[numbers[inside]]
    return found


def outcome(view: View, rule: Rule, told: Told) -> Outcome:
    """The ruler's word on every row. What does not fire is known to be well while its node is read."""
    n = view.n
    fire = np.zeros(n, np.bool_)
    severity = np.full(n, rule.severity.rank, np.int8)
    since = np.full(n, np.nan)
    for component, alert in told.firing.get(rule.name, {}).items():
        row = view.table.row(component)
        if row is not None:
            fire[row], severity[row], since[row] = True, alert.severity.rank, alert.since
    with np.errstate(invalid="ignore"):
        heard = (view.heard() <= FRESH_AT_LEAST) & view.present
    value = np.where(fire, 1.0, 0.0)
    return Outcome(fire, ~fire, spoken_for(view, told) & (fire | heard), value, severity, since)


def _either(theirs: Outcome, ours: Outcome, of_theirs: NDArray[np.bool_]) -> Outcome:
    def picked(a: NDArray[Any], b: NDArray[Any] | None, default: Any) -> NDArray[Any]:
        return np.where(of_theirs, a, default if b is None else b)

    assert theirs.severity is not None
    assert theirs.since is not None
    return Outcome(
        picked(theirs.fire, ours.fire, False),
        picked(theirs.clear, ours.clear, False),
        picked(theirs.known, ours.known, False),
        picked(theirs.value, ours.value, np.nan),
        picked(theirs.severity, ours.severity, theirs.severity),
        picked(theirs.since, ours.since, np.nan),
    )


def _worse(one: Alert, other: Alert) -> Alert:
    worst = max(one, other, key=lambda alert: alert.severity.rank)
    known = [since for since in (one.since, other.since) if since == since]
    return Alert(worst.rule, worst.component, worst.severity, min(known, default=float("nan")), worst.case)
