"""All rules of one engine, each with its judge and its parameters. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.causes import SYMPTOM_OF
from fabricmon.engine.judge import OK, Judge, Read
from fabricmon.fleet.table import Table
from fabricmon.fleet.view import View
from fabricmon.model import Kind, Symptom, SymptomChange
from fabricmon.rules.rule import Outcome, Rule
from fabricmon.units import Duration, Rate

IDLE = "idle"
"""Role of ports that carry no data on purpose."""


class ParamsError(ValueError):
    """Parameters of a rule that cannot be used; the text begins with their path in the configuration."""


def parameters(rules: Sequence[Rule], given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of every rule: the given struct or mapping, else the defaults. ParamsError names the path."""
    known = {rule.name: rule for rule in rules}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ParamsError(f"rules.{name}: no such rule" + (f", did you mean {near[0]!r}?" if near else ""))
    found: dict[str, Any] = {}
    for name, rule in known.items():
        value = given.get(name, {})
        if isinstance(value, rule.params):
            found[name] = value
            continue
        try:
            found[name] = msgspec.convert(value, rule.params, dec_hook=_quantity)
        except (msgspec.ValidationError, ValueError) as error:
            raise ParamsError(f"rules.{name}: {error}") from None
    return found


def _quantity(type_: type, value: Any) -> Any:
    if type_ in (Duration, Rate):
        return type_(value) if isinstance(value, int | float) else type_.parse(value)
    raise TypeError(f"{type_.__name__} is not a quantity")


HARD = frozenset({"link_down", "agent_silent", "nvlink_down", "pcie_degraded"})
"""Kinds of the rule of each table that tells whether a part works at all."""


class Judges:
    """Runs every rule once a tick.

    failures  rule -> ticks in which its test raised; such a rule keeps its states and costs the others nothing
    """

    def __init__(self, rules: Sequence[Rule], given: Mapping[str, Any]) -> None:
        params = parameters(rules, given)
        self.all = [Judge(rule, params[rule.name]) for rule in rules]
        self.by_rule = {judge.rule.name: judge for judge in self.all}
        self.failures: dict[str, int] = {}
        self.last_failure: dict[str, str] = {}
        self._generation: dict[Kind, NDArray[np.int64]] = {}

    def configure(self, given: Mapping[str, Any]) -> None:
        params = parameters([judge.rule for judge in self.all], given)
        for judge in self.all:
            judge.configure(params[judge.rule.name])

    def run(self, tables: Mapping[Kind, Table], now: float) -> tuple[list[SymptomChange], bool]:
        """Transitions of this tick, and whether rows came to stand for something else."""
        changes: list[SymptomChange] = []
        moved = False
        for kind in {judge.rule.table for judge in self.all}:
            rows = self._replaced(tables[kind])
            moved |= bool(rows)
            for judge in self.all:
                if rows and judge.rule.table is kind:
                    changes.extend(judge.drop(rows, now, "the component left the fabric"))
        views: dict[Kind, View] = {}
        for judge in self.all:
            table = tables[judge.rule.table]
            if not table.n:
                continue
            view = views.get(table.kind) or views.setdefault(table.kind, View(table, now))
            try:
                outcome = judge.rule.test(view, judge.params)
                if table.kind is Kind.PORT:
                    _spare_idle(outcome, view)
                changes.extend(judge.advance(outcome, table.ids, now, _reader(judge, view)))
            except Exception as error:  # a rule is code of its own: its mistake must not blind the others
                self.failures[judge.rule.name] = self.failures.get(judge.rule.name, 0) + 1
                self.last_failure[judge.rule.name] = f"{type(error).__name__}: {error}"
        return changes, moved

    def symptoms(self) -> list[Symptom]:
        every = [held.symptom for judge in self.all for held in judge.open.values()]
        return sorted(every, key=lambda s: (-s.severity.rank, s.since, s.rule, s.component))

    def waiting(self) -> bool:
        """Whether any row of any rule is pending or clearing."""
        return any(judge.waiting() for judge in self.all)

    def open_by_rule(self) -> dict[str, int]:
        return {judge.rule.name: len(judge.open) for judge in self.all}

    def yielded(self) -> dict[str, NDArray[np.bool_]]:
        """Rule -> rows where its symptom is the effect of another open one on the same component."""
        found: dict[str, NDArray[np.bool_]] = {}
        for judge in self.all:
            causes = [self.by_rule[name] for name in judge.rule.yields_to if name in self.by_rule]
            rows = [row for cause in causes if cause.rule.table is judge.rule.table for row in cause.open]
            if rows and judge.open:
                mask = np.zeros(len(judge.state), np.bool_)
                mask[[row for row in rows if row < len(mask)]] = True
                found[judge.rule.name] = mask
        return found

    def healthy(self, row: int, table: Kind, kind: str) -> bool:
        """A row was seen healthy: no rule that speaks of broken parts has anything against it, and the rule of this
        kind (else the one of hard faults of the table) knows it."""
        here = [
            judge
            for judge in self.all
            if judge.rule.table is table
            and row < len(judge.state)
            and (judge.rule.kind in SYMPTOM_OF or judge.rule.kind == kind)
        ]
        if any(judge.state[row] != OK for judge in here):
            return False
        telling = [j for j in here if j.rule.kind == kind]
        telling = telling or [j for j in here if j.rule.kind in HARD]
        return bool(telling) and all(bool(judge.known[row]) for judge in telling)

    def _replaced(self, table: Table) -> list[int]:
        now = table.generation[: table.n]
        before = self._generation.get(table.kind)
        self._generation[table.kind] = now.copy()
        if before is None:
            return []
        return [int(row) for row in np.flatnonzero(now[: len(before)] != before)]


def _spare_idle(outcome: Outcome, view: View) -> None:
    """Ports of the role "idle", a plane that is not in use, have no symptom whatever they show."""
    facts = view.tracks.facts
    if IDLE in facts.role_names:
        idle = facts.role[: view.n] == facts.role_names[IDLE]
        outcome.fire &= ~idle
        outcome.clear |= idle


def _reader(judge: Judge, view: View) -> Read:
    rule, params = judge.rule, judge.params
    return lambda row: (rule.evidence(view, row, params), rule.info(view, row, params))
