"""Verdicts that began together: one incident of an unknown common cause (docs/methods.md#unknown-common-cause).

Only what no known group explains comes here. A cause keeps its members until the last of them is well, or until a known
group explains most of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import log

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.beginnings import Beginning, Witnessed, beginnings
from fabricmon.engine.diagnosis.causes import GROUPS, Mode
from fabricmon.engine.diagnosis.coincidence import DAY, SMALLEST, UNLIKELY, BeginningRate, chance
from fabricmon.engine.diagnosis.enough import (
    ABSORBED,
    LEAST,
    LEAST_UNMAPPED,
    apart_from_first,
    are_pairs,
    count,
    foremost,
    foremost_of_its_own,
    least_of,
    least_of_groups,
    rows_of,
    share,
)
from fabricmon.engine.diagnosis.group_modes import MODULE_MODES
from fabricmon.engine.diagnosis.module_by_name import ODDS, ModulesByName
from fabricmon.engine.diagnosis.moments import of_one_moment
from fabricmon.engine.diagnosis.neighbours import by_place, side_by_side
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.phenomena import FLAPPING, FRESH, PHENOMENA, Phenomenon
from fabricmon.engine.diagnosis.places import without_strangers
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ids, Ints
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

T = SymptomType
USUAL = (
    1.0  # a day: beginnings of a kind in a fabric of which nothing is known yet, the prior of the rate (design choice)
)
A_MONTH = 30.0
"""Days between two common causes (design choice): the odds against chance."""
MOST = 64  # causes that are remembered; the oldest go


GATHERING = 5.0
"""Seconds without a further member after which none is awaited (design choice): a hold and the spread of reads."""


@dataclass(slots=True)
class _Cause:
    name: str
    onset: float
    confidence: float
    gain: float
    rows: set[int] = field(default_factory=set)
    types: frozenset[SymptomType] = frozenset()
    seen: bool = False
    most: int = 0  # members that it ever had
    mode: Mode | None = None  # that of its phenomenon, unless it is a module


class CommonCauses:
    """Causes by phenomenon, over time."""

    def __init__(self) -> None:
        self._rates = [BeginningRate(USUAL, DAY / USUAL, p.within) for p in PHENOMENA]
        self._rates_of_groups = [BeginningRate(USUAL, DAY / USUAL, p.within) for p in PHENOMENA]
        self._causes: list[list[_Cause]] = [[] for _ in PHENOMENA]
        self._modules = [ModulesByName() for _ in PHENOMENA]
        self._explained: list[set[int]] = [set() for _ in PHENOMENA]
        self._first: list[dict[int, float]] = [{} for _ in PHENOMENA]

    def clear(self) -> None:
        """Nothing shows a symptom."""
        for causes, modules, explained in zip(self._causes, self._modules, self._explained, strict=True):
            causes.clear()
            modules.clear()
            explained.clear()

    def displace(self, moved: Mapping[Kind, Sequence[int]]) -> None:
        """Forget rows that stand for something else now."""
        for number, phenomenon in enumerate(PHENOMENA):
            rows = set(moved.get(phenomenon.table, ()))
            if not rows:
                continue
            self._explained[number] -= rows
            for cause in self._causes[number]:
                cause.rows -= rows
            self._modules[number].displace(rows)
            self._first[number] = {row: at for row, at in self._first[number].items() if row not in rows}

    def joined(
        self,
        verdicts: Sequence[FaultVerdict],
        observations: Observations,
        domains: RowDomains,
        witnessed: Witnessed,
        now: float,
    ) -> list[FaultVerdict]:
        """The verdicts, those that began together as one. What was there at a first look began at an unknown time."""
        left = list(verdicts)
        for number, phenomenon in enumerate(PHENOMENA):
            units = beginnings(phenomenon, left, observations, domains, witnessed)
            if not units:
                self._causes[number].clear()
                self._modules[number].clear()
                self._explained[number].clear()
                domains.divide(phenomenon.mode.domain, *_empty(domains, phenomenon.table), phenomenon.table)
                continue
            seen = [unit for unit in units if not unit.unseen]
            self._rates[number].learn([unit.onset for unit in seen], now)
            self._rates_of_groups[number].learn([unit.onset for unit in seen if unit.wide], now)
            first = self._first[number]
            self._first[number] = {row: first.get(row, now) for unit in units for row in unit.rows}
            left = self._of(number, units, left, domains, now)
            if T.LINK_FELL in phenomenon.types and (fell := observations.get(T.LINK_FELL)) is not None:
                left = _with_fallen(left, phenomenon, fell, domains, len(self._causes[number]))
            left = self._of_several(number, left, units)
        return left

    def _of(
        self, number: int, units: list[Beginning], verdicts: list[FaultVerdict], domains: RowDomains, now: float
    ) -> list[FaultVerdict]:
        phenomenon, causes = PHENOMENA[number], self._causes[number]
        _end(phenomenon, causes, units, domains)
        explained = self._rows_of_groups(number, verdicts, units)
        held = {row for cause in causes for row in cause.rows}
        units = [unit for unit in units if unit.wide or unit.rows & held or not unit.rows <= explained]
        self._join(number, units, domains)
        free = [unit for unit in units if not any(unit.rows & cause.rows for cause in causes)]
        fresh, known = [unit for unit in free if now - unit.onset <= FRESH and not unit.unseen], len(causes)
        for cluster in clusters(fresh, phenomenon.within, domains if phenomenon.moment else None):
            for part in self._by_place(number, cluster, domains):
                verdicts = self._with_cause(number, part, verdicts, domains, now)
        if len(causes) > known:
            self._join(number, units, domains)
        del causes[:-MOST]
        ids, names = _empty(domains, phenomenon.table)
        found: list[FaultVerdict] = []
        taken: set[tuple[str, int]] = set()
        for slot, cause in enumerate([*causes, *self._of_modules(number, units, domains, now)]):
            mine = [unit for unit in units if unit.rows & cause.rows]
            cause.rows |= {row for unit in mine for row in unit.rows}
            names.append(cause.name)
            ids[[row for row in cause.rows if row < len(ids)]] = slot
            if mine:
                first = foremost(mine, domains)
                found.append(_verdict(phenomenon, slot, cause, mine, first, self._grows(number, mine, now)))
                taken |= {(v.mode.name, v.group) for unit in mine if (v := unit.verdict) is not None}
        domains.divide(phenomenon.mode.domain, ids, names, phenomenon.table)
        return [verdict for verdict in verdicts if (verdict.mode.name, verdict.group) not in taken] + found

    def _of_modules(
        self, number: int, units: Sequence[Beginning], domains: RowDomains, now: float
    ) -> list[_Cause]:
        """The causes of two links that are most likely one module: no other one joins them. Their names have the first
        link, as several may begin in one second."""
        phenomenon = PHENOMENA[number]
        if not phenomenon.pairs or phenomenon.table is not Kind.PORT:
            return []
        held = {row for cause in self._causes[number] for row in cause.rows}
        rate = self._rates[number].before(max((unit.onset for unit in units), default=0.0))
        return [
            _Cause(f"{_name(phenomenon, one.onset)} at {one.link}", one.onset, one.confidence, log(ODDS), set(one.rows),
                   mode=MODULE_MODES[phenomenon.mode.domain])
            for one in self._modules[number].of(units, held, rate, domains, now)
        ]  # fmt: skip

    def _of_several(
        self, number: int, verdicts: Iterable[FaultVerdict], units: Iterable[Beginning]
    ) -> list[FaultVerdict]:
        """The verdicts; of a cause that never had a second member, as what fell with it is another's, that of its link
        alone."""
        found: list[FaultVerdict] = []
        for verdict in verdicts:
            if verdict.domain == PHENOMENA[number].mode.domain and verdict.group < len(self._causes[number]):
                cause = self._causes[number][verdict.group]
                cause.most = max(cause.most, len(np.unique(np.concatenate(list(verdict.explained.values())))))
                if cause.most < 2:
                    found += [unit.verdict for unit in units if unit.verdict is not None and unit.rows & cause.rows]
                    continue
            found.append(verdict)
        return found

    def _with_cause(
        self, number: int, cluster: list[Beginning], verdicts: list[FaultVerdict], domains: RowDomains, now: float
    ) -> list[FaultVerdict]:
        """Remember the common cause of what began together in one place, if it has one, and of what cannot be a part of
        the first group there; the verdicts, those of which more may follow marked: also a group of silent hosts, as
        hosts are read one after the other and it may be a part of another group."""
        phenomenon = PHENOMENA[number]
        first = foremost_of_its_own(cluster, domains)
        if first is None and (apart := apart_from_first(phenomenon, cluster, domains)):
            verdicts = self._with_cause(number, apart, verdicts, domains, now)
            cluster = [unit for unit in cluster if not any(unit is one for one in apart)]
            return self._with_cause(number, cluster, verdicts, domains, now)
        if first is None:
            cluster = [unit for unit in cluster if not unit.known]
        else:
            own = without_strangers(first, cluster, domains)
            strangers = [unit for unit in cluster if not any(unit is one for one in own)]
            verdicts, cluster = self._with_cause(number, strangers, verdicts, domains, now), own
        if not cluster:
            return verdicts
        rates = self._rates_of_groups if all(unit.wide for unit in cluster) else self._rates
        odds = chance(len(cluster), rates[number].before(cluster[0].onset), phenomenon.within)
        odds *= share(phenomenon, cluster, domains) ** (len(cluster) - 1)
        odds = min(odds, *(unit.beside for unit in cluster))
        if count(cluster) >= least_of(phenomenon, cluster, domains) and odds < UNLIKELY:
            self._causes[number].append(_cause(phenomenon, cluster, odds))
        elif phenomenon.moment and (runs := side_by_side(cluster, domains, phenomenon.table)):
            for run in runs:  # the others, elsewhere, take nothing from what two hosts of one chassis show
                verdicts = self._with_cause(number, run, verdicts, domains, now)
        elif (len(cluster) > 1 or (phenomenon.moment and cluster[0].wide)) and self._grows(number, cluster, now):
            verdicts = _gathering(verdicts, cluster)
        return verdicts

    def _join(self, number: int, units: Sequence[Beginning], domains: RowDomains) -> None:
        """What began near a cause that is there, shows the same and is smaller, with the single parts that join it now,
        is a part of it. As it grows it may turn out that some of it is far from the rest, or on another supply, or
        began at another moment."""
        phenomenon = PHENOMENA[number]
        free = [unit for unit in units if not any(unit.rows & cause.rows for cause in self._causes[number])]
        for cause in self._causes[number]:
            near = [unit for unit in free if _may_join(phenomenon, cause, unit)]
            mine = [unit for unit in units if unit.rows & cause.rows]  # its members may have grown to groups
            size = len(cause.rows.union(*(unit.rows for unit in mine)))
            size += sum(len(unit.rows) for unit in near if not unit.wide)
            new = [unit for unit in near if not unit.wide or len(unit.rows) < size]
            if phenomenon.moment and new and len(cause.rows) < LEAST:  # two of one chassis stay two
                new = new if count([*mine, *new]) >= least_of(phenomenon, [*mine, *new], domains) else []
            if phenomenon.moment and new:
                once = _of_one_moment([*mine, *new], domains)
                apart = [unit for unit in mine if not any(unit is one for one in once)]
                cause.rows.difference_update(*(unit.rows for unit in apart))
                mine, new = ([unit for unit in some if any(unit is one for one in once)] for some in (mine, new))
            if new or not all(unit.rows <= cause.rows for unit in mine):
                parts = self._by_place(number, [*mine, *new], domains)
                part = max(parts, key=lambda part: sum(len(unit.rows & cause.rows) for unit in part))
                apart = apart_from_first(phenomenon, part, domains)
                part = [unit for unit in part if not any(unit is one for one in apart)]
                first = foremost_of_its_own(part, domains)
                part = part if first is None else without_strangers(first, part, domains)
                cause.rows.difference_update(*(unit.rows for unit in mine))
                cause.rows.update(*(unit.rows for unit in part))
                free = [unit for unit in free if not unit.rows & cause.rows]

    def _by_place(self, number: int, units: Sequence[Beginning], domains: RowDomains) -> list[list[Beginning]]:
        """Units that began together, those in places far from each other apart."""
        phenomenon, onset = PHENOMENA[number], min(unit.onset for unit in units)
        if not phenomenon.local or len(units) < 2:
            return [list(units)]

        def cost(units: Sequence[Beginning]) -> float:
            rates = self._rates_of_groups if units[0].wide else self._rates
            return phenomenon.mode.cost if len(units) > 1 else -log(rates[number].before(onset) * phenomenon.within)

        return by_place(units, domains, phenomenon.table, cost)

    def _grows(self, number: int, units: Iterable[Beginning], now: float) -> bool:
        """Whether one of them was first seen a moment ago."""
        newest = max(self._first[number].get(row, now) for unit in units for row in unit.rows)
        return now - newest < GATHERING

    def _rows_of_groups(self, number: int, verdicts: Sequence[FaultVerdict], units: Iterable[Beginning]) -> set[int]:
        """Rows that a known group explains or has explained in this episode: what is left of it is no new cause."""
        types = PHENOMENA[number].types
        mine = [v for v in verdicts if v.domain in GROUPS - {"host"}]
        now = {row for v in mine for kind, rows in v.explained.items() if kind in types for row in rows.tolist()}
        bad = now | {row for unit in units for row in unit.rows}
        self._explained[number] = (self._explained[number] | now) & bad
        return self._explained[number]


def _may_join(phenomenon: Phenomenon, cause: _Cause, unit: Beginning) -> bool:
    latest = max(phenomenon.within, phenomenon.joins, phenomenon.trails if unit.loose else 0.0)
    near = unit.onset >= cause.onset - phenomenon.within and min(unit.onset, unit.before) <= cause.onset + latest
    return bool(near and unit.types & cause.types)


def _with_fallen(
    verdicts: Sequence[FaultVerdict], phenomenon: Phenomenon, fell: Observation, domains: RowDomains, causes: int
) -> list[FaultVerdict]:
    """The verdicts; the first `causes` of flaps, which are no modules, with the ports that fell with flapping ones as
    their members, each in one, where no other verdict has it. They are no evidence of a cause."""
    taken = np.zeros(domains.by_table[Kind.PORT].rows, np.bool_)
    for rows in (rows for v in verdicts for kind, rows in v.explained.items() if kind in FLAPPING):
        taken[rows] = True
    latest = np.where(domains.port.ids["leaf"][fell.rows] < 0, phenomenon.trails, phenomenon.within)
    found = list(verdicts)
    for at, verdict in enumerate(verdicts):
        if verdict.domain == phenomenon.mode.domain and verdict.group < causes:
            after = fell.onset - verdict.onset
            rows = fell.rows[(after >= -phenomenon.within) & (after <= latest) & ~taken[fell.rows]]
            taken[rows] = True
            if len(rows):
                every = np.union1d(verdict.explained.get(T.LINK_FELL, rows), rows)
                found[at] = replace(verdict, explained={**verdict.explained, T.LINK_FELL: every})
    return found


def _end(phenomenon: Phenomenon, causes: list[_Cause], units: Iterable[Beginning], domains: RowDomains) -> None:
    """Forget causes without a bad member, and those that a known group explains now."""
    for cause in list(causes):
        mine = [unit for unit in units if unit.rows & cause.rows]
        largest = max((len(unit.rows) for unit in mine if unit.wide), default=0)
        absorbed = largest > ABSORBED * len(rows_of(mine))
        paired = absorbed and are_pairs(phenomenon, mine, domains)
        if not mine or (absorbed and count(mine) < (LEAST_UNMAPPED if paired else least_of_groups(mine))):
            causes.remove(cause)


def clusters(
    units: Sequence[Beginning], within: float, hosts: RowDomains | None = None
) -> list[list[Beginning]]:  # fmt: skip
    """Units by windows of so many seconds, the fullest first, each unit in one; of `hosts` those of one moment."""
    rest = sorted(units, key=lambda unit: unit.onset)
    found: list[list[Beginning]] = []
    while rest:
        onsets = np.array([unit.onset for unit in rest])
        ends = np.searchsorted(onsets, onsets + within, side="right")
        first = int(np.argmax(ends - np.arange(len(rest))))
        cluster = rest[first : int(ends[first])]
        found.append(_of_one_moment(cluster, hosts) if hosts is not None else cluster)
        taken = {id(unit) for unit in found[-1]}
        rest = [unit for unit in rest if id(unit) not in taken]
    return found


def _of_one_moment(units: Sequence[Beginning], domains: RowDomains) -> list[Beginning]:
    """Those of some units of hosts that stopped at the moment of most, or stand next to these."""
    sizes = [len(unit.rows) for unit in units]
    places = domains.places(np.array([row for unit in units for row in unit.rows], np.int64))
    near = of_one_moment(np.repeat([unit.onset for unit in units], sizes), np.zeros(sum(sizes), np.int64), places)
    mine = np.add.reduceat(near, np.cumsum([0, *sizes[:-1]]))
    return [unit for unit, count in zip(units, mine.tolist(), strict=True) if count]


def _cause(phenomenon: Phenomenon, cluster: Sequence[Beginning], odds: float) -> _Cause:
    onset = min(unit.onset for unit in cluster)
    against = max(odds, SMALLEST) * A_MONTH  # chance a day against one common cause in so many days
    rows = {row for unit in cluster for row in unit.rows}
    types = frozenset(kind for unit in cluster for kind in unit.types)
    confidence = (1 - phenomenon.mode.harmless) / (1 + against)
    return _Cause(_name(phenomenon, onset), onset, confidence, -log(against), rows, types)


def _name(phenomenon: Phenomenon, onset: float) -> str:
    return f"{phenomenon.mode.name} since {datetime.fromtimestamp(onset, UTC).strftime('%H:%M:%S')}"


def _gathering(verdicts: Sequence[FaultVerdict], cluster: Sequence[Beginning]) -> list[FaultVerdict]:
    """The verdicts, with those of a cluster marked: more may follow."""
    mine = {id(unit.verdict) for unit in cluster if unit.verdict is not None}
    return [replace(verdict, gathering=True) if id(verdict) in mine else verdict for verdict in verdicts]


def _verdict(
    phenomenon: Phenomenon, slot: int, cause: _Cause, units: Sequence[Beginning], first: Beginning | None, grows: bool
) -> FaultVerdict:
    explained: dict[SymptomType, list[Ints]] = {}
    effects: dict[SymptomType, list[Ints]] = {}
    for unit in units:
        if unit.verdict is None:
            explained.setdefault(T.AGENT_SILENT, []).append(np.array(sorted(unit.rows), np.int64))
            continue
        for into, parts in ((explained, unit.verdict.explained), (effects, unit.verdict.effects)):
            for kind, rows in parts.items():
                into.setdefault(kind, []).append(rows)
    cause.seen |= any(unit.verdict is not None and unit.verdict.seen for unit in units)
    if first is not None and first.verdict is not None:
        own = dict(first.verdict.explained)
        loose = [unit.verdict.explained for unit in units if unit.loose and unit.verdict is not None]
        for kind in own.keys() & phenomenon.types:
            own[kind] = np.unique(np.concatenate([own[kind], *(rows[kind] for rows in loose if kind in rows)]))
        for kind, found in explained.items():
            effects.setdefault(kind, []).extend(found)
        every = {kind: np.concatenate(rows) for kind, rows in effects.items()}
        left = {kind: np.setdiff1d(rows, own[kind]) if kind in own else np.unique(rows) for kind, rows in every.items()}
        return replace(first.verdict, explained=own, effects=left)
    return FaultVerdict(
        modes=(cause.mode or phenomenon.mode,), group=slot, confidence=cause.confidence, alone=cause.confidence,
        explained={kind: np.unique(np.concatenate(rows)) for kind, rows in explained.items()},
        gain=cause.gain, onset=cause.onset, silent={}, rivals=(), best_other=None,
        effects={kind: np.unique(np.concatenate(rows)) for kind, rows in effects.items()},
        gathering=grows, seen=cause.seen,
    )  # fmt: skip


def _empty(domains: RowDomains, table: Kind) -> tuple[Ids, list[str]]:
    return np.full(domains.by_table[table].rows, -1, np.int32), []
