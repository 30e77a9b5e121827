"""The rules as a rule file of Prometheus, Thanos Ruler, Mimir or vmalert, with the limits in force. Pure.

One group a rule, since a group is evaluated in order and an alert needs its recordings; recordings that are evaluated
seldom are a group of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct

from fabricmon.catalogue.series import template
from fabricmon.forms.readable import first_step
from fabricmon.model import Severity
from fabricmon.rules.promql import UP, Alert, RecordingRule, span
from fabricmon.rules.rule import Rule

EVALUATED = "fabricmon:rule:evaluated"
"""When the rule evaluator last evaluated a rule, seconds since the epoch, by `rule`: distinguishes "no alert" from "not
evaluated"."""

VALUE = "{{ $value | humanize }}"
"""The value of the expression in an annotation, in the template language of Prometheus."""

_LIMIT = re.compile(r"(?:(?! (?:and|or|unless) ).)* ([<>]=?) ([-+.\de]+)")
"""An expression that only compares with a number: its comparison and limit."""

PREFIX = "Fabricmon"
"""Begins the name of every alert."""

_SERIES = re.compile(r"""("(?:[^"\\]|\\.)*")|(?<![\w:])(fabricmon_\w+|fabricmon:[\w:]+)(\{[^}]*\})?""")


class RulefileOptions(Struct, frozen=True):
    """Options of a rule file.

    selector     label matchers of the agents' series: 'job="fabric",site="east"'; "": all series of the agents, and
                 of `up` those whose job begins with "fabricmon"
    node_label   the label with the node's name
    keep_firing  write `keep_firing_for` (Prometheus 2.42, vmalert 1.92): an alert lasts for the rule's clear time
    runbook      address of the runbooks, with "{kind}" for the kind of incident; "": no link
    """

    selector: str = ""
    node_label: str = "instance"
    keep_firing: bool = True
    runbook: str = ""


def alert_name(rule: str) -> str:
    """ "link_down" -> "FabricmonLinkDown"."""
    return PREFIX + "".join(word.capitalize() for word in rule.split("_"))


def groups(rules: Sequence[Rule], params: Mapping[str, Any], options: RulefileOptions) -> list[dict[str, Any]]:
    """The groups of the file, as plain data. `params`: rule name -> its params; else the defaults."""
    found: list[dict[str, Any]] = []
    for rule in rules:
        own = params.get(rule.name)
        own = rule.params() if own is None else own
        translation = rule.promql(own)
        seldom: dict[float, list[RecordingRule]] = {}
        for recording in translation.recordings:
            if recording.every:
                seldom.setdefault(recording.every, []).append(recording)
        for every, recordings in seldom.items():
            found.append({
                "name": f"fabricmon.{rule.name}.{span(every)}",
                "interval": span(every),
                "rules": [_recorded(r, options) for r in recordings],
            })  # fmt: skip
        entries = [_recorded(recording, options) for recording in translation.recordings if not recording.every]
        entries += [_alerting(rule, own, alert, options) for alert in _with_cases(translation.alerts)]
        if translation.alerts:
            entries.append({"record": EVALUATED, "expr": "vector(time())", "labels": {"rule": rule.name}})
            found.append({"name": f"fabricmon.{rule.name}", "rules": entries})
    return found


def kubernetes(content: list[dict[str, Any]], name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The groups as a PrometheusRule of the Prometheus operator."""
    meta: dict[str, Any] = {"name": name}
    if labels:
        meta["labels"] = dict(labels)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": meta,
        "spec": {"groups": content},
    }


def selected(expr: str, selector: str) -> str:
    """The expression over series that `selector` matches; recordings keep the labels of their series."""
    if not selector:
        return expr
    expr = expr.replace(UP, f"up{{{selector}}}")

    def narrowed(found: re.Match[str]) -> str:
        text, name, matchers = found.groups()
        if text or not name.startswith("fabricmon_"):
            return found[0]
        inner = f"{matchers[1:-1]},{selector}" if matchers else selector
        return f"{name}{{{inner}}}"

    return _SERIES.sub(narrowed, expr)


def _recorded(recording: RecordingRule, options: RulefileOptions) -> dict[str, Any]:
    return {"record": recording.name, "expr": selected(recording.expr, options.selector)}


def _with_cases(alerts: Iterable[Alert]) -> list[Alert]:
    """Alerts of one name must differ in a label: a number where there is no case."""
    seen: set[tuple[Severity | None, str]] = set()
    found = []
    for number, alert in enumerate(alerts, 1):
        if (alert.severity, alert.case) in seen:
            alert = replace(alert, case=f"{alert.case}{number}")
        seen.add((alert.severity, alert.case))
        found.append(alert)
    return found


def _alerting(rule: Rule, params: Any, alert: Alert, options: RulefileOptions) -> dict[str, Any]:
    hold = float(params.hold) if alert.hold is None else alert.hold
    keep = float(params.clear) if alert.keep is None else alert.keep
    where = template(rule.table, options.node_label)
    entry: dict[str, Any] = {"alert": alert_name(rule.name), "expr": selected(alert.expr, options.selector)}
    if hold > 0:
        entry["for"] = span(hold)
    if keep > 0 and options.keep_firing:
        entry["keep_firing_for"] = span(keep)
    labels = {"severity": str(alert.severity or rule.severity), "kind": rule.kind, "rule": rule.name}
    entry["labels"] = labels | ({"case": alert.case} if alert.case else {})
    entry["annotations"] = {
        "summary": f"{_plain(rule.title)}: {where}",
        "component": where,
        "description": f"Next step: {_plain(first_step(rule.action))} Value: {VALUE}{_limit(alert.expr)}.",
        "value": VALUE,
        "action": _plain(rule.action),
    }
    if options.runbook:
        entry["annotations"]["runbook_url"] = options.runbook.replace("{kind}", rule.kind)
    return entry


def _limit(expr: str) -> str:
    """ " (limit > 2000)"; "" where the expression compares more than one value."""
    found = _LIMIT.fullmatch(expr)
    return f" (limit {found[1]} {found[2]})" if found else ""


def _plain(text: str) -> str:
    """Text with escaped template braces."""
    return text.replace("{{", '{{ "{{" }}')


def differences(rules: Iterable[Rule]) -> list[tuple[str, str, str]]:
    """Rule, fidelity of its translation (exact, near, not expressible), and what differs."""
    translations = ((rule.name, rule.promql(rule.params())) for rule in rules)
    return [(name, translation.word, translation.differs) for name, translation in translations]
