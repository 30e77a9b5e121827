"""Hosts of one chassis, rack or power domain that die and take their links down: one verdict. Pure.

A sweep of the switches sees the links of dead hosts go dark. Of the causes of the noisy-OR a host explains its links
and its agent, a group of hosts only their agents, so that a dead group would become its hosts, which is worse known
with more evidence (docs/methods.md#missing-agents).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, inf, log
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import MODES, ONE_CAUSE, Mode
from fabricmon.engine.diagnosis.diagnose import COINCIDENCE
from fabricmon.engine.diagnosis.group_modes import DEAD_MODES
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.diagnosis.uplinks import with_effects
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ints

SILENT = SymptomType.AGENT_SILENT
DEAD_GROUPS: tuple[Mode, ...] = (
    *(mode for mode in DEAD_MODES.values() if mode.domain in ("chassis", "rack")),
    next(mode for mode in MODES if mode.name == "power lost"),
)
DARK = 0.5
"""Share of the ports of silent hosts from which these are dead, as of one host (causes.py); and of the hosts."""


class _Dying(NamedTuple):
    """A group of hosts that may have died: verdicts on its dead hosts, rows of all its hosts that fell silent then, how
    many were observed, and nats by which it explains them better than so many hosts."""

    mode: Mode
    group: int
    hosts: list[FaultVerdict]
    rows: Ints
    observed: int
    gain: float


def of_dead_groups(verdicts: Sequence[FaultVerdict], observations: Observations) -> list[FaultVerdict]:
    """The verdicts; those on dead hosts of one group that died within a minute as one, where that is likelier than so
    many hosts at one moment. What else they explain are effects of it."""
    silent, found = observations.get(SILENT), list(verdicts)
    dead = [v for v in verdicts if v.domain == "host" and SILENT in v.explained]
    if silent is None or not dead:
        return found
    for sort in sorted(_dying(dead, verdicts, silent), key=lambda one: (-one.gain, one.mode.name, one.group)):
        left = [host for host in sort.hosts if any(host is one for one in found)]
        now = sort if len(left) == len(sort.hosts) else _group(sort.mode, sort.group, left, verdicts, silent)
        if now is not None and now.gain > 0.0:
            taken = {id(host) for host in now.hosts}
            found = [v for v in found if id(v) not in taken and not _is_silent_part(v, now)]
            found.append(_of_group(now))
    return found


def _dying(
    dead: Sequence[FaultVerdict], verdicts: Sequence[FaultVerdict], silent: Observation
) -> Iterator[_Dying]:  # fmt: skip
    """Groups of which hosts died."""
    for mode in DEAD_GROUPS:
        ids, of = silent.groups.ids.get(mode.domain), dict[int, list[FaultVerdict]]()
        for verdict in dead if ids is not None else ():
            if ids is not None and (group := int(ids[verdict.explained[SILENT][0]])) >= 0:
                of.setdefault(group, []).append(verdict)
        for group, hosts in of.items():
            if (one := _group(mode, group, hosts, verdicts, silent)) is not None:
                yield one


def _group(
    mode: Mode, group: int, hosts: Sequence[FaultVerdict], verdicts: Sequence[FaultVerdict], silent: Observation
) -> _Dying | None:
    """The group with those of its hosts that died at one moment, and those that fell silent then and of which nothing
    else is known: of a host without a port that is swept no link goes dark."""
    if len(hosts) < mode.least:
        return None
    middle, ids = float(np.median([verdict.onset for verdict in hosts])), silent.groups.ids[mode.domain]
    mine = [verdict for verdict in hosts if abs(verdict.onset - middle) <= ONE_CAUSE]
    dead = np.concatenate([verdict.explained[SILENT] for verdict in mine]) if mine else np.empty(0, np.int64)
    others = [v.explained[SILENT] for v in verdicts if SILENT in v.explained and (v.domain, v.group) != (
        mode.domain, group)]  # fmt: skip
    free = ~np.isin(silent.rows, np.concatenate(others)) if others else np.ones(len(silent.rows), np.bool_)
    near = (ids[silent.rows] == group) & (np.abs(silent.onset - middle) <= ONE_CAUSE)
    rows: Ints = np.union1d(dead, silent.rows[near & free])
    if len(mine) < mode.least or len(mine) < DARK * len(rows):
        return None
    observed = max(int((ids[silent.known] == group).sum()), len(rows))
    cost = sum(verdict.mode.cost for verdict in mine)
    return _Dying(mode, group, mine, rows, observed, cost + (len(mine) - 1) * COINCIDENCE - _price(
        mode, len(rows), observed))  # fmt: skip


def _price(mode: Mode, dead: int, observed: int) -> float:
    """Nats that it costs a group to have so many dead ones of its observed hosts, as in the noisy-OR."""
    if mode.partial:
        return mode.cost - float(log_marginal(dead, observed, mode.least))
    return mode.cost - log(1.0 - mode.q[SILENT]) * (observed - dead) if dead >= mode.share * observed else inf


def _is_silent_part(verdict: FaultVerdict, group: _Dying) -> bool:
    """Whether a verdict is on silent hosts of this group, all of which are known to be dead with it."""
    rows = verdict.explained.get(SILENT)
    mine = (verdict.domain, verdict.group) == (group.mode.domain, group.group)
    return mine and rows is not None and bool(np.isin(rows, group.rows).all())


def _of_group(group: _Dying) -> FaultVerdict:
    confidence = 1 / (1 + exp(-group.gain))
    found = FaultVerdict(
        modes=(group.mode,), group=group.group, confidence=confidence, alone=confidence,
        gain=sum(verdict.gain for verdict in group.hosts) + group.gain, explained={SILENT: group.rows},
        onset=min(verdict.onset for verdict in group.hosts), silent={SILENT: group.observed - len(group.rows)},
        rivals=(), best_other=None, seen=True, apart=(len(group.hosts), group.gain),
    )  # fmt: skip
    for verdict in group.hosts:
        others = {kind: at for kind, at in (*verdict.explained.items(), *verdict.effects.items()) if kind is not SILENT}
        found = with_effects(found, replace(verdict, explained=others))
    return found
