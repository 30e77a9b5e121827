"""Packet loss among the other symptoms: whose fault is it? Hard before soft (detection-methods 4.6). Pure.

Loss is seen at the ends of a path, the fault lies anywhere on it. So the hard symptoms are diagnosed first, and what a
hard fault does to its peers is set aside: flows that touch it, and of ports, whose peers nobody knows, as many as it
can account for. What is left of flows is diagnosed by the same noisy-OR over the parts of their paths; what is left of
ports by `gray`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.causes import FLOW_MODES, PEERS
from fabricmon.engine.diagnose import Facts, Groups, Verdict, diagnose
from fabricmon.engine.gray import gray
from fabricmon.engine.search import Floats, Ints

Mask = NDArray[np.bool_]

SOFT = frozenset({"EL", "FL"})
SLACK = 1.5
"""Factor on the expected number of peers: jobs differ."""
BEFORE = 30.0
"""Seconds before a hard fault in which a loss that it makes may seem to have begun: readings are 10 s apart or more."""
COVER = 0.5
"""Share of the lossy ports whose flows are known from which flows decide and ports only follow."""
SUSPECT = 0.5  # detection-methods 4.4: below, nothing is told


@dataclass(slots=True)
class Ports:
    """What losses are judged with, per PORT row.

    groups  of the rows
    unwell  float[n], wall time from which a row may have lost what its peers sent it: its link or adapter failed, its
            host fell silent; NaN: it did not
    ratio   float[n], share of packets that it lost, NaN unknown
    near    int[flows], row from which each flow goes, -1 unknown
    """

    groups: Groups
    unwell: Floats
    ratio: Floats
    near: Ints


def place_losses(
    facts: Mapping[str, Facts], hard: Sequence[Verdict], ports: Ports
) -> tuple[list[Verdict], list[Verdict]]:
    """The verdicts on hard faults with what they did to others, and those on faults that only lose packets.

    facts  of EL and FL among others
    hard   verdicts on everything else
    """
    verdicts = list(hard)
    soft: list[Verdict] = []
    flows, lossy = facts.get("FL"), facts.get("EL")
    if flows is not None and len(flows.rows):
        verdicts, left = _set_flows_aside(flows, verdicts, facts, ports)
        soft = [v for v in diagnose({"FL": left}, 0.0, FLOW_MODES) if v.confidence >= SUSPECT]
    if lossy is not None and len(lossy.rows):
        verdicts, left = _set_ports_aside(lossy, verdicts, ports)
        told = np.zeros(len(ports.ratio), np.bool_)
        if flows is not None:
            told = _ends(ports, flows.known)
            for at, verdict in enumerate(soft):
                mine = _ends(ports, _mask(verdict.explained["FL"], len(flows.known)))
                rows = left.rows[mine[left.rows]]
                soft[at] = replace(verdict, effects={"EL": rows}) if len(rows) else verdict
                left = _without(left, mine)
        if len(left.rows) and np.count_nonzero(told[left.rows]) < COVER * len(left.rows):
            soft += [v for v in gray(left, ports.ratio) if v.confidence >= SUSPECT]
    return verdicts, soft


def unwell(facts: Mapping[str, Facts], groups: Groups, fell: Floats, now: float) -> Floats:
    """`Ports.unwell` of all PORT rows.

    groups  of the PORT rows
    fell    float[n], wall time of each row's last down, NaN never
    """
    with np.errstate(invalid="ignore"):
        since = np.where(now - fell <= AFTER, fell, np.nan)
    for kind in sorted(TEARING & facts.keys()):
        found = facts[kind]
        since[found.rows] = np.fmin(since[found.rows], found.onset)
    hosts, silent = groups.ids["host"], facts.get("AM")
    if silent is not None and len(silent.rows):
        of_nodes = silent.groups.ids["host"]
        began = np.full(int(max(hosts.max(initial=-1), of_nodes.max(initial=-1))) + 2, np.nan)
        began[of_nodes[silent.rows]] = silent.onset - BEFORE
        began[-1] = np.nan
        since = np.fmin(since, began[hosts])
    return np.asarray(since)


AFTER = 120.0
"""Seconds after a down for which losses of peers may still show: windows of two readings of 30 s, and a hold."""


def witnesses(facts: Mapping[str, Facts], moved: Mask) -> Facts | None:
    """Whether the peers of silent hosts lose packets towards them: a symptom of NODE rows, known of silent ones only.

    With flows: those towards the host. Without: ports of at least two other hosts began to lose when it fell silent,
    and not more of them than the silent hosts account for. Where nobody loses anything, that speaks against a dead
    host only if it had traffic.

    moved  bool[n] of the NODE rows: a port of the host carried traffic shortly before
    """
    silent = facts.get("AM")
    if silent is None or not len(silent.rows):
        return None
    hosts = silent.groups.ids["host"]
    shown, known = np.zeros(len(hosts), np.bool_), np.zeros(len(hosts), np.bool_)
    ports, flows = facts.get("EL"), facts.get("FL")
    if flows is not None and len(flows.known):
        towards = flows.groups.many["host"]
        mine = hosts[silent.rows].astype(np.int64)
        bad = towards.count(mine, _mask(flows.rows, len(flows.known)))
        seen = towards.count(mine, flows.known)
        shown[silent.rows] = bad >= np.maximum(1.0, 0.5 * seen)
        known[silent.rows] = seen > 0
    if ports is not None and len(ports.rows):
        most = SLACK * 2 * PEERS * _ports_of(ports, hosts[silent.rows])
        for row, onset in zip(silent.rows.tolist(), silent.onset.tolist(), strict=True):
            near = np.abs(ports.onset - onset) <= NEAR
            others = _hosts_of(ports, ports.rows[near])
            others = others[others != hosts[row]]
            if not known[row] and len(np.unique(others)) >= 2 and near.sum() <= most:
                shown[row] = known[row] = True
    quiet = silent.rows[~known[silent.rows] & moved[silent.rows]]
    if ports is not None and ports.known.any():
        known[quiet] = True
    rows = silent.rows[shown[silent.rows]]
    at = np.flatnonzero(shown[silent.rows])
    known &= _mask(silent.rows, len(known))
    return Facts(silent.groups, rows, silent.onset[at], known)


NEAR = 60.0
"""Seconds between a host's last frame and the first loss of its peers, either way: an agent counts as silent after 30 s
(detection-methods 3.9), a loss after two windows of 10 s or two readings of 30 s."""


def _ports_of(ports: Facts, hosts: NDArray[np.int32]) -> int:
    ids = ports.groups.ids["host"]
    return int(np.isin(ids, hosts[hosts >= 0]).sum())


def _hosts_of(ports: Facts, rows: Ints) -> NDArray[np.int32]:
    ids = ports.groups.ids["host"]
    return np.asarray(ids[rows])


def _mask(rows: Ints, n: int) -> Mask:
    found = np.zeros(n, np.bool_)
    found[rows] = True
    return found


def _without(facts: Facts, gone: Mask) -> Facts:
    keep = ~gone[facts.rows]
    return Facts(facts.groups, facts.rows[keep], facts.onset[keep], facts.known & ~gone)


def _set_flows_aside(
    flows: Facts, hard: Sequence[Verdict], facts: Mapping[str, Facts], ports: Ports
) -> tuple[list[Verdict], Facts]:
    """Flows that touch what failed: lossy ones are its effects, the others count for nothing."""
    n = len(flows.known)
    gone = np.zeros(n, np.bool_)
    lossy = _mask(flows.rows, n)
    found: list[Verdict] = []
    for verdict in hard:
        touched = np.zeros(n, np.bool_)
        for domain, groups in _struck(verdict, flows.groups, facts).items():
            for group in groups:
                touched[flows.groups.many[domain].members(group)] = True
        rows = np.flatnonzero(touched & lossy & ~gone)
        gone |= touched
        found.append(replace(verdict, effects={**verdict.effects, "FL": rows}) if len(rows) else verdict)
    for group in _groups(ports.groups, "link", np.flatnonzero(np.isfinite(ports.unwell))):
        gone[flows.groups.many["link"].members(group)] = True
    return found, _without(flows, gone)


def _struck(verdict: Verdict, flows: Groups, facts: Mapping[str, Facts]) -> dict[str, list[int]]:
    """Groups of flows that a hard fault concerns: its own, and the links and hosts of what it explains."""
    found: dict[str, list[int]] = {}
    if verdict.domain in flows.many and verdict.modes[0].q.keys() & TEARING:
        found[verdict.domain] = [verdict.group]
    for kind, rows in verdict.explained.items():
        domain = "link" if kind in TEARING else "host" if kind == "AM" else ""
        if domain:
            found.setdefault(domain, []).extend(_groups(facts[kind].groups, domain, rows))
    return found


TEARING = frozenset({"LD", "LF", "LE", "NE"})
"""Types of PORT rows that say that a link or its adapter does not carry all that it should."""


def _set_ports_aside(lossy: Facts, hard: Sequence[Verdict], ports: Ports) -> tuple[list[Verdict], Facts]:
    """Ports that lose because a peer failed. Nobody knows who is whose peer: in the plane of `k` failed ports up to
    2 x PEERS x k others are accounted for, if they did not begin before."""
    found = list(hard)
    plane = _planes(ports.groups)
    failed = np.flatnonzero(np.isfinite(ports.unwell))
    gone = np.zeros(len(lossy.known), np.bool_)
    own = _mask(failed, len(gone))
    for number in np.unique(plane[failed]).tolist():
        here = failed[plane[failed] == number]
        began = float(ports.unwell[here].min()) - BEFORE
        at = np.flatnonzero((plane[lossy.rows] == number) & ~own[lossy.rows] & (lossy.onset >= began))
        if len(at) <= SLACK * 2 * PEERS * len(here) + 1:
            gone[lossy.rows[at]] = True
            _blame(found, lossy.rows[at], plane, number)
    mine = lossy.rows[own[lossy.rows]]
    gone[mine] = True
    for number in np.unique(plane[mine]).tolist():
        _blame(found, mine[plane[mine] == number], plane, number)
    return found, _without(lossy, gone)


def _blame(verdicts: list[Verdict], rows: Ints, plane: Ints, number: int) -> None:
    """Losses of a plane are effects of the first hard fault there."""
    for at in sorted(range(len(verdicts)), key=lambda v: verdicts[v].onset):
        verdict = verdicts[at]
        struck = [found for kind, found in verdict.explained.items() if kind in TEARING]
        if any((plane[found] == number).any() for found in struck) or "AM" in verdict.explained:
            before = verdict.effects.get("EL", np.empty(0, np.int64))
            verdicts[at] = replace(verdict, effects={**verdict.effects, "EL": np.union1d(before, rows)})
            return


def _planes(groups: Groups) -> Ints:
    """A number for each part of the fabric within which losses of one fault stay: plane, else network, else 0."""
    plane, network = groups.ids["plane"], groups.ids["network"]
    first = int(plane.max(initial=-1)) + 1
    return np.where(plane >= 0, plane, np.where(network >= 0, first + network, -1)).astype(np.int64)


def _ends(ports: Ports, picked: Mask) -> Mask:
    """PORT rows from which some flows go."""
    found = np.zeros(len(ports.ratio), np.bool_)
    rows = ports.near[picked[: len(ports.near)]]
    found[rows[rows >= 0]] = True
    return found


def _groups(groups: Groups, domain: str, rows: Ints) -> list[int]:
    """The groups that some rows of a table with one group a row are in."""
    ids = groups.ids.get(domain)
    if ids is None:
        return []
    return [int(group) for group in np.unique(ids[rows]) if group >= 0]
