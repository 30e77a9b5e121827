"""Open symptoms by type and row, made for one diagnosis. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fabricmon.catalogue.kinds import KINDS
from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import Mode
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.domains.groups import Ints, Mask
from fabricmon.engine.domains.link_ends import LinkReads, unread, well_at_other_end
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.symptoms.rule_state import CLEARING, PENDING, OpenSymptom, RuleState, SymptomKey
from fabricmon.model import ComponentId, Kind, Symptom
from fabricmon.rules.rule import Rule

TABLES = (Kind.PORT, Kind.NODE, Kind.GPU, Kind.PCIE, Kind.FLOW)
"""Tables whose symptoms the diagnosis reasons about."""

WITHOUT_RULE: Mapping[SymptomType, Kind] = {SymptomType.LINK_FELL: Kind.PORT}
"""Tables of the types that the diagnosis derives from others."""

STATE_TYPES = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_DEGRADED})
"""Symptoms of the state of a link, not of its counters."""

RECOVERED = 120.0
"""Seconds for which a link that came back is no evidence against what took it down: the links of a group come back one
after the other (docs/methods.md#boot-grace)."""

SWEEP = 30.0
"""Seconds between two sweeps, as a switch is read (docs/methods.md#pace-of-a-sweep): what one shows began since
the one before."""


@dataclass(slots=True)
class SymptomIndex:
    """rule_states  by symptom type, in the order of the rules
    ids          component ids of every table of TABLES
    reads        when the links were read
    """

    domains: RowDomains
    rule_states: Mapping[SymptomType, Sequence[RuleState]]
    ids: Mapping[Kind, Sequence[ComponentId]]
    reads: LinkReads = field(default_factory=unread)

    def table(self, kind: SymptomType) -> Kind:
        return self.rule_states[kind][0].rule.table if kind in self.rule_states else WITHOUT_RULE[kind]

    def component(self, kind: SymptomType, row: int) -> ComponentId:
        return self.ids[self.table(kind)][row]

    def named(self, mode: Mode, group: int) -> str:
        """The component of a group: "leaf(su1/rail2)"."""
        return f"{mode.word}({self.domains.names[mode.domain][group]})"

    def symptoms(self, kind: SymptomType, rows: Ints) -> list[Symptom]:
        """Open symptoms of a type on some rows, and on further rows of the same links; the finest rule first."""
        found: list[Symptom] = []
        for row in self._reporting_rows(kind, rows):
            found.extend(state.open[row].symptom for state in self.rule_states.get(kind, ()) if row in state.open)
        return found

    def leading_rule(self, kind: SymptomType, rows: Ints) -> Rule:
        """The rule of the most severe of some symptoms, else the first of the table."""
        states = self.rule_states[kind]
        reporting = self._reporting_rows(kind, rows)
        worst = [max((s.open[r].symptom.severity.rank for r in reporting if r in s.open), default=-1) for s in states]
        return states[worst.index(max(worst))].rule

    def keys(self, explained: Mapping[SymptomType, Ints]) -> frozenset[SymptomKey]:
        """The open symptoms among these, and those on the same rows that yield to one of them."""
        found: set[SymptomKey] = set()
        for kind, rows in explained.items():
            names = {state.rule.name for state in self.rule_states.get(kind, ())}
            found.update(SymptomKey(symptom.rule, symptom.component) for symptom in self.symptoms(kind, rows))
            for states in self.rule_states.values():
                for state in states:
                    if state.open and names.intersection(state.rule.yields_to):
                        reporting = self._reporting_rows(kind, rows)
                        open_here = (state.open[row].symptom for row in reporting if row in state.open)
                        found.update(SymptomKey(symptom.rule, symptom.component) for symptom in open_here)
        return frozenset(found)

    def witnessed(self, kind: SymptomType, rows: Ints, restored: Container[str]) -> bool:
        """Whether the beginning of a symptom on one of these rows was seen, or known from before a restart (`restored`:
        parts). What the first reading of a row shows began at an unknown time before."""
        ids, states = self.ids[self.table(kind)], self.rule_states.get(kind, ())
        return not states or any(
            state.open[row].witnessed or str(ids[row]) in restored
            for row in self._reporting_rows(kind, rows) for state in states if row in state.open
        )  # fmt: skip

    def _reporting_rows(self, kind: SymptomType, rows: Ints) -> list[int]:
        reported_by = self.domains.reported_by
        if not reported_by or self.table(kind) is not Kind.PORT:
            return rows.tolist()
        return [other for row in rows.tolist() for other in reported_by.get(row, (row,))]

    def hosts(self, kind: SymptomType, rows: Ints) -> frozenset[str]:
        """Hosts that some rows belong to; a port between switches belongs to none."""
        if self.table(kind) is not Kind.PORT:
            return frozenset(self.component(kind, row).node for row in rows.tolist())
        return frozenset(self.domains.host(row) for row in rows.tolist()) - {""}

    def shows(self, kind: SymptomType, domain: str, group: int) -> bool:
        """Whether a member of a group has an open symptom of a type, since whenever."""
        states = self.rule_states.get(kind, ())
        return any(row in state.open for state in states
                   for row in self.domains.members(state.rule.table, domain, group).tolist())  # fmt: skip

    def pending(self, kind: SymptomType, domain: str, group: int) -> int:
        """Members of a group with a pending symptom."""
        if kind not in self.rule_states:
            return 0
        return self.pending_of(kind, self.domains.members(self.table(kind), domain, group))

    def pending_of(self, kind: SymptomType, rows: Ints) -> int:
        """Rows of its table with a pending symptom."""
        return sum(
            int(np.count_nonzero(state.phase[rows[rows < len(state.phase)]] == PENDING))
            for state in self.rule_states.get(kind, ())
        )


def rule_states_by_type(rule_states: Iterable[RuleState]) -> dict[SymptomType, list[RuleState]]:
    """The states of diagnosed rules, by symptom type."""
    found: dict[SymptomType, list[RuleState]] = {}
    for state in rule_states:
        kind = KINDS[state.rule.kind].symptom
        if kind is not None and state.rule.table in TABLES:
            same = found.setdefault(kind, [])
            if not same or same[0].rule.table is state.rule.table:
                same.append(state)
    return found


def observations_of(
    index: SymptomIndex,
    set_aside: Mapping[Kind, Mask],
    claimed: Callable[[SymptomKey], bool],
    onsets: Mapping[str, float],
    yielded: Mapping[str, Mask],
    now: float,
) -> dict[SymptomType, Observation]:
    """The observations of the diagnosis.

    set_aside  rows without new evidence (maintenance, a reboot, an agent that answers "refused")
    claimed    whether an open incident claims a symptom: it counts although its row is set aside
    onsets     part -> onset from before a restart
    yielded    rule -> rows where the symptom is the effect of another one on the same row
    """
    found = {
        kind: _observation(index, kind, set_aside[index.table(kind)], claimed, onsets, yielded, now)
        for kind in index.rule_states
    }
    silent = found.get(SymptomType.AGENT_SILENT)
    if silent is not None and len(silent.rows):
        silent.place = index.domains.places(silent.rows)
    return found


def _observation(
    index: SymptomIndex,
    kind: SymptomType,
    set_aside: Mask,
    claimed: Callable[[SymptomKey], bool],
    onsets: Mapping[str, float],
    yielded: Mapping[str, Mask],
    now: float,
) -> Observation:
    table = index.table(kind)
    groups = index.domains.by_table[table]
    n, aside, known = groups.rows, set_aside[: groups.rows], np.zeros(groups.rows, np.bool_)
    open_rows: dict[int, float] = {}
    before: dict[int, float] = {}
    for state in index.rule_states[kind]:
        m = min(n, len(state.phase))
        known[:m] |= state.observed()[:m]
        if kind in STATE_TYPES:
            known[:m] &= ~state.ended_after(now - RECOVERED)[:m]
        effects = yielded.get(state.rule.name)
        for row, held in state.open.items():
            is_effect = effects is not None and row < n and effects[row]
            if row >= n or is_effect or up_at_other_end(kind, state, row, index.domains, index.reads):
                continue
            old = aside[row] or _is_back(kind, state, row)
            if old and not claimed(SymptomKey(state.rule.name, held.symptom.component)):
                continue
            onset = min(held.symptom.since, onsets.get(str(index.ids[table][row]), np.inf))
            open_rows[row] = min(onset, open_rows.get(row, np.inf))
            before[row] = min(_may_have_begun(held, onset, table, row, index.domains), before.get(row, np.inf))
    known &= ~aside
    for state in index.rule_states[kind]:
        if state.rule.name in yielded:
            known &= ~yielded[state.rule.name][:n]
    if table is Kind.PORT and index.domains.echo:
        _merge_echoes(index.domains, open_rows, before, known)
    rows = np.array(sorted(open_rows), np.int64)
    known[rows] = True
    onsets_of, before_of = ([of.get(row, np.inf) for row in rows.tolist()] for of in (open_rows, before))
    return Observation(groups, rows, np.array(onsets_of, np.float64), known, np.array(before_of, np.float64))


def _may_have_begun(held: OpenSymptom, onset: float, table: Kind, row: int, domains: RowDomains) -> float:
    """From when on: when its row was last seen without it, or the sweep before read it."""
    swept = table is Kind.PORT and bool(domains.assigned.swept[row : row + 1].any())
    seen = held.without if held.witnessed else -np.inf
    return min(seen, onset - SWEEP) if swept else seen


def _is_back(kind: SymptomType, state: RuleState, row: int) -> bool:
    """Whether a host that fell silent reports again; its symptom ends some seconds later."""
    return kind is SymptomType.AGENT_SILENT and bool(state.phase[row] == CLEARING)


def up_at_other_end(
    kind: SymptomType | None, state: RuleState, row: int, domains: RowDomains, reads: LinkReads
) -> bool:
    """Whether the open symptom of a link's state shows nothing now, by the other end."""
    return kind in STATE_TYPES and well_at_other_end(state, row, domains, reads)


def _merge_echoes(domains: RowDomains, open_rows: dict[int, float], before: dict[int, float], known: Mask) -> None:
    """Move the symptoms of swept rows to the row that stands for their link, with when they may have begun. Errors
    count on both ends: each has its own counters."""
    for row in [row for row in open_rows if row in domains.echo]:
        first, onset, earliest = domains.echo[row], open_rows.pop(row), before.pop(row)
        open_rows[first] = min(onset, open_rows.get(first, np.inf))
        before[first] = min(earliest, before.get(first, np.inf))
    known[domains.firsts[known[domains.echoes]]] = True
    known[domains.echoes] = False
