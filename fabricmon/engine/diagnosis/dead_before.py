"""Hosts that were silent for reasons of their own when they died with a group of others. Pure.

Their silence began at another time, or they never reported, so that it is no evidence of the group. What shows that
they died with it are the packets lost towards them (docs/methods.md#hosts-that-were-silent-before)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.losses import BEFORE, NEAR, OF_HOSTS
from fabricmon.engine.diagnosis.observation import Observations
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

T = SymptomType


def with_hosts_silent_before(
    verdicts: Sequence[FaultVerdict], observations: Observations, domains: RowDomains
) -> list[FaultVerdict]:
    """The verdicts, those on dead hosts in the one on their group with which they died."""
    groups = [at for at, v in enumerate(verdicts) if v.domain in OF_HOSTS and v.mode.kind == "fault_domain"]
    flows = observations.get(T.FLOW_LOSS)
    if not groups or flows is None:
        return list(verdicts)
    onsets = dict(zip(flows.rows.tolist(), flows.onset.tolist(), strict=True))
    found, gone = list(verdicts), set[int]()
    ids = domains.by_table[Kind.NODE].ids
    for at, verdict in enumerate(verdicts):
        lost = [onsets[row] for row in verdict.effects.get(T.FLOW_LOSS, np.empty(0)).tolist() if row in onsets]
        rows = verdict.explained.get(T.AGENT_SILENT)
        if verdict.domain != "host" or verdict.mode.kind != "host_unreachable" or rows is None or not lost:
            continue
        for group in groups:
            mine = found[group]
            inside = mine.domain in ids and (ids[mine.domain][rows] == mine.group).all()
            if inside and -BEFORE <= min(lost) - mine.onset <= NEAR:
                found[group] = _with_member(mine, verdict)
                gone.add(at)
                break
    return [verdict for at, verdict in enumerate(found) if at not in gone]


def _with_member(group: FaultVerdict, host: FaultVerdict) -> FaultVerdict:
    explained, effects = dict(group.explained), dict(group.effects)
    for kind, rows in (*host.explained.items(), *host.effects.items()):
        into = explained if kind is T.AGENT_SILENT else effects
        into[kind] = np.union1d(into.get(kind, rows[:0]), rows)
    return replace(group, explained=explained, effects=effects)
