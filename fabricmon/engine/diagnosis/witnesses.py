"""Which silent hosts are dead: what their peers lose towards them (docs/methods.md#missing-agents). Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import PEERS
from fabricmon.engine.diagnosis.losses import (
    BEFORE,
    NEAR,
    SLACK,
    PortHealth,
    mask_of,
    set_ports_aside,
    through_sick,
    waits,
)
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Floats, Ints, Mask

NONE_AWAY: Floats = np.empty(0)


def witnesses(observations: Observations, ports: PortHealth, away: Floats = NONE_AWAY) -> Observation | None:
    """Whether the peers of silent hosts lose packets towards them: a symptom of NODE rows, known of silent ones only.

    With flows: those towards the host; where they lose none after the time in which it would show, the host is up.
    Without: ports of at least two other hosts began to lose when it fell silent, and not more of them than the silent
    hosts account for. That no port loses is no evidence then: who sends to a host is not known.

    away  wall times at which hosts under maintenance went away of which no port is known
    """
    silent = observations.get(SymptomType.AGENT_SILENT)
    if silent is None or not len(silent.rows):
        return None
    hosts = silent.groups.ids["host"]
    shown, known = np.zeros(len(hosts), np.bool_), np.zeros(len(hosts), np.bool_)
    lossy, flows = observations.get(SymptomType.PACKET_LOSS), observations.get(SymptomType.FLOW_LOSS)
    if flows is not None and len(flows.known):
        shown[silent.rows], known[silent.rows] = _witnessed_by_flows(silent, flows, ports)
    if lossy is not None and len(lossy.rows):
        found = _witnessed_by_ports(silent, lossy, ports, known, away)
        shown[found] = known[found] = True
    at = np.flatnonzero(shown[silent.rows])
    known &= shown | mask_of(silent.rows[ports.now - silent.onset > NEAR], len(known))
    return Observation(silent.groups, silent.rows[at], silent.onset[at], known)


class DeadHosts:
    """Silent hosts towards which peers lost packets. They stay dead while they are silent: peers give a dead host up,
    and lose nothing towards it any more. Flows that reach it show that it is up."""

    def __init__(self) -> None:
        self._silent_since: dict[int, float] = {}

    def with_earlier(self, seen: Observation | None, observations: Observations) -> Observation | None:
        """The witnesses, with those of earlier diagnoses in the same silence."""
        silent = observations.get(SymptomType.AGENT_SILENT)
        if seen is None or silent is None:
            self._silent_since = {}
            return None
        since = dict(zip(silent.rows.tolist(), silent.onset.tolist(), strict=True))
        kept = [row for row, at in self._silent_since.items() if since.get(row) == at and not seen.known[row]]
        rows = np.union1d(seen.rows, np.array(kept, np.int64))
        self._silent_since = {row: since[row] for row in rows.tolist()}
        known = seen.known | mask_of(rows, len(seen.known))
        return Observation(seen.groups, rows, np.array([since[row] for row in rows.tolist()]), known)


def answering(observations: Observations, seen: Observation | None) -> Ints:
    """NODE rows of silent hosts towards which no peer loses packets although it would show."""
    silent = observations.get(SymptomType.AGENT_SILENT)
    if seen is None or silent is None:
        return np.empty(0, np.int64)
    return np.asarray(silent.rows[seen.known[silent.rows] & ~np.isin(silent.rows, seen.rows)])


def _witnessed_by_flows(silent: Observation, flows: Observation, ports: PortHealth) -> tuple[Mask, Mask]:
    """Of each silent host whether the flows towards it are lossy, and whether any is known."""
    towards = flows.groups.many["host"]
    mine = silent.groups.ids["host"][silent.rows].astype(np.int64)
    fine = ~through_sick(flows, ports)
    senders = np.append(ports.groups.ids["host"], -1)[ports.near[: len(fine)]]
    fine[: len(senders)] &= ~np.isin(senders, mine[mine >= 0])  # what a silent host sends is not reported any more
    bad = towards.count(mine, fine & mask_of(flows.rows, len(flows.known)))
    seen = towards.count(mine, fine & flows.known)
    return (bad >= 1) & (bad >= FLOWS_SHARE * seen), seen > 0


def _witnessed_by_ports(silent: Observation, lossy: Observation, ports: PortHealth, known: Mask, away: Floats) -> Ints:
    """The silent hosts, without those known by flows, that the losses of other ports point to: to none where one that
    is `away` went at that time."""
    hosts, power = silent.groups.ids["host"], silent.groups.ids["power"]
    alone = replace(ports.unwell, silent=np.full_like(ports.unwell.silent, np.nan))
    _, left = set_ports_aside(lossy, (), replace(ports, unwell=alone))
    waiting = waits(ports.ratio[left.rows])
    rows, began = left.rows[waiting], left.onset[waiting]
    found: list[int] = []
    for row, onset in zip(silent.rows.tolist(), silent.onset.tolist(), strict=True):
        together = silent.rows[np.abs(silent.onset - onset) <= BEFORE + NEAR]
        near = (began >= onset - BEFORE) & (began <= onset + NEAR)
        others = np.setdiff1d(lossy.groups.ids["host"][rows[near]], hosts[together])
        most = SLACK * 2 * PEERS * _ports_of(lossy, hosts[together])
        mine = not known[row] and not (np.abs(away - onset) <= BEFORE + NEAR).any()
        if mine and len(others) >= 2 and near.sum() <= most and _foremost(row, together, power):
            found.append(row)
    return np.array(found, np.int64)


FLOWS_SHARE = 0.5
"""Share of the flows towards a host that must be lossy, where they are known (design choice)."""


def _foremost(row: int, together: Ints, power: NDArray[np.int32]) -> bool:
    """Of the hosts that fell silent together, this one or its power domain is the one that the ports lose packets
    towards: it is alone, or more of its domain fell silent than of any other."""
    if len(together) == 1:
        return True
    domains = power[together]
    numbers, counts = np.unique(domains[domains >= 0], return_counts=True)
    if power[row] < 0 or not len(numbers):
        return False
    mine = int(counts[numbers == power[row]][0])
    rest = int(counts[numbers != power[row]].max(initial=0))
    return mine > 1 and mine > rest


def _ports_of(ports: Observation, hosts: NDArray[np.int32]) -> int:
    ids = ports.groups.ids["host"]
    return int(np.isin(ids, hosts[hosts >= 0]).sum())
