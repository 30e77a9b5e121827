"""All rules of one engine, each with its state and its parameters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.kinds import KINDS, Hardness
from fabricmon.engine.failures import Failures
from fabricmon.engine.symptoms.rule_state import OK, ReadEvidence, RuleState
from fabricmon.fleet.table import Table
from fabricmon.fleet.view import View, Views
from fabricmon.forms.nearest import nearest
from fabricmon.model import Kind, Symptom, SymptomChange
from fabricmon.rules.rule import Outcome, Rule
from fabricmon.units import Duration, Rate

IDLE = "idle"
"""Role of ports of a plane that is not in use."""


class ParamsError(ValueError):
    """Parameters of a rule that cannot be used; the text begins with their path in the configuration."""


def parameters(rules: Sequence[Rule], given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of every rule: the given struct or mapping, else the defaults. ParamsError names the path."""
    known = {rule.name: rule for rule in rules}
    for name in given:
        if name not in known:
            near = nearest(name, known)
            raise ParamsError(f"rules.{name}: no such rule" + (f", did you mean {near!r}?" if near else ""))
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


class RuleStates:
    """Runs every rule once a tick.

    failures  of rules and their evidence; a rule that raises keeps its states
    """

    def __init__(self, rules: Sequence[Rule], given: Mapping[str, Any]) -> None:
        params = parameters(rules, given)
        self.all = [RuleState(rule, params[rule.name]) for rule in rules]
        self.by_rule = {state.rule.name: state for state in self.all}
        self.failures = Failures()
        self._generation: dict[Kind, NDArray[np.int64]] = {}

    def configure(self, given: Mapping[str, Any]) -> None:
        params = parameters([state.rule for state in self.all], given)
        for state in self.all:
            state.configure(params[state.rule.name])

    def run(self, views: Views) -> tuple[list[SymptomChange], dict[Kind, list[int]]]:
        """Transitions of this tick, and the rows of each table that came to stand for something else."""
        tables, now = views.tables, views.now
        changes: list[SymptomChange] = []
        moved: dict[Kind, list[int]] = {}
        for kind in {state.rule.table for state in self.all}:
            rows = moved[kind] = self._replaced(tables[kind])
            for state in self.all:
                if rows and state.rule.table is kind:
                    changes.extend(state.drop(rows, now, "the component left the fabric"))
        with np.errstate(invalid="ignore"):  # NaN is a reading that is not known
            for state in self.all:
                if tables[state.rule.table].n and state.due(tables[state.rule.table].n, now):
                    changes.extend(self._test(state, views.of(state.rule.table)))
        return changes, moved

    def _test(self, state: RuleState, view: View) -> list[SymptomChange]:
        try:
            outcome = state.rule.test(view, state.params)
            if view.table.kind is Kind.PORT:
                _spare_idle(outcome, view)
            return state.advance(outcome, view.table.ids, view.now, self._reader(state, view))
        except Exception as error:  # an error in one rule must not stop the other rules
            self.failures.note(state.rule.name, error)
            return []

    def _reader(self, state: RuleState, view: View) -> ReadEvidence:
        """Evidence and info of a row. One that raises leaves the symptom without it; the symptom opens and closes."""
        rule, params, guard = state.rule, state.params, self.failures.guard
        step = f"{rule.name} evidence"
        return lambda row: (
            guard(step, (), rule.readings, view, row, params),
            guard(step, {}, rule.info, view, row, params),
        )

    def symptoms(self) -> list[Symptom]:
        every = [held.symptom for state in self.all for held in state.open.values()]
        return sorted(every, key=lambda s: (-s.severity.rank, s.since, s.rule, s.component))

    def waiting(self) -> bool:
        """Whether any row of any rule is pending or clearing."""
        return any(state.waiting() for state in self.all)

    def open_by_rule(self) -> dict[str, int]:
        return {state.rule.name: len(state.open) for state in self.all}

    def yielded(self) -> dict[str, NDArray[np.bool_]]:
        """Rule -> rows where its symptom is the effect of another open one on the same component."""
        found: dict[str, NDArray[np.bool_]] = {}
        for state in self.all:
            causes = [self.by_rule[name] for name in state.rule.yields_to if name in self.by_rule]
            rows = [row for cause in causes if cause.rule.table is state.rule.table for row in cause.open]
            if rows and state.open:
                mask = np.zeros(len(state.phase), np.bool_)
                mask[[row for row in rows if row < len(mask)]] = True
                found[state.rule.name] = mask
        return found

    def healthy(self, row: int, table: Kind, kind: str) -> bool:
        """Whether a row was seen healthy: no diagnosed rule is raised on it, and the rule of this kind (else those of
        hard faults of the table) knows it."""
        here = [
            state
            for state in self.all
            if state.rule.table is table
            and row < len(state.phase)
            and (KINDS[state.rule.kind].symptom is not None or state.rule.kind == kind)
        ]
        if any(state.phase[row] != OK for state in here):
            return False
        deciding = [s for s in here if s.rule.kind == kind]
        deciding = deciding or [s for s in here if KINDS[s.rule.kind].hardness is Hardness.HARD]
        return bool(deciding) and all(bool(state.known[row]) for state in deciding)

    def _replaced(self, table: Table) -> list[int]:
        now = table.generation[: table.n]
        before = self._generation.get(table.kind)
        self._generation[table.kind] = now.copy()
        if before is None:
            return []
        return [int(row) for row in np.flatnonzero(now[: len(before)] != before)]


def _spare_idle(outcome: Outcome, view: View) -> None:
    """Keep ports of the role "idle" without symptoms."""
    facts = view.tracks.facts
    if IDLE in facts.role_names:
        idle = facts.role[: view.n] == facts.role_names[IDLE]
        outcome.fire &= ~idle
        outcome.clear |= idle
