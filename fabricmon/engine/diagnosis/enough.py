"""Whether so many beginnings at one moment are enough for an unknown common cause, and the known group that explains
them (docs/methods.md#unknown-common-cause). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.beginnings import MOSTLY, Beginning
from fabricmon.engine.diagnosis.coincidence import UNLIKELY
from fabricmon.engine.diagnosis.module_by_name import is_module
from fabricmon.engine.diagnosis.neighbours import run_of
from fabricmon.engine.diagnosis.phenomena import FLAPPING, Phenomenon
from fabricmon.engine.diagnosis.places import are_apart, share_of_place, without_strangers
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

T = SymptomType
LEAST = 4
"""Beginnings of single parts that can have an unknown common cause (docs/methods.md#learned-groups)."""
LEAST_UNMAPPED = 2
"""The same of ports and hosts of which no map shows what they share, as the two of a module or a chassis, where
`Phenomenon.pairs`."""
ABSORBED = 0.5  # share of the members that a known group must explain to end a cause


def count(units: Sequence[Beginning]) -> int:
    """Beginnings of some units: of whole leaves and rails alone their leaves, else the units."""
    alike = len(units) > 1 and all(unit.leaves and not unit.partly for unit in units)
    return sum(unit.leaves for unit in units) if alike else len(units)


def rows_of(units: Iterable[Beginning]) -> frozenset[int]:
    """Rows of some units, each once: a host all of whose links are down has links that its leaf explains, too."""
    return frozenset().union(*(unit.rows for unit in units))


def foremost(units: Sequence[Beginning], domains: RowDomains) -> Beginning | None:
    """The known group that explains most of what began together, None where none does. Another group that fails as a
    whole is no part of it, unless it is so small that it may be of ports filed at the wrong place. More than half is
    most where all else may be its ports."""
    wide = sorted((unit for unit in units if unit.wide), key=lambda unit: -len(unit.rows))
    every = len(rows_of(units))
    if not wide or not all(unit.partly or unit.loose or _is_misfiled(unit, units, domains) for unit in wide[1:]):
        return None
    first, mine = wide[0], len(wide[0].rows)
    if _goes_on(first, units, domains):
        return None
    return first if mine >= MOSTLY * every or (mine > ABSORBED * every and _fits(first, units, domains)) else None


def foremost_of_its_own(units: Sequence[Beginning], domains: RowDomains) -> Beginning | None:
    """The same where the largest group fails as a whole and is more than half of what began: it explains most of what
    is left without the single parts that cannot be of it."""
    if (first := foremost(units, domains)) is not None:
        return first
    largest = max((unit for unit in units if unit.wide), key=lambda unit: len(unit.rows), default=None)
    if largest is None or largest.partly or len(largest.rows) <= ABSORBED * len(rows_of(units)):
        return None
    if _goes_on(largest, units, domains):
        return None
    own = without_strangers(largest, units, domains)
    left = [unit for unit in units if unit.wide or any(unit is one for one in own)]
    return largest if foremost(left, domains) is largest else None


def _is_misfiled(whole: Beginning, units: Sequence[Beginning], domains: RowDomains) -> bool:
    """Whether a module or cage that fails as a whole may be of ports which are filed there wrongly: more single links
    than it has are filed on other leaves than the largest group, and all have names of this one's adapters."""
    first = max((unit for unit in units if unit.wide), key=lambda unit: len(unit.rows))
    if whole.verdict is None or whole.verdict.domain not in MODULES:
        return False
    singles = [row for unit in units if not unit.wide and not unit.loose for row in unit.rows]
    names = domains.devices([*singles, *whole.rows])
    return len(singles) > len(whole.rows) and bool(names) and names <= domains.devices(first.rows)


MODULES = frozenset({"module", "cage"})
"""Domains of two or so ports."""


def apart_from_first(phenomenon: Phenomenon, units: Sequence[Beginning], domains: RowDomains) -> list[Beginning]:
    """Whole groups that are no leaves, as a module of another leaf, beside the known group that explains most of the
    rest: with it they are not enough for a common cause, and ports of it that no map shows are no further evidence."""
    first = max((unit for unit in units if unit.wide), key=lambda unit: len(unit.rows), default=None)
    wholes = [u for u in units if u.wide and u is not first and not (u.partly or u.loose or u.leaves)]
    rest = [unit for unit in units if not any(unit is one for one in wholes)]
    if first is None or first.known or not wholes or len(rest) < 2 or foremost(rest, domains) is not first:
        return []
    together = [first, *wholes]
    return wholes if count(together) < least_of(phenomenon, together, domains) else []


def _goes_on(first: Beginning, units: Sequence[Beginning], domains: RowDomains) -> bool:
    """Whether all hosts next to a group's, which are on another supply, fell silent with it: what they share goes on
    beyond it."""
    own = without_strangers(first, units, domains) if first.of_hosts else units
    others = [unit for unit in units if not any(unit is one for one in own)]
    run = run_of([first, *others], domains, Kind.NODE) if others else None
    return run is not None and run.whole


def share(phenomenon: Phenomenon, cluster: Sequence[Beginning], domains: RowDomains) -> float:
    """Chance that another beginning is in the place where all of these are."""
    run = run_of(cluster, domains, phenomenon.table) if phenomenon.local else None
    return min(share_of_place(cluster, domains), 1.0 if run is None else run.share)


def _fits(first: Beginning, units: Iterable[Beginning], domains: RowDomains) -> bool:
    """Whether all others may be ports of the first: of hosts, no leaf is known of them, and their adapters have the
    names of its own (one rail). A cage has all of its ports: its host knows them without a map."""
    rest = [unit for unit in units if unit is not first]
    rows = [row for unit in rest for row in unit.rows]
    if first.verdict is not None and first.verdict.domain == "cage":
        return False
    of_hosts = bool((domains.hosts[rows] >= 0).all()) if rest else False
    return of_hosts and all(unit.loose for unit in rest) and domains.devices(rows) <= domains.devices(first.rows)


def least_of(phenomenon: Phenomenon, cluster: Sequence[Beginning], domains: RowDomains) -> int:
    """Beginnings from which a cluster can have a common cause. A group and what may be its ports are two."""
    if any(unit.beside < UNLIKELY for unit in cluster):
        return 1
    if _are_cables(phenomenon, cluster, domains):
        return 2
    if not any(unit.wide for unit in cluster):
        return LEAST_UNMAPPED if are_pairs(phenomenon, cluster, domains) else LEAST
    first = foremost(cluster, domains)
    own = [unit for unit in cluster if unit is first or unit.loose or not unit.wide]
    if first is not None and _fits(first, own, domains):
        return 2
    return LEAST_UNMAPPED if are_pairs(phenomenon, cluster, domains) else least_of_groups(cluster)


def are_pairs(phenomenon: Phenomenon, cluster: Sequence[Beginning], domains: RowDomains) -> bool:
    """Whether two are enough: ports and hosts of which no map shows what they share, or adapters of one cage of such
    ports, which is a doubtful name for what hosts beside it have, too. What ports of one host share is known; hosts of
    one chassis are next to each other, while cables of one module may lead anywhere: those of hosts beside each other
    are a module by their names, which nothing else joins (module_by_name.py), and those of two port names far from each
    other are of two rails. Links that flap must have fallen together again and again, wherever a map places them: once
    may be chance, and others of their part may have been spared."""
    flaps = bool(phenomenon.types & FLAPPING)
    if not phenomenon.pairs or not (flaps or all(unit.unplaced for unit in cluster)):
        return False
    if phenomenon.table is Kind.PORT and is_module(cluster, domains):
        return False
    if flaps and (cluster[0].alike < 0 or len({unit.alike for unit in cluster}) > 1):
        return False
    host = domains.by_table[phenomenon.table].ids["host"]
    hosts = [np.unique(host[list(unit.rows)]) for unit in cluster]
    if any(unit.wide and len(mine) > 1 for unit, mine in zip(cluster, hosts, strict=True)):
        return False
    if len(np.unique(np.concatenate(hosts))) < 2 or are_apart(cluster, domains):
        return False
    ports = phenomenon.table is Kind.PORT
    if ports and (flaps or _of_one_name(cluster, domains)):
        return True
    run = run_of(cluster, domains, phenomenon.table)
    return run.whole if run is not None else not ports


def _of_one_name(cluster: Sequence[Beginning], domains: RowDomains) -> bool:
    """Whether these may be ports of one leaf by their names within their hosts: links of one name, or cages."""
    named = domains.port.ids["port_name"]
    return any(unit.wide for unit in cluster) or len({int(named[row]) for unit in cluster for row in unit.rows}) == 1


def _are_cables(phenomenon: Phenomenon, cluster: Sequence[Beginning], domains: RowDomains) -> bool:
    """Whether so many links of hosts next to each other, of several parts that have few each, are down or have bit
    errors that it is what their cables share, or the air: all hosts report, and no such part has links of another."""
    verdicts = [unit.verdict for unit in cluster if unit.verdict is not None]
    known = all(verdict.domain in SMALL and T.AGENT_SILENT not in verdict.explained for verdict in verdicts)
    links = sum(len(unit.rows) for unit in cluster)
    if not known or links < LEAST or not all(unit.types in ALIKE for unit in cluster):
        return False
    run = run_of(cluster, domains, phenomenon.table)
    return run is not None and run.whole


ALIKE = (frozenset({T.LINK_DOWN}), frozenset({T.LINK_ERRORS}))
"""What each of them shows, alone, where cables fail together or the air is too warm."""
SMALL = frozenset({"link", "nic", "host", "cage", "module", "pcie_switch"})
"""Domains of parts that have few links."""


def least_of_groups(units: Iterable[Beginning]) -> int:
    """Beginnings with a group among them that can have an unknown common cause. Two groups of hosts that fall silent
    together are one segment of the management network or one feed; two parts of groups that go down at one moment are
    doubtful names for what has cables in both, which does not flap; two whole leaves are two, with one cable beside
    them, too. One such part and single links are no two groups."""
    wide = [unit for unit in units if unit.wide]
    whole = [unit for unit in wide if not unit.partly]
    if len(wide) < 2 and not any(unit.of_hosts for unit in wide):
        return 3
    if all(T.AGENT_SILENT in unit.types for unit in whole) and not all(unit.types <= FLAPPING for unit in wide):
        return 2
    return LEAST if len(whole) == len(wide) == 2 and count(wide) == 2 else 3
