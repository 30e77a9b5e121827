"""From observations to verdicts: hard faults, then losses, then unexplained symptoms. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.kinds import KINDS
from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GROUPS, LOSSES, MODES, NOTED, ONE_CAUSE
from fabricmon.engine.diagnosis.diagnose import MOSTLY, FaultVerdict, diagnose, unexplained
from fabricmon.engine.diagnosis.losses import NEAR, PortHealth, place_losses, witnesses
from fabricmon.engine.diagnosis.observation import Observations
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.diagnosis.uplinks import of_switches_above, with_effects, with_their_switch
from fabricmon.engine.domains.groups import Ints
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

WITNESS = SymptomType.LOSS_TOWARDS_HOST
CUTTING = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING})
"""Symptoms of a leaf whose hosts are unreachable."""
CUT_OFF = 0.5
"""Share of a host's ports below failed leaves from which these explain its silence (design choice)."""


def verdicts_of(
    observations: Observations, silence: float, ports: PortHealth, moved: NDArray[np.bool_], index: SymptomIndex
) -> list[FaultVerdict]:
    """All verdicts on the open symptoms.

    silence  base rate of silent agents (`silence_rate`)
    moved    bool[n] of the NODE rows: a port of the host carried traffic shortly before its last frame
    """
    hard = {kind: found for kind, found in observations.items() if kind not in LOSSES}
    seen = witnesses(observations, ports, moved)
    found = diagnose(hard | ({WITNESS: seen} if seen is not None else {}), silence)
    found = [_without_witness(verdict) for verdict in found if set(verdict.explained) != {WITNESS}]
    found = [_with_unseen(verdict, moved, ports.now) for verdict in found]
    found = without_falls(found)
    found = of_switches_above(with_their_switch(_without_cut_off(found, ports), index.domains), index.domains)
    found, soft = place_losses(observations, found, ports)
    return found + fallback(index, hard, found) + soft


def without_falls(verdicts: Sequence[FaultVerdict]) -> list[FaultVerdict]:
    """Without links that are down, or modules that flap, all of whose ports a larger group has that flaps: what flaps
    is down at times. They are effects of it."""
    groups = [at for at, v in enumerate(verdicts) if v.domain in GROUPS and FLAPPING & v.explained.keys()]
    found, gone = list(verdicts), set[int]()
    for at, verdict in enumerate(verdicts):
        rows = np.concatenate(list(verdict.explained.values()))
        if not verdict.explained.keys() <= CUTTING | FLAPPING:
            continue
        for larger in groups:
            held = np.concatenate([r for kind, r in found[larger].explained.items() if kind in FLAPPING])
            if larger not in gone and larger != at and len(rows) < len(held) and np.isin(rows, held).all():
                found[larger] = with_effects(found[larger], verdict)
                gone.add(at)
                break
    return [verdict for at, verdict in enumerate(found) if at not in gone]


FLAPPING = frozenset({SymptomType.LINK_FLAPPING, SymptomType.LINK_FELL})


def with_dark_hosts(verdicts: Sequence[FaultVerdict], domains: RowDomains) -> list[FaultVerdict]:
    """The verdicts, without links that are down of hosts that another one explains as dead or without power: who sweeps
    the switches sees their ports go dark."""
    owner: dict[int, int] = {}
    of_nodes, of_ports = domains.by_table[Kind.NODE].ids["host"], domains.port.ids["host"]
    for at, verdict in enumerate(verdicts):
        if verdict.mode.kind in DARK:
            rows = verdict.explained.get(SymptomType.AGENT_SILENT, np.empty(0, np.int64))
            owner |= dict.fromkeys(of_nodes[rows].tolist(), at)
    found, gone = list(verdicts), set[int]()
    for at, verdict in enumerate(verdicts if owner else ()):
        if verdict.explained.keys() == {SymptomType.LINK_DOWN}:
            hosts = of_ports[verdict.explained[SymptomType.LINK_DOWN]].tolist()
            dark = [owner[host] for host in hosts if host in owner]
            most = max(dark, key=dark.count) if len(dark) >= MOSTLY * len(hosts) else -1
            if most >= 0 and verdict.onset >= found[most].onset - ONE_CAUSE:
                found[most] = with_effects(found[most], verdict)
                gone.add(at)
    return [verdict for at, verdict in enumerate(found) if at not in gone]


DARK = ("fault_domain", "host_unreachable")
"""Kinds of verdicts on silent hosts that are more than silence."""


def _without_cut_off(verdicts: Sequence[FaultVerdict], ports: PortHealth) -> list[FaultVerdict]:
    """Without dead hosts below a leaf that is down: their state is unknown."""
    leaves = {v.group for v in verdicts if v.domain == "leaf" and v.explained.keys() & CUTTING}
    if not leaves:
        return list(verdicts)
    host, leaf = ports.groups.ids["host"], ports.groups.ids["leaf"]

    def cut_off(verdict: FaultVerdict) -> bool:
        mine = leaf[host == verdict.group]
        mine = mine[mine >= 0]
        return len(mine) > 0 and bool(np.isin(mine, sorted(leaves)).mean() >= CUT_OFF)

    return [v for v in verdicts if v.mode.name != "host dead" or not cut_off(v)]


def _without_witness(verdict: FaultVerdict) -> FaultVerdict:
    """Remove WITNESS, which is no symptom of a rule, and set `seen`."""
    if WITNESS not in verdict.explained and WITNESS not in verdict.silent:
        return verdict
    return replace(
        verdict,
        explained={kind: rows for kind, rows in verdict.explained.items() if kind != WITNESS},
        silent={kind: count for kind, count in verdict.silent.items() if kind != WITNESS},
        seen=WITNESS in verdict.explained,
    )


def _with_unseen(verdict: FaultVerdict, moved: NDArray[np.bool_], now: float) -> FaultVerdict:
    """Set `unseen` of lost power or a cut network: one of the hosts had traffic, and a loss may still show."""
    rows = verdict.explained.get(SymptomType.AGENT_SILENT)
    if rows is None or verdict.seen or not any(rival.mode.domain == verdict.domain for rival in verdict.rivals):
        return verdict
    return replace(verdict, unseen=bool(moved[rows].any()) and now - verdict.onset <= NEAR)


def fallback(index: SymptomIndex, observations: Observations, verdicts: Sequence[FaultVerdict]) -> list[FaultVerdict]:
    """Suspicions about the own component of link symptoms that no cause explains; NOTED ones only from warning on."""
    found: list[FaultVerdict] = []
    for kind, rows in unexplained(observations, verdicts).items():
        mode = next((m for m in MODES if KINDS[m.kind].symptom == kind and m.domain in ("link", "nic")), None)
        if mode is None:
            continue
        if kind in NOTED:
            warned = [any(s.severity.rank for s in index.symptoms(kind, rows[at : at + 1])) for at in range(len(rows))]
            rows = rows[np.array(warned, np.bool_)]
        ids = observations[kind].groups.ids[mode.domain][rows]
        for group in np.unique(ids[ids >= 0]).tolist():
            mine: Ints = rows[ids == group]
            onset = float(observations[kind].onset[np.isin(observations[kind].rows, mine)].min())
            found.append(FaultVerdict((mode,), group, 0.5, 0.5, 0.0, {kind: mine}, onset, {}, (), None))
    return found
