"""Which silent hosts are dead: what their peers lose towards them (docs/methods.md#missing-agents). Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import PEERS
from fabricmon.engine.diagnosis.losses import BEFORE, NEAR, SLACK, set_ports_aside, through_sick, waits
from fabricmon.engine.diagnosis.moments import UNHEARD
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Floats, Ints, Mask, mask_of
from fabricmon.engine.domains.port_health import PortHealth

NONE_AWAY: Floats = np.empty(0)


def witnesses(observations: Observations, ports: PortHealth, away: Floats = NONE_AWAY) -> Observation | None:
    """Whether the peers of silent hosts lose packets towards them: a symptom of NODE rows, known of silent ones only.

    With flows: those towards the host; where they lose none after the time in which it would show, the host is up.
    Without: ports of at least two other hosts began to lose when it fell silent, on most rails that it worked on, and
    not more of them than the silent hosts account for. That no port loses is no evidence then: who sends to a host is
    not known.

    away  wall times at which hosts went away that are not silent: under maintenance, or not for long enough yet
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
    and lose nothing towards it any more. Flows that reach it show that it is up, and a host that fell silent at the
    same time, that the losses may be towards either."""

    def __init__(self) -> None:
        self._silent_since: dict[int, float] = {}
        self._lost: dict[int, Floats] = {}

    def with_earlier(self, seen: Observation | None, observations: Observations, ratio: Floats) -> Observation | None:
        """The witnesses, with those of earlier diagnoses in the same silence. `ratio`: see PortHealth."""
        silent = observations.get(SymptomType.AGENT_SILENT)
        if seen is None or silent is None:
            self._silent_since, self._lost = {}, {}
            return None
        since = dict(zip(silent.rows.tolist(), silent.onset.tolist(), strict=True))
        kept = [row for row, at in self._silent_since.items() if since.get(row) == at and not seen.known[row]]
        size = _sizes(silent)
        rivals = {row: silent.rows[_may_be_lost_to(silent.onset, self._lost[row])] for row in kept}
        kept = [row for row in kept if _foremost(row, rivals[row], silent, size)]
        rows = np.union1d(seen.rows, np.array(kept, np.int64))
        self._silent_since = {row: since[row] for row in rows.tolist()}
        lossy = observations.get(SymptomType.PACKET_LOSS)
        new = {row: _losses_at(lossy, ratio, since[row]) for row in rows.tolist() if row not in self._lost}
        self._lost = {row: new[row] if row in new else self._lost[row] for row in rows.tolist()}
        known = seen.known | mask_of(rows, len(seen.known))
        return Observation(seen.groups, rows, np.array([since[row] for row in rows.tolist()]), known)


def _losses_at(lossy: Observation | None, ratio: Floats, silent: float) -> Floats:
    """When losses began that may be towards a host that fell silent at a time; some of very many."""
    onset = np.sort(lossy.onset[waits(ratio[lossy.rows])]) if lossy is not None else NONE_AWAY
    near = onset[(onset >= silent - BEFORE) & (onset <= silent + NEAR)]
    return near[:: max(1, len(near) // REMEMBERED)]


REMEMBERED = 32
"""Losses at the time of a death that are remembered (design choice)."""


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
    hosts = silent.groups.ids["host"]
    alone = replace(ports.unwell, silent=np.full_like(ports.unwell.silent, np.nan))
    _, left = set_ports_aside(lossy, (), replace(ports, unwell=alone))
    # a port that is idle for long keeps no amounts: what it lost to a part of the fabric would be taken for these
    waiting = waits(ports.ratio[left.rows]) & np.isfinite(ports.ratio[left.rows])
    rows, began = left.rows[waiting], left.onset[waiting]
    found, size = list[int](), _sizes(silent)
    for row, onset in zip(silent.rows.tolist(), silent.onset.tolist(), strict=True):
        if known[row] or (np.abs(away - onset) <= BEFORE + NEAR).any():
            continue
        near = np.flatnonzero((began >= onset - BEFORE) & (began <= onset + NEAR))
        near = near[may_send(ports, rows[near], int(hosts[row]), onset)]
        together, near = silent.rows[_may_be_lost_to(silent.onset, began[near])], rows[near]
        others = np.setdiff1d(lossy.groups.ids["host"][near], hosts[together])
        most = SLACK * 2 * PEERS * _ports_of(lossy, hosts[together])
        enough = len(others) >= WITNESSES and len(near) <= most and on_its_rails(ports, near, int(hosts[row]), onset)
        if enough and _foremost(row, together, silent, size):
            found.append(row)
    return np.array(found, np.int64)


def _may_be_lost_to(silent: Floats, began: Floats) -> Mask:
    """Hosts that fell silent when two of some losses, as many as it takes, may have begun because of them."""
    order = np.sort(began)
    upto, before = np.searchsorted(order, silent + NEAR, "right"), np.searchsorted(order, silent - BEFORE, "left")
    return np.asarray(upto - before >= WITNESSES)


FLOWS_SHARE = 0.5
"""Share of the flows towards a host that must be lossy, where they are known (design choice)."""
WITNESSES = 2
"""Losses of other ports by which a host is dead: one may be of anything."""
RAILS_SHARE = 0.5
"""Share of the rails that a host worked on from which losses are towards it (design choice): all its adapters stop to
answer at once, while a fault of the network, or of one adapter, is on one rail."""


def may_send(ports: PortHealth, rows: Ints, host: int, onset: float) -> Mask:
    """Which of some ports may have sent to a host when it fell silent: those that were at work by then, and in no other
    job."""
    found = np.ones(len(rows), np.bool_)
    if ports.work is not None:
        found &= ~(ports.work.began[rows] > onset)
        mine = ports.work.job[ports.groups.ids["host"] == host]
        if len(mine) and mine[0] >= 0:
            found &= (ports.work.job[rows] == mine[0]) | (ports.work.job[rows] < 0)
    return found


def on_its_rails(ports: PortHealth, rows: Ints, host: int, onset: float) -> bool:
    """Whether some ports that lose packets have most of the rails that a host worked on when it fell silent: of a host
    that did nothing, no port; any, where its ports or their rails are not known. Ports that a map lacks and those in it
    name their rails in different ways: then so many rails are enough, whichever they are."""
    mine = np.flatnonzero(ports.groups.ids["host"] == host)
    if ports.work is None or not len(mine):
        return True
    leaf = ports.groups.ids["leaf"]
    placed = mine[leaf[mine] >= 0]
    mine = placed if len(placed) else mine  # those of storage and management have other peers
    mine = mine[~(ports.work.newest[mine] < onset - NEAR)]
    if not len(mine):
        return False
    rails = np.full(len(ports.ratio), -1) if ports.rails is None else ports.rails
    worked, losing = (np.unique(rails[at][rails[at] >= 0]) for at in (mine, rows))
    if len(placed) or not (leaf[rows] >= 0).any():
        losing = np.intersect1d(losing, worked)
    return len(losing) >= RAILS_SHARE * len(worked)


def _foremost(row: int, together: Ints, silent: Observation, size: Ints) -> bool:
    """Of the hosts that fell silent together, this one or its power domain is the one that the ports lose packets
    towards: it is alone, or at its moment more of its domain fell silent than of any other at one. `size`: `_sizes`."""
    if len(together) <= 1:
        return True
    among = np.isin(silent.rows, together)
    power = silent.groups.ids["power"][silent.rows]
    mine = int(size[silent.rows == row].max(initial=0))
    others = among & (power != silent.groups.ids["power"][row])
    return mine > 1 and mine > int(size[others].max(initial=0))


def _sizes(silent: Observation) -> Ints:
    """Of each silent host how many of its power domain fell silent at its moment, 0 where none is known. A lost supply
    takes all of its hosts at once; agents of one that stop one after the other have no more in common than others."""
    size, of = np.zeros(len(silent.rows), np.int64), silent.groups.ids.get("power")
    if of is None:
        return size
    power = of[silent.rows].astype(np.int64)
    known = power >= 0
    if known.any():
        onset = silent.onset[known] - silent.onset[known].min()
        own = power[known] * (float(onset.max()) + 4 * UNHEARD) + onset  # one domain after the other
        ordered = np.sort(own)
        near = np.searchsorted(ordered, own + UNHEARD, "right") - np.searchsorted(ordered, own - UNHEARD)
        size[known] = near
    return size


def _ports_of(ports: Observation, hosts: NDArray[np.int32]) -> int:
    ids = ports.groups.ids["host"]
    return int(np.isin(ids, hosts[hosts >= 0]).sum())
