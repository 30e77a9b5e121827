"""Hosts of one chassis that die and take their links down: one verdict (docs/methods.md#missing-agents). Pure.

A sweep of the switches sees the links of dead hosts go dark. Of the causes of the noisy-OR a host explains its links
and its agent, a chassis only the agents of its hosts, so that a dead chassis would become its hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import ONE_CAUSE
from fabricmon.engine.diagnosis.diagnose import COINCIDENCE
from fabricmon.engine.diagnosis.group_modes import DEAD_MODES
from fabricmon.engine.diagnosis.observation import Observations
from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.diagnosis.uplinks import with_effects
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ints

SILENT = SymptomType.AGENT_SILENT
CHASSIS = DEAD_MODES["hosts of one chassis silent"]


def of_dead_chassis(verdicts: Sequence[FaultVerdict], observations: Observations) -> list[FaultVerdict]:
    """The verdicts; those on dead hosts of one chassis that died within a minute as one, where that is likelier than so
    many hosts at one moment. What else they explain are effects of it."""
    silent, found = observations.get(SILENT), list(verdicts)
    ids = silent.groups.ids.get("chassis") if silent is not None else None
    if silent is None or ids is None:
        return found
    of: dict[int, list[FaultVerdict]] = {}
    for verdict in verdicts:
        rows = verdict.explained.get(SILENT)
        if verdict.domain == "host" and rows is not None and (group := int(ids[rows[0]])) >= 0:
            of.setdefault(group, []).append(verdict)
    for group, hosts in of.items():
        middle = float(np.median([verdict.onset for verdict in hosts]))
        mine = [verdict for verdict in hosts if abs(verdict.onset - middle) <= ONE_CAUSE]
        observed = max(int((ids[silent.known] == group).sum()), len(mine))
        gain = better(len(mine), observed, sum(verdict.mode.cost for verdict in mine))
        if len(mine) >= CHASSIS.least and gain > 0.0:
            found = [verdict for verdict in found if not any(verdict is one for one in mine)]
            found.append(_of_chassis(group, mine, observed, gain))
    return found


def better(dead: int, observed: int, cost: float) -> float:
    """Nats by which one chassis explains these of its observed hosts better than so many dead hosts, which cost so much
    and began at one moment (docs/methods.md#coincidence)."""
    return cost + (dead - 1) * COINCIDENCE - CHASSIS.cost + float(log_marginal(dead, observed, CHASSIS.least))


def _of_chassis(group: int, mine: Sequence[FaultVerdict], observed: int, gain: float) -> FaultVerdict:
    rows: Ints = np.unique(np.concatenate([verdict.explained[SILENT] for verdict in mine]))
    confidence = 1 / (1 + exp(-gain))
    found = FaultVerdict(
        modes=(CHASSIS,), group=group, confidence=confidence, alone=confidence,
        gain=sum(verdict.gain for verdict in mine) + gain, explained={SILENT: rows},
        onset=min(verdict.onset for verdict in mine), silent={SILENT: observed - len(rows)}, rivals=(),
        best_other=None, seen=any(verdict.seen for verdict in mine), apart=(len(mine), gain),
    )  # fmt: skip
    for verdict in mine:
        others = {kind: at for kind, at in (*verdict.explained.items(), *verdict.effects.items()) if kind is not SILENT}
        found = with_effects(found, replace(verdict, explained=others))
    return found
