"""What began, as the unknown common causes compare it (common_cause.py): a verdict, or a silent host. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GROUPS, WAITING_RUN
from fabricmon.engine.diagnosis.group_modes import RUNS
from fabricmon.engine.diagnosis.observation import Observations
from fabricmon.engine.diagnosis.phenomena import Phenomenon
from fabricmon.engine.diagnosis.silence_rate import server_cut_off
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ints
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

T = SymptomType
MOSTLY = 0.8
"""Share of what began together from which it is the fault of the one known group that explains so much: the rest is
filed at the wrong place, or unknown to the topology (design choice, as for a power domain)."""
Witnessed = Callable[[SymptomType, Ints], bool]
"""Whether the beginning of a symptom on one of some rows was seen."""


@dataclass(slots=True)
class Beginning:
    """Something that began: a verdict, or a silent host that no verdict explains (None).

    wide    it is on a group; partly: no whole one (`_is_partly`)
    loose   no leaf is known of any of its ports: they may be those of another group
    unplaced  no map shows what it shares with others: no leaf of its ports, no chassis of its host
    unseen  what a first reading showed, as of connections that lose packets from their first ones on: it began at an
            unknown moment and makes no cause, but joins one
    known   it is a common cause already
    types   symptom types that show it
    alike   number that links share which fell together again and again, -1 none
    beside  of a link that flaps, the chance that others fell with it for reasons of their own
    before  from when on it may have begun, where it is loose: its agent may have been silent then
    leaves  of which it consists: 1 of a leaf, those of a rail, 0 of anything else
    """

    onset: float
    rows: frozenset[int]
    verdict: FaultVerdict | None
    wide: bool = False
    known: bool = False
    partly: bool = False
    loose: bool = False
    types: frozenset[SymptomType] = frozenset()
    leaves: int = 0
    unplaced: bool = False
    unseen: bool = False
    alike: int = -1
    beside: float = 1.0
    before: float = inf

    @property
    def of_hosts(self) -> bool:
        """Its rows are those of hosts that fell silent."""
        return T.AGENT_SILENT in self.types


def beginnings(
    phenomenon: Phenomenon, verdicts: Sequence[FaultVerdict], observations: Observations, domains: RowDomains,
    witnessed: Witnessed,
) -> list[Beginning]:  # fmt: skip
    """What began of a phenomenon: its verdicts, and of hosts that fell silent those that no verdict explains, unless so
    many did that the server may be cut off."""
    found: list[Beginning] = []
    explained: set[int] = set()
    earliest = _earliest(phenomenon, observations)
    for verdict in verdicts:
        rows = {kind: rows for kind, rows in verdict.explained.items() if kind in phenomenon.types}
        if rows and not phenomenon.without & verdict.explained.keys():
            every = np.concatenate(list(rows.values()))
            mine = frozenset(every.tolist())
            if phenomenon.table is Kind.NODE:
                explained |= mine
            wide = verdict.domain in GROUPS - {"host"}
            unseen = not any(witnessed(kind, some) for kind, some in rows.items())
            if (phenomenon.unmapped or not unseen) and (wide or not phenomenon.only_groups):
                known, partly = verdict.domain in KNOWN_CAUSES, wide and _is_partly(verdict, rows)
                loose = _is_loose(phenomenon, verdict, every, domains)
                if phenomenon.unmapped and not loose:
                    continue
                types, leaves = frozenset(rows), _leaves(verdict, every, domains)
                unplaced = loose or _in_no_chassis(phenomenon, every, domains)
                unit = Beginning(verdict.onset, mine, verdict, wide, known, partly, loose, types, leaves)
                unit.unplaced, unit.unseen, unit.alike = unplaced, unseen, _alike(rows, observations)
                unit.beside = _beside(rows, observations)
                unit.before = min(earliest.get(row, inf) for row in mine) if loose else inf
                found.append(unit)
    silent = observations.get(T.AGENT_SILENT) if phenomenon.table is Kind.NODE else None
    if silent is not None and not server_cut_off(silent, np.array(sorted(explained), np.int64)):
        for row, onset in zip(silent.rows.tolist(), silent.onset.tolist(), strict=True):
            one = np.array([row])
            if row not in explained and witnessed(T.AGENT_SILENT, one):
                unplaced = _in_no_chassis(phenomenon, one, domains)
                found.append(Beginning(onset, frozenset((row,)), None, types=phenomenon.types, unplaced=unplaced))
    return found


def _earliest(phenomenon: Phenomenon, observations: Observations) -> dict[int, float]:
    """Row -> from when on it may have begun."""
    found: dict[int, float] = {}
    for kind in sorted(phenomenon.types & observations.keys()):
        mine = observations[kind]
        if mine.before is not None:
            for row, before in zip(mine.rows.tolist(), mine.before.tolist(), strict=True):
                found[row] = min(before, found.get(row, inf))
    return found


def _alike(rows: Mapping[SymptomType, Ints], observations: Observations) -> int:
    """The number that all of these links share by their falls."""
    flapping = observations.get(T.LINK_FLAPPING)
    if T.LINK_FLAPPING not in rows or flapping is None or flapping.alike is None:
        return -1
    numbers = np.unique(flapping.alike[np.isin(flapping.rows, rows[T.LINK_FLAPPING])])
    return int(numbers[0]) if len(numbers) == 1 else -1


def _beside(rows: Mapping[SymptomType, Ints], observations: Observations) -> float:
    """The least chance that others fell with one of these links for reasons of their own."""
    flapping = observations.get(T.LINK_FLAPPING)
    if T.LINK_FLAPPING not in rows or flapping is None or flapping.beside is None:
        return 1.0
    return float(flapping.beside[np.isin(flapping.rows, rows[T.LINK_FLAPPING])].min(initial=1.0))


def _leaves(verdict: FaultVerdict, rows: Ints, domains: RowDomains) -> int:
    if verdict.domain != "rail":
        return int(verdict.domain == "leaf")
    leaves = domains.port.ids["leaf"][rows]
    return max(1, len(np.unique(leaves[leaves >= 0])))


def _in_no_chassis(phenomenon: Phenomenon, rows: Ints, domains: RowDomains) -> bool:
    """Whether the chassis is known of none of these hosts."""
    if phenomenon.table is not Kind.NODE:
        return False
    chassis = domains.by_table[Kind.NODE].ids.get("chassis")
    return chassis is None or bool((chassis[rows] < 0).all())


def _is_loose(phenomenon: Phenomenon, verdict: FaultVerdict, rows: Ints, domains: RowDomains) -> bool:
    """Whether the leaf is known of none of its ports: those with the symptoms, or of flows the ends of its link
    or all of its host, which may be unknown."""
    leaves = domains.port.ids["leaf"]
    if phenomenon.table is Kind.FLOW and verdict.domain in ("link", "nic", "host"):
        rows = np.flatnonzero(domains.port.ids[verdict.domain] == verdict.group)
    elif phenomenon.table is not Kind.PORT:
        return False
    return bool((leaves[rows] < 0).all())


def _is_partly(verdict: FaultVerdict, rows: Mapping[SymptomType, Ints]) -> bool:
    """Whether less than MOSTLY of the observed members show it. A part of a switch is no whole one: its members were
    chosen by what they show."""
    if verdict.domain in RUNS or verdict.domain == WAITING_RUN:
        return True
    return all(len(found) < MOSTLY * (len(found) + verdict.silent.get(kind, 0)) for kind, found in rows.items())


KNOWN_CAUSES = frozenset({"feed", "firmware", "board", "row", "network", "plane", "pod"})
"""Domains whose verdicts are a common cause already."""
