"""Cables of one switch that begin to lose packets at one moment: the switch, sooner than faults of their own. Pure.

Method: docs/methods.md#lossy-cables-of-one-switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import FLOW_MODES, Mode
from fabricmon.engine.diagnosis.diagnose import AMBIGUOUS, COINCIDENCE, POLL
from fabricmon.engine.diagnosis.group_modes import GROUPS_OF_PORTS
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ints
from fabricmon.engine.domains.row_domains import RowDomains

LEAST = 2  # cables of a switch
IN_PART = {mode.domain: mode for mode in FLOW_MODES if mode.domain in ("spine", "core") and min(mode.q.values()) <= 0.5}
CABLE = next(mode for mode in FLOW_MODES if mode.domain == "link")
MODULE = next(group.cost for group in GROUPS_OF_PORTS if group.domain == "module")


def of_lossy_switches(
    verdicts: Sequence[FaultVerdict], flows: Observation | None, domains: RowDomains
) -> list[FaultVerdict]:
    """The verdicts; those on lossy cables of a spine or core as one on it, where that is likelier by AMBIGUOUS."""
    found = list(verdicts)
    cables = [v for v in verdicts if v.domain == "link" and SymptomType.FLOW_LOSS in v.explained]
    while flows is not None and len(cables) >= LEAST:
        above = sorted(_switches(cables, flows, domains), key=lambda v: (-v.gain, v.mode.domain, v.group))
        if not above or (len(above) > 1 and above[1].gain > above[0].gain - AMBIGUOUS and _shared(*above[:2])):
            break
        found = [v for v in found if v.domain != "link" or v.group not in above[0].cables] + above[:1]
        cables = [v for v in cables if v.group not in above[0].cables]
    return found


def _shared(one: FaultVerdict, other: FaultVerdict) -> bool:
    return bool(set(one.cables) & set(other.cables))


def _switches(cables: Sequence[FaultVerdict], flows: Observation, domains: RowDomains) -> list[FaultVerdict]:
    """A verdict on each switch that explains some cables better than faults of their own."""
    found = []
    for domain, mode in IN_PART.items():
        for group, switch in enumerate(domains.names[domain]):
            ports = {v.group: _ports(v, switch, domains) for v in cables}
            mine = _at_one_moment([v for v in cables if ports[v.group]])
            if len(mine) >= LEAST:
                observed = _observed(mine, flows, flows.groups.many[domain].members(group), switch, domains)
                gain = gain_of(mode, [ports[v.group] for v in mine], observed)
                if gain >= AMBIGUOUS:
                    found.append(_on_switch(mine, mode, group, gain, observed))
    return found


def _ports(verdict: FaultVerdict, switch: str, domains: RowDomains) -> list[str]:
    """Its ports that a cable may be at, with those of its ambiguity group; none if one of these is elsewhere."""
    found = []
    for cable in (verdict.group, *(rival.group for rival in verdict.rivals if rival.mode.domain == "link")):
        at = [port for end, _, port in _ends(cable, domains) if end == switch]
        if not at:
            return []
        found += at
    return found


def _ends(cable: int, domains: RowDomains) -> list[tuple[str, str, str]]:
    return [end.rpartition("/") for end in domains.names["link"][cable].split(", ")]


def _at_one_moment(cables: Sequence[FaultVerdict]) -> list[FaultVerdict]:
    """Those within a poll of their median onset."""
    onsets = sorted(v.onset for v in cables)
    return [v for v in cables if abs(v.onset - onsets[len(onsets) // 2]) <= POLL]


def _observed(mine: Sequence[FaultVerdict], flows: Observation, through: Ints, switch: str, domains: RowDomains) -> int:
    """Cables of a switch that are observed: the lossy ones, and those through which a flow loses nothing."""
    fine = flows.known.copy()
    fine[flows.rows] = False
    of = np.unique(flows.groups.many["link"].groups_of(through[fine[through]])[1])
    well = {cable for cable in of.tolist() if any(end == switch for end, _, _ in _ends(cable, domains))}
    return len(well | {v.group for v in mine})


def gain_of(mode: Mode, ports: Sequence[Sequence[str]], observed: int) -> float:
    """Nats by which one fault of a switch explains its lossy cables better than faults of these or of modules.

    ports     of each lossy cable, those that it may be at
    observed  cables of the switch that are observed
    """
    k = len(ports)
    apart = CABLE.cost * k + COINCIDENCE * (k - 1)
    switch = apart - mode.cost + float(log_marginal(k, observed, LEAST))
    module = 2 * CABLE.cost + COINCIDENCE - MODULE
    places = [{(int(port) + 1) // 2 for port in of if port.isdecimal()} for of in ports]
    pairs = [a & b for at, a in enumerate(places) for b in places[:at] if a & b]
    if k == LEAST and pairs and len(pairs[0]) > 1:  # one of several modules, all of them in the switch
        return log(exp(switch) + len(pairs[0]) * exp(module))
    return switch - module * min(len(pairs), k // 2)


def _on_switch(mine: Sequence[FaultVerdict], mode: Mode, group: int, gain: float, observed: int) -> FaultVerdict:
    first = max(mine, key=lambda v: v.gain)
    confidence = 1 / (1 + exp(-gain))
    return replace(
        first,
        modes=(mode,), group=group, confidence=confidence, alone=confidence,
        gain=sum(v.gain for v in mine) + gain,
        explained={SymptomType.FLOW_LOSS: _union(mine, SymptomType.FLOW_LOSS, effects=False)},
        effects={SymptomType.PACKET_LOSS: _union(mine, SymptomType.PACKET_LOSS, effects=True)},
        onset=min(v.onset for v in mine), silent={}, rivals=(), best_other=None, unlikely=(), series=(),
        apart=(len(mine), gain), cables=tuple(v.group for v in mine), observed=observed,
    )  # fmt: skip


def _union(mine: Sequence[FaultVerdict], kind: SymptomType, *, effects: bool) -> Ints:
    rows = [(v.effects if effects else v.explained).get(kind, np.empty(0, np.int64)) for v in mine]
    return np.unique(np.concatenate(rows))
