"""Packet loss among the other symptoms: whose fault is it? Hard before soft (docs/methods.md#hard-before-soft). Pure.

What hard faults leave over of flows is diagnosed by the same noisy-OR over the parts of their paths, what they leave
over of ports by `gray`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import FLOW_MODES, PEERS
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.gray import SURE, WEAK, gray
from fabricmon.engine.diagnosis.lossy_parts import ENDS
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.failed_leaves import failed_leaves
from fabricmon.engine.domains.groups import Floats, Groups, Ints, Mask, mask_of, planes_of
from fabricmon.engine.domains.port_health import PortHealth, Unwell
from fabricmon.fleet.losses import IDLE

SLACK = 1.5
"""Factor on the expected number of peers: jobs differ."""
BEFORE = 30.0
"""Seconds before a hard fault in which a loss that it makes may seem to have begun: readings are 10 s apart or more."""
COVER = 0.5
"""Share of the lossy ports whose flows are known from which flows decide and ports only follow."""
SUSPECT = 0.5  # docs/methods.md#confidence: below, no incident


def place_losses(
    observations: Observations, hard: Sequence[FaultVerdict], ports: PortHealth
) -> tuple[list[FaultVerdict], list[FaultVerdict]]:
    """The verdicts on hard faults with what they did to others, and those on faults that only lose packets.

    observations  of losses of ports and flows among others
    hard          verdicts on everything else
    """
    verdicts = list(hard)
    soft: list[FaultVerdict] = []
    flows, lossy = observations.get(SymptomType.FLOW_LOSS), observations.get(SymptomType.PACKET_LOSS)
    if flows is not None and len(flows.rows):
        verdicts, left = _set_flows_aside(flows, verdicts, observations, ports)
        soft = _apart([v for v in diagnose({SymptomType.FLOW_LOSS: left}, 0.0, FLOW_MODES) if v.confidence >= SUSPECT])
    if lossy is not None and len(lossy.rows):
        verdicts, left = _with_their_peers(lossy, *set_ports_aside(lossy, verdicts, ports), ports)
        covered = np.zeros(len(ports.ratio), np.bool_)
        if flows is not None:
            covered = _ends(ports, flows.known)
            for at, verdict in enumerate(soft):
                mine = _ends(ports, mask_of(verdict.explained[SymptomType.FLOW_LOSS], len(flows.known)))
                rows = left.rows[mine[left.rows]]
                soft[at] = replace(verdict, effects={SymptomType.PACKET_LOSS: rows}) if len(rows) else verdict
                left = _without(left, mine)
        if len(left.rows) and np.count_nonzero(covered[left.rows]) < COVER * len(left.rows):
            soft += [v for v in _gray(left, ports) if v.confidence >= SUSPECT]
    return verdicts, soft


def _apart(verdicts: Sequence[FaultVerdict]) -> list[FaultVerdict]:
    """Without those whose flows another one explains nearly all: of a switch of which one half of the pairs of ports
    loses packets, some cables lose on all their flows."""
    kept: list[FaultVerdict] = []
    for verdict in sorted(verdicts, key=lambda v: -v.gain):
        mine = verdict.explained[SymptomType.FLOW_LOSS]
        if all(np.isin(mine, other.explained[SymptomType.FLOW_LOSS]).mean() < WITHIN for other in kept):
            kept.append(verdict)
    return kept


WITHIN = 0.8
"""Share of its flows from which a verdict adds nothing to a greater one."""


def unwell(observations: Observations, groups: Groups, fell: Floats, back: Floats, now: float) -> Unwell:
    """What was wrong with all PORT rows.

    groups  of the PORT rows
    fell    float[n], wall time of each row's last down, NaN never
    back    float[n], wall time since which it works again, NaN unknown
    """
    over = np.fmax(fell, back) + AFTER
    with np.errstate(invalid="ignore"):
        dead = np.where(now - over <= IDLE, fell, np.nan)
    worn, damaged, silent = (np.full(len(fell), np.nan) for _ in range(3))
    for kind in sorted(TEARING & observations.keys()):
        found = observations[kind]
        since = {SymptomType.NIC_FAULT: damaged, SymptomType.LINK_ERRORS: worn}.get(kind, dead)
        since[found.rows] = np.fmin(since[found.rows], found.onset)
        if since is dead:
            over[found.rows] = np.inf
    hosts, quiet = groups.ids["host"], observations.get(SymptomType.AGENT_SILENT)
    if quiet is not None and len(quiet.rows):
        of_nodes = quiet.groups.ids["host"]
        began = np.full(int(max(hosts.max(initial=-1), of_nodes.max(initial=-1))) + 2, np.nan)
        began[of_nodes[quiet.rows]] = quiet.onset
        began[-1] = np.nan
        silent = began[hosts]
    known = np.isnan(silent)
    if (links := observations.get(SymptomType.LINK_DOWN)) is not None:
        known &= links.known | np.isfinite(dead)
    leaves = failed_leaves(dead, over, known, groups.ids["leaf"])
    return Unwell(worn, damaged, dead, silent, over, leaves)


AFTER = 120.0
"""Seconds after the end of a down for which losses of peers may still be read: windows of two readings of 30 s, and a
hold. An idle port shows its last windows for IDLE seconds more."""
STALLED = 0.5
"""Share of lost packets from which a port does nothing but wait for an answer (design choice)."""


def waits(ratio: Floats) -> Mask:
    """Losses as a dead peer makes them: timers fire, and what is lost is next to nothing of what the port sends, or
    next to all. A part of the fabric that drops packets loses some of them."""
    with np.errstate(invalid="ignore"):
        return np.asarray(~((ratio >= WEAK) & (ratio < STALLED)))


NEAR = 60.0
"""Seconds between a host's last frame and the first loss of its peers, either way: an agent counts as silent after 30 s
(docs/methods.md#agent-silent), a loss after two windows of 10 s or two readings of 30 s."""


def _without(observation: Observation, gone: Mask) -> Observation:
    keep = ~gone[observation.rows]
    return Observation(observation.groups, observation.rows[keep], observation.onset[keep], observation.known & ~gone)


def through_sick(flows: Observation, ports: PortHealth) -> Mask:
    """Flows on whose way a link or a whole leaf fails, or failed when they were read last: idle ones show their last
    windows long."""
    found = np.zeros(len(flows.known), np.bool_)
    read, links = np.where(np.isfinite(ports.flows_read), ports.flows_read, ports.now), flows.groups.many["link"]
    ids, over = ports.groups.ids["link"], ports.unwell.over
    for row in np.flatnonzero(ports.unwell.sick(read[flows.rows].min(initial=ports.now)) & (ids >= 0)).tolist():
        members = links.members(int(ids[row]))
        found[members] |= ports.unwell.sick(ports.now)[row] | (read[members] <= over[row])
    for leaf in np.flatnonzero(ports.unwell.leaves > -np.inf).tolist() if "leaf" in flows.groups.many else ():
        members = flows.groups.many["leaf"].members(leaf)
        found[members] |= read[members] <= ports.unwell.leaves[leaf]
    return found


def _set_flows_aside(
    flows: Observation, hard: Sequence[FaultVerdict], observations: Observations, ports: PortHealth
) -> tuple[list[FaultVerdict], Observation]:
    """Flows that touch what failed: lossy ones are its effects, the others count for nothing."""
    n = len(flows.known)
    gone = np.zeros(n, np.bool_)
    lossy = mask_of(flows.rows, n)
    found: list[FaultVerdict] = []
    for verdict in hard:
        touched = np.zeros(n, np.bool_)
        for domain, groups in _struck(verdict, flows.groups, observations).items():
            for group in groups:
                touched[flows.groups.many[domain].members(group)] = True
        rows = np.flatnonzero(touched & lossy & ~gone)
        gone |= touched
        effects = {**verdict.effects, SymptomType.FLOW_LOSS: rows}
        found.append(replace(verdict, effects=effects) if len(rows) else verdict)
    return found, _without(flows, gone | through_sick(flows, ports))


def _struck(verdict: FaultVerdict, flows: Groups, observations: Observations) -> dict[str, list[int]]:
    """Groups of flows that a hard fault concerns: its own, and the links and hosts of what it explains."""
    found: dict[str, list[int]] = {}
    if verdict.domain in flows.many and verdict.mode.q.keys() & TEARING:
        found[verdict.domain] = [verdict.group]
    for kind, rows in verdict.explained.items():
        domain = "link" if kind in TEARING else "host" if kind == SymptomType.AGENT_SILENT else ""
        if domain:
            found.setdefault(domain, []).extend(_groups(observations[kind].groups, domain, rows))
    if len(hosts := _never_reported(verdict, observations)):
        found.setdefault("host", []).extend(hosts.tolist())
    return found


def _never_reported(verdict: FaultVerdict, observations: Observations) -> Ints:
    """Hosts, by their number, of the group of a verdict of which nothing is known: flows to them count for nothing."""
    silent = observations.get(SymptomType.AGENT_SILENT)
    ids = silent.groups.ids.get(verdict.domain) if silent is not None else None
    fell_silent = verdict.domain in OF_HOSTS and SymptomType.AGENT_SILENT in verdict.explained
    if silent is None or ids is None or not fell_silent:
        return np.empty(0, np.int64)
    rows = np.flatnonzero((ids == verdict.group) & ~silent.known)
    hosts = silent.groups.ids["host"][rows].astype(np.int64)
    return hosts[hosts >= 0]


OF_HOSTS = frozenset({"power", "chassis", "rack"})
"""Domains of hosts that die together."""
TEARING = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING, SymptomType.LINK_ERRORS, SymptomType.NIC_FAULT})
"""Types of PORT rows that show that a link or its adapter does not carry all that it should."""


def set_ports_aside(
    lossy: Observation, hard: Sequence[FaultVerdict], ports: PortHealth
) -> tuple[list[FaultVerdict], Observation]:
    """Ports that lose because a peer failed. Peers are unknown: in the plane of `k` failed ports up to
    2 x PEERS x k others are accounted for, if they did not begin before, and lose as peers of such ports do."""
    found, state = list(hard), ports.unwell
    plane = planes_of(ports.groups, ports.islands)
    gone = np.zeros(len(lossy.known), np.bool_)
    read = np.where(np.isfinite(ports.read), ports.read, ports.now)
    own = state.sick(read)
    waiting, never = waits(ports.ratio[lossy.rows]), np.full(len(read), np.inf)
    for since, alike, until, over in (
        (state.worn, ~waiting, np.inf, never),
        (state.damaged, np.ones(len(lossy.rows), np.bool_), np.inf, never),
        (state.dead, waiting, np.inf, state.over),
        (state.silent, waiting, NEAR, never),
    ):
        works = since is state.worn or since is state.damaged
        failed = np.flatnonzero(_may_be_sent_to(ports, since, lossy, plane) if works else np.isfinite(since))
        for number in np.unique(plane[failed]).tolist():
            at = np.flatnonzero((plane[lossy.rows] == number) & ~own[lossy.rows] & alike)
            here = failed[plane[failed] == number]
            here = here[over[here] >= read[lossy.rows[at]].min(initial=np.inf)]
            at = at[_after(lossy.onset[at], read[lossy.rows[at]], since[here], over[here], until)]
            here = _with_enough_errors(ports, here, lossy.rows[at]) if since is state.worn else here
            if len(here) and len(at) and len(at) <= SLACK * 2 * PEERS * len(here) + 1:
                gone[lossy.rows[at]] = True
                _blame(found, lossy.rows[at], plane, number)
    mine = lossy.rows[own[lossy.rows]]
    gone[mine] = True
    for number in np.unique(plane[mine]).tolist():
        _blame(found, mine[plane[mine] == number], plane, number)
    return found, _without(lossy, gone)


def _with_their_peers(
    lossy: Observation, hard: Sequence[FaultVerdict], left: Observation, ports: PortHealth
) -> tuple[list[FaultVerdict], Observation]:
    """The same of a port that fails and loses a part of what it sends, the only such one of its plane, and those of the
    plane that began to in the same minute: they lose it on their way to that port if it is the likeliest part by
    amounts and places, and if together they lose no more than about as much as it does."""
    found, plane, gone = list(hard), planes_of(ports.groups, ports.islands), np.zeros(len(lossy.known), np.bool_)
    began, partly = np.full(len(gone), np.inf), ~waits(ports.ratio)
    began[lossy.rows] = lossy.onset
    failed, others = np.setdiff1d(lossy.rows[partly[lossy.rows]], left.rows), left.rows[partly[left.rows]]
    failed = failed[ports.unwell.sick(np.where(np.isfinite(ports.read), ports.read, ports.now))[failed]]
    numbers, first, count = np.unique(plane[failed], return_index=True, return_counts=True)
    for row in failed[first[(count == 1) & (numbers >= 0)]][:FAILED_APART].tolist():
        after = began[others] - began[row]
        near = others[(plane[others] == plane[row]) & (after >= -BEFORE) & (after <= NEAR)]
        rows = np.union1d(near, [row])
        if len(near) and len(near) <= SLACK * 2 * PEERS and _lose_as_much(ports, row, rows):
            known = (lossy.known & (plane == plane[row])) | mask_of(rows, len(gone))
            verdicts = _gray(Observation(lossy.groups, rows, began[rows], known), ports)
            if any(_is_of(row, verdict) for verdict in verdicts):
                gone[near] = True
                _blame(found, near, plane, int(plane[row]), row)
    return found, _without(left, gone)


FAILED_APART = 4
"""Planes in which the peers of one failed port are looked for at a time, as each takes a search (design choice)."""


def _lose_as_much(ports: PortHealth, row: int, rows: Ints) -> bool:
    """Whether a port loses about as much as the others of some rows together, or more: packets a second, or where these
    are not known of all shares of what each sends."""
    lost = ports.ratio if ports.lost is None or np.isnan(ports.lost[rows]).any() else ports.lost
    return float(lost[rows].sum() - lost[row]) <= SLACK * float(lost[row])


def _is_of(row: int, verdict: FaultVerdict) -> bool:
    """Whether a verdict on a loss is surely on the link or the adapter of a port."""
    alone = verdict.explained[SymptomType.PACKET_LOSS].tolist() == [row]
    return alone and verdict.domain in ENDS and verdict.confidence >= SURE


def _gray(lossy: Observation, ports: PortHealth) -> list[FaultVerdict]:
    works = None if ports.work is None else ports.work.newest >= ports.now - NEAR
    return gray(lossy, ports.ratio, ports.towards, ports.rails, ports.islands, ports.read, ports.transit, works)


def _may_be_sent_to(ports: PortHealth, since: Floats, lossy: Observation, plane: Ints) -> Mask:
    """Ports that work although they failed at some time, and to which others may lose packets: those that carried
    traffic then, and at which it is counted that packets to them are lost, if that is seen at any port of their
    plane that is well."""
    failed, n = np.isfinite(since), len(since)
    found = failed.copy()
    if ports.work is not None:
        with np.errstate(invalid="ignore"):
            found &= ~(ports.work.newest < since - BEFORE)
    if ports.counted is not None:
        elsewhere = np.unique(plane[ports.towards[:n] & ~failed])
        nothing = ports.counted & ~ports.towards[:n] & ~mask_of(lossy.rows, n)
        found &= ~(nothing & np.isin(plane, elsewhere))
    return found


def _with_enough_errors(ports: PortHealth, worn: Ints, lossy: Ints) -> Ints:
    """Those of some worn ports that may account for what others lose: all, unless that is more than their errors spoil;
    then those of which the errors are not known."""
    if ports.errors is None or ports.lost is None:
        return worn
    errors, lost = ports.errors[worn], float(np.nansum(ports.lost[lossy]))
    return worn if lost <= SLACK * TOUCHED * float(np.nansum(errors)) else worn[np.isnan(errors)]


TOUCHED = 2.0
"""Packets that one counted error spoils, at most: a codeword of RS(544, 514) is 643 bytes, shorter than a packet of
data, and may be at the border of two (IEEE 802.3 clause 91)."""


def _after(onset: Floats, read: Floats, since: Floats, over: Floats, until: float) -> Mask:
    """Onsets from BEFORE one of some moments until so many seconds after it, of losses read before one was over."""
    if not len(since):
        return np.zeros(len(onset), np.bool_)
    order = np.argsort(since)
    at, ends = since[order], np.maximum.accumulate(over[order])
    last = np.searchsorted(at, onset + BEFORE, side="right") - 1
    some = np.maximum(last, 0)
    return np.asarray((last >= 0) & (onset - at[some] <= until) & (read <= ends[some]))


def _blame(verdicts: list[FaultVerdict], rows: Ints, plane: Ints, number: int, row: int = -1) -> None:
    """Losses of a plane are effects of the hard fault of a port, or of the first one there."""
    torn = [[found for kind, found in verdict.explained.items() if kind in TEARING] for verdict in verdicts]
    others = [not any((found == row).any() for found in struck) for struck in torn]
    for at in sorted(range(len(verdicts)), key=lambda v: (others[v], verdicts[v].onset)):
        verdict, struck = verdicts[at], torn[at]
        if any((plane[found] == number).any() for found in struck) or SymptomType.AGENT_SILENT in verdict.explained:
            before = verdict.effects.get(SymptomType.PACKET_LOSS, np.empty(0, np.int64))
            verdicts[at] = replace(
                verdict, effects={**verdict.effects, SymptomType.PACKET_LOSS: np.union1d(before, rows)}
            )
            return


def _ends(ports: PortHealth, picked: Mask) -> Mask:
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
