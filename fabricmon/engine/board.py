"""The open symptoms and who could have them, as the diagnosis wants them. Pure.

A Board is made for one diagnosis. Rows are numbers of a table; `Places` knows where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.case import Key
from fabricmon.engine.causes import SYMPTOM_OF
from fabricmon.engine.diagnose import Facts, Mask
from fabricmon.engine.judge import PENDING, Judge
from fabricmon.engine.places import Places
from fabricmon.model import ComponentId, Kind, Symptom
from fabricmon.rules.rule import Rule

Rows = NDArray[np.int64]

TABLES = (Kind.PORT, Kind.NODE, Kind.GPU, Kind.PCIE, Kind.FLOW)
"""Tables whose symptoms the diagnosis reasons about."""

STATE_TYPES = frozenset({"LD", "LS"})
"""Symptoms of what a link is, not of what it counted."""


@dataclass(slots=True)
class Board:
    """judges  by symptom type, in the order of the rules
    ids     ids of every table that is reasoned about
    """

    places: Places
    judges: Mapping[str, Sequence[Judge]]
    ids: Mapping[Kind, Sequence[ComponentId]]

    def table(self, kind: str) -> Kind:
        return self.judges[kind][0].rule.table

    def component(self, kind: str, row: int) -> ComponentId:
        return self.ids[self.table(kind)][row]

    def symptoms(self, kind: str, rows: Iterable[int]) -> list[Symptom]:
        """Open symptoms of a type on some rows, and on those that tell of the same links; the finest rule first."""
        found: list[Symptom] = []
        for row in self._tellers(kind, rows):
            found.extend(judge.open[row].symptom for judge in self.judges[kind] if row in judge.open)
        return found

    def speaker(self, kind: str, rows: Iterable[int]) -> Rule:
        """The rule whose words tell of symptoms of a type: that of the most severe one, the first of the table else."""
        judges = self.judges[kind]
        tellers = self._tellers(kind, rows)
        worst = [max((j.open[r].symptom.severity.rank for r in tellers if r in j.open), default=-1) for j in judges]
        return judges[worst.index(max(worst))].rule

    def keys(self, explained: Mapping[str, Sequence[int]]) -> frozenset[Key]:
        """The open symptoms among these, and those on the same rows that yield to one of them."""
        found: set[Key] = set()
        for kind, rows in explained.items():
            names = {judge.rule.name for judge in self.judges[kind]}
            found.update(Key(symptom.rule, symptom.component) for symptom in self.symptoms(kind, rows))
            for judges in self.judges.values():
                for judge in judges:
                    if judge.open and names.intersection(judge.rule.yields_to):
                        tellers = self._tellers(kind, rows)
                        open_here = (judge.open[row].symptom for row in tellers if row in judge.open)
                        found.update(Key(symptom.rule, symptom.component) for symptom in open_here)
        return frozenset(found)

    def _tellers(self, kind: str, rows: Iterable[int]) -> list[int]:
        told_by = self.places.told_by
        if not told_by or self.table(kind) is not Kind.PORT:
            return list(rows)
        return [teller for row in rows for teller in told_by.get(row, (row,))]

    def hosts(self, kind: str, rows: Iterable[int]) -> frozenset[str]:
        """Hosts that some rows belong to; a port between switches belongs to none."""
        if self.table(kind) is not Kind.PORT:
            return frozenset(self.component(kind, row).node for row in rows)
        return frozenset(self.places.host(row) for row in rows) - {""}

    def pending(self, kind: str, domain: str, group: int) -> int:
        """Members of a group that are turning bad: their symptom has not held for long enough yet."""
        if kind not in self.judges:
            return 0
        rows = self.places.members(self.table(kind), domain, group)
        return sum(
            int(np.count_nonzero(judge.state[rows[rows < len(judge.state)]] == PENDING)) for judge in self.judges[kind]
        )


def by_type(judges: Iterable[Judge]) -> dict[str, list[Judge]]:
    """Judges of rules that the diagnosis reasons about, by symptom type."""
    found: dict[str, list[Judge]] = {}
    for judge in judges:
        kind = SYMPTOM_OF.get(judge.rule.kind)
        if kind is not None and judge.rule.table in TABLES:
            same = found.setdefault(kind, [])
            if not same or same[0].rule.table is judge.rule.table:
                same.append(judge)
    return found


def facts_of(
    board: Board,
    set_aside: Mapping[Kind, Mask],
    claimed: Callable[[Key], bool],
    onsets: Mapping[str, float],
    yielded: Mapping[str, Mask],
) -> dict[str, Facts]:
    """What the diagnosis may use of the judges' states.

    set_aside  rows about which nothing new may be concluded (maintenance, a reboot, an agent that answers "refused");
               neither for nor against anything
    claimed    whether an open incident stands on a symptom: such a one stays, set aside or not
    onsets     part -> onset known from before a restart
    yielded    rule -> rows where the symptom is the effect of another one on the same row
    """
    facts: dict[str, Facts] = {}
    for kind, judges in board.judges.items():
        table = board.table(kind)
        groups = board.places.of[table]
        n = groups.rows
        aside = set_aside[table][:n]
        open_rows: dict[int, float] = {}
        known = np.zeros(n, np.bool_)
        for judge in judges:
            m = min(n, len(judge.state))
            known[:m] |= judge.known[:m] & ~judge.pending()[:m]
            for row, held in judge.open.items():
                if row < n and not (judge.rule.name in yielded and yielded[judge.rule.name][row]):
                    if aside[row] and not claimed(Key(judge.rule.name, held.symptom.component)):
                        continue
                    onset = min(held.symptom.since, onsets.get(str(board.ids[table][row]), np.inf))
                    open_rows[row] = min(onset, open_rows.get(row, np.inf))
        known &= ~aside
        for judge in judges:
            if judge.rule.name in yielded:
                known &= ~yielded[judge.rule.name][:n]
        if table is Kind.PORT and board.places.echo:
            _merge_echoes(kind, board.places, open_rows, known)
        rows = np.array(sorted(open_rows), np.int64)
        known[rows] = True
        facts[kind] = Facts(groups, rows, np.array([open_rows[r] for r in rows.tolist()], np.float64), known)
    return facts


def _merge_echoes(kind: str, places: Places, open_rows: dict[int, float], known: Mask) -> None:
    """What a sweep tells of a link goes to the row that stands for it.

    Of a link's state its own host is the better witness, who looks every second: while it says that all is well, a
    sweep of half a minute ago has nothing to add. Errors count wherever they are seen: each end has its own counters.
    """
    swept = places.domains.swept
    for row in [row for row in open_rows if row in places.echo]:
        first, onset = places.echo[row], open_rows.pop(row)
        if kind in STATE_TYPES and known[first] and not swept[first] and first not in open_rows:
            continue
        open_rows[first] = min(onset, open_rows.get(first, np.inf))
    echoes = np.array(list(places.echo), np.intp)
    firsts = np.array(list(places.echo.values()), np.intp)
    np.logical_or.at(known, firsts, known[echoes])
    known[echoes] = False
