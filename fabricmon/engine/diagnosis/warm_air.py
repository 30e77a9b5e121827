"""Bit errors in warm air: a leaf's ports, or ports that nothing else joins, whose modules are hot are a rack or a row.

The modules are those of the hosts: a leaf that is too warm heats the modules at its own end (docs/methods.md#warm-air).
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.diagnose import MOSTLY
from fabricmon.engine.diagnosis.group_modes import PARTIAL_MODES
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Floats, Ints
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.fleet.view import View

LEAST = 3  # members whose modules are read, as of a rack (group_modes.py)
HOTTER = 10.0
"""Degrees above the median of all modules: the recommended range of what hosts breathe in is 9 wide (ASHRAE)."""
Z = 3.5  # as of peers (docs/methods.md#peer-comparison)
NAMES = frozenset({"part of a leaf with bit errors", "ports of a leaf with bit errors"})
COOLED = ("rack", "row")
"""Domains that share their air, the smallest first."""
MODES = {mode.domain: mode for mode in PARTIAL_MODES if mode.domain in COOLED and SymptomType.LINK_ERRORS in mode.q}


def of_warm_air(verdicts: Sequence[FaultVerdict], domains: RowDomains, ports: View) -> list[FaultVerdict]:
    """The verdicts, those on bit errors of ports of one rack or row with hot modules as verdicts on that; of those on a
    rack or row, by how much its modules are hotter."""
    mine = [at for at, verdict in enumerate(verdicts) if verdict.mode.name in NAMES]
    if not mine and not any(verdict.mode in MODES.values() for verdict in verdicts):
        return list(verdicts)
    above = _above_others(ports)
    found = list(verdicts)
    for at in mine:
        rows = found[at].explained[SymptomType.LINK_ERRORS]
        if (warmer := _warmer(rows, above, LEAST)) > 0.0:
            found[at] = next((_cooled(found[at], d, rows, warmer, domains) for d in COOLED if _one(d, rows, domains)),
                             found[at])  # fmt: skip
    merged = _merged([_of_warm_place(verdict, found, above, domains) for verdict in found]) if mine else found
    return [_with_warmth(verdict, above) for verdict in merged]


def _with_warmth(verdict: FaultVerdict, above: Floats) -> FaultVerdict:
    """A verdict on a rack or row whose modules are hot: that is known of it from the start."""
    if verdict.mode not in MODES.values() or verdict.warmer > 0.0:
        return verdict
    return replace(verdict, warmer=_warmer(verdict.explained[SymptomType.LINK_ERRORS], above, LEAST))


def _warmer(rows: Ints, above: Floats, least: int) -> float:
    """Degrees by which the modules of so many rows at least are hotter, if most of those that are read are; else 0."""
    degrees = above[rows[rows < len(above)]]
    degrees = degrees[np.isfinite(degrees)]
    hot = len(degrees) >= least and (degrees > HOTTER).mean() >= MOSTLY
    return float(np.median(degrees)) if hot else 0.0


def _of_warm_place(
    verdict: FaultVerdict, verdicts: Sequence[FaultVerdict], above: Floats, domains: RowDomains
) -> FaultVerdict:
    """A verdict on bit errors of hot modules in a row or rack that another one shows to be warm as one on that, the
    row first: ports of a rack or row are on several leaves, on some of them few."""
    if verdict.explained.keys() != {SymptomType.LINK_ERRORS}:
        return verdict
    rows = verdict.explained[SymptomType.LINK_ERRORS]
    warmer = _warmer(rows, above, 1)
    for domain in reversed(COOLED) if warmer > 0.0 else ():
        groups = [one.group for one in verdicts if one.mode is MODES[domain] and one.warmer > 0.0]
        if _one(domain, rows, domains) and _group(domain, rows, domains) in groups:
            return _cooled(verdict, domain, rows, warmer, domains)
    return verdict


def _merged(verdicts: Sequence[FaultVerdict]) -> list[FaultVerdict]:
    """Those on one rack or row as one: a rack hangs on several leaves."""
    kept: dict[tuple[str, int], int] = {}
    found: list[FaultVerdict] = []
    for verdict in verdicts:
        key = verdict.mode.name, verdict.group
        if verdict.mode not in MODES.values() or key not in kept:
            kept.setdefault(key, len(found))
            found.append(verdict)
            continue
        first = found[kept[key]]
        explained, effects = dict(first.explained), dict(first.effects)
        for into, parts in ((explained, verdict.explained), (effects, verdict.effects)):
            for kind, rows in parts.items():
                into[kind] = np.union1d(into.get(kind, rows[:0]), rows)
        found[kept[key]] = replace(
            first, explained=explained, effects=effects, onset=min(first.onset, verdict.onset),
            warmer=max(first.warmer, verdict.warmer),
        )  # fmt: skip
    return found


def _above_others(ports: View) -> Floats:
    """Degrees of each row's module above the median of all; 0 where that is within their spread, NaN unknown."""
    degrees = ports.value("module_temperature")[: ports.n]
    known = degrees[np.isfinite(degrees)]
    if not len(known):
        return np.full(ports.n, np.nan)
    middle = float(np.median(known))
    spread = 1.4826 * float(np.median(np.abs(known - middle)))
    above = degrees - middle
    return np.where(np.isnan(above) | (above > Z * spread), above, 0.0)


def _one(domain: str, rows: Ints, domains: RowDomains) -> bool:
    """Whether nearly all rows are in one group of a domain."""
    ids = domains.port.ids.get(domain)
    return ids is not None and np.bincount(ids[rows] + 1)[1:].max(initial=0) >= MOSTLY * len(rows)


def _group(domain: str, rows: Ints, domains: RowDomains) -> int:
    """The group that has most of some rows."""
    return int(np.argmax(np.bincount(domains.port.ids[domain][rows] + 1)[1:]))


def _cooled(verdict: FaultVerdict, domain: str, rows: Ints, warmer: float, domains: RowDomains) -> FaultVerdict:
    group = _group(domain, rows, domains)
    own = replace(verdict, silent={}, rivals=(), best_other=None, unlikely=(), apart=None)  # those were of the leaf
    return replace(own, modes=(MODES[domain],), group=group, warmer=warmer)
