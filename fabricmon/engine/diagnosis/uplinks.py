"""Cables between switches that fail with the switch at one of their ends. Pure.

A sweep reports them as links of their own. They are in no group of a leaf, which is its hosts' ports: they are effects
of its verdict, and may show that it fails before its ports do. Of a switch without hosts they are all that shows
(docs/methods.md#switches-above-leaves).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GROUPS, LEAK, Mode
from fabricmon.engine.diagnosis.diagnose import MOSTLY
from fabricmon.engine.diagnosis.group_modes import HARD_MODES, SWITCH_MODES
from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.diagnosis.search import CAP
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ints, Mask
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

FAILING = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING, SymptomType.LINK_ERRORS})
OF_LEAVES = ("leaf", "run_down", "run_flapping", "run_errors")
"""Domains with the group numbers of leaves."""
BEFORE = 60.0  # seconds by which a cable may seem to fail before its switch: sweeps are polls (design choice)


def with_their_switch(verdicts: Sequence[FaultVerdict], domains: RowDomains) -> list[FaultVerdict]:
    """The verdicts, without those on cables between switches that the verdict on a leaf at one end explains. A host
    that has all ports of a leaf, whose other cables fail with them, is that leaf."""
    at_switch: dict[str, int] = {}
    of_host: dict[int, int] = {}
    for at, verdict in enumerate(verdicts):
        for leaf in _leaves(verdict, domains):
            at_switch.setdefault(domains.about("leaf", leaf).get("switch", ""), at)
            if verdict.domain == "host":
                of_host[at] = leaf
    at_switch.pop("", None)
    tier = domains.assigned.ids["tier"]
    found = list(verdicts)
    gone: set[int] = set()
    owned: Counter[int] = Counter()
    for at, verdict in enumerate(verdicts):
        rows = [rows for kind, rows in verdict.explained.items() if kind in FAILING]
        if not at_switch or verdict.domain != "link" or not rows or (tier[np.concatenate(rows)] < 0).any():
            continue
        ends = [end.rpartition("/")[0] for end in domains.names["link"][verdict.group].split(", ")]
        owner = next((at_switch[end] for end in ends if end in at_switch), None)
        if owner is not None and verdict.onset >= found[owner].onset - BEFORE:
            found[owner] = with_effects(found[owner], verdict)
            gone.add(at)
            owned[owner] += 1
    for at, leaf in of_host.items():
        if owned[at] >= LEAST:
            found[at] = replace(found[at], modes=(LEAF_DOWN,), group=leaf)
    return [verdict for at, verdict in enumerate(found) if at not in gone]


def _leaves(verdict: FaultVerdict, domains: RowDomains) -> list[int]:
    """Leaves that fail by a verdict: its own, or those of a group of which it explains nearly all ports."""
    rows = [rows for kind, rows in verdict.explained.items() if kind in FAILING]
    if not rows or verdict.domain in OF_LEAVES:
        return [verdict.group] if rows else []
    if verdict.domain not in GROUPS:
        return []
    ids = domains.port.ids["leaf"]
    shown = np.bincount(ids[np.unique(np.concatenate(rows))] + 1, minlength=int(ids.max(initial=-1)) + 2)[1:]
    size = np.bincount(ids + 1, minlength=len(shown) + 1)[1:]
    return np.flatnonzero((shown >= LEAST) & (shown >= MOSTLY * size)).tolist()


OF_A_LEAF = "cables of a leaf"
"""Instead of "switch" in the names of SWITCH_MODES, where the switch has hosts."""

LEAST = 2  # ports of a leaf, or its cables to other switches, that fail
LEAF_DOWN = next(mode for mode in HARD_MODES if mode.name == "leaf down")


def with_effects(verdict: FaultVerdict, cable: FaultVerdict) -> FaultVerdict:
    """The verdict, with what another one explains among its effects."""
    effects = dict(verdict.effects)
    for kind, rows in cable.explained.items():
        effects[kind] = np.union1d(effects.get(kind, rows[:0]), rows)
    return replace(verdict, effects=effects)


def of_switches_above(
    verdicts: Sequence[FaultVerdict], domains: RowDomains, known: Mapping[SymptomType, Mask] = {}
) -> list[FaultVerdict]:
    """The verdicts; those on cables of one switch as one, where that explains them better.

    known  symptom type -> PORT rows that were observed; without an entry all
    """
    tier = domains.assigned.ids["tier"]
    found = list(verdicts)
    ids, names = np.full(len(tier), -1, np.int32), list[str]()
    transit = [v for v in verdicts if v.domain == "link" and (tier[_rows(v)] >= 0).all()]
    if len(transit) >= min(mode.least for mode in SWITCH_MODES.values()):
        leaves = {about.get("switch", ""): leaf for leaf, about in enumerate(domains.assigned.about.get("leaf", []))}
        leaves.pop("", None)
        cables = _cables(domains, leaves)
        while (best := _best_switch(transit, cables)) is not None:
            kind, switch, mine = best
            group = len(names)
            names.append(domains.names["leaf"][leaves[switch]] if switch in leaves else switch)
            ids[[row for row in cables[switch] if ids[row] < 0]] = group
            tiers = {domains.names["tier"][at] for at in tier[cables[switch]].tolist() if at >= 0}
            word = "leaf" if switch in leaves else "spine" if any(name.startswith("0-") for name in tiers) else "core"
            name = SWITCH_MODES[kind].name.replace("switch", OF_A_LEAF) if word == "leaf" else SWITCH_MODES[kind].name
            mode = replace(SWITCH_MODES[kind], word=word, name=name)
            one = _of_switch(mine, kind, mode, group, cables[switch])
            found = [v for v in found if v not in mine] + [_with_silent(one, kind, cables[switch], known.get(kind))]
            transit = [v for v in transit if v not in mine]
    domains.divide("switch", ids, names)
    return found


def _rows(verdict: FaultVerdict) -> Ints:
    return np.concatenate(list(verdict.explained.values()))


def _cables(domains: RowDomains, leaves: Mapping[str, int]) -> Mapping[str, list[int]]:
    """Switch -> the row that stands for each of its cables to other switches, of those that a sweep reports, and of a
    leaf the rows of its ports."""
    tier, link = domains.assigned.ids["tier"], domains.port.ids["link"]
    found: dict[str, list[int]] = {}
    for row in np.flatnonzero((tier >= 0) & (link >= 0)).tolist():
        for end in domains.names["link"][link[row]].split(", "):
            found.setdefault(end.rpartition("/")[0], []).append(row)
    for switch in found.keys() & leaves.keys():
        found[switch] += domains.members(Kind.PORT, "leaf", leaves[switch]).tolist()
    return found


def _best_switch(
    transit: Sequence[FaultVerdict], cables: Mapping[str, list[int]]
) -> tuple[SymptomType, str, list[FaultVerdict]] | None:
    """Symptom type, switch and verdicts on its cables, of the switch that gains most by taking their place."""
    best: tuple[float, SymptomType, str, list[FaultVerdict]] | None = None
    for kind, mode in SWITCH_MODES.items():
        at = {row: verdict for verdict in transit for row in verdict.explained.get(kind, ())}
        for switch, rows in cables.items():
            mine = [at[row] for row in rows if row in at]
            if len(mine) < mode.least:
                continue
            middle = sorted(verdict.onset for verdict in mine)[len(mine) // 2]
            mine = [verdict for verdict in mine if abs(verdict.onset - middle) <= mode.together]
            gain = switch_gain(kind, len(mine), len(rows)) - sum(verdict.gain for verdict in mine)
            if len(mine) >= mode.least and gain > (best[0] if best else 0.0):
                best = gain, kind, switch, mine
    return best[1:] if best is not None else None


def switch_gain(kind: SymptomType, failed: int, cables: int) -> float:
    """Nats by which one fault of a switch explains that these of its cables failed (docs/methods.md#partial-modes)."""
    return failed * (log(CAP) - log(LEAK[kind])) - SWITCH_MODES[kind].cost + float(log_marginal(failed, cables))


def _with_silent(verdict: FaultVerdict, kind: SymptomType, cables: Sequence[int], known: Mask | None) -> FaultVerdict:
    """Without cables that were not observed, as those of silent hosts, among those that show nothing."""
    if known is None:
        return verdict
    return replace(verdict, silent={kind: len(np.setdiff1d([row for row in cables if known[row]],
                                                           verdict.explained[kind]))})  # fmt: skip


def _of_switch(
    mine: Sequence[FaultVerdict], kind: SymptomType, mode: Mode, group: int, rows: Sequence[int]
) -> FaultVerdict:
    explained: dict[SymptomType, Ints] = {}
    for verdict in mine:
        for shown, at in verdict.explained.items():
            explained[shown] = np.union1d(explained.get(shown, at[:0]), at)
    gain, apart = switch_gain(kind, len(mine), len(rows)), sum(verdict.gain for verdict in mine)
    confidence = 1 / (1 + exp(min(0.0, apart - gain)))
    return FaultVerdict(
        modes=(mode,), group=group, confidence=confidence, alone=confidence, gain=gain,
        explained=explained, onset=min(verdict.onset for verdict in mine),
        silent={kind: len(rows) - len(mine)}, rivals=(), best_other=None, apart=(len(mine), gain - apart),
    )  # fmt: skip
