"""Conditions of all rows at a tick besides their symptoms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.falls import fell_alike, fell_beside, fell_with_others
from fabricmon.engine.diagnosis.gray import WEAK
from fabricmon.engine.diagnosis.group_modes import RUNS
from fabricmon.engine.diagnosis.losses import AFTER, STALLED, unwell
from fabricmon.engine.diagnosis.moments import UNHEARD, down_with_others
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.runs import LastParts, divide_waiting
from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask
from fabricmon.engine.domains.learned_groups import TOGETHER
from fabricmon.engine.domains.port_health import PortHealth, PortWork, Unwell
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.domains.transit import LeafCables
from fabricmon.engine.symptoms.rule_state import RuleState
from fabricmon.fleet.fleet import ANSWERS, PRESENCES
from fabricmon.fleet.link import INIT, UP
from fabricmon.fleet.losses import IDLE
from fabricmon.fleet.pressure import BUSY, RECEIVE
from fabricmon.fleet.table import Table
from fabricmon.fleet.view import View
from fabricmon.fleet.window import ERRORS
from fabricmon.model import Kind, Presence

GRACE = 120.0  # seconds after a boot or driver load in which symptoms do not count (docs/methods.md#boot-grace)


def set_aside(table: Table, now: float) -> Mask:
    """Rows under maintenance, or soon after a boot or driver load; of nodes also those that answer although their agent
    is silent, and those that never answered, which cannot have fallen silent."""
    quiet = table.quiet[: table.n]
    if table.kind is Kind.NODE:
        nodes = View(table, now)
        answers = np.isin(nodes.value("presence"), [PRESENCES.index(p) for p in ANSWERS])
        never = np.isnan(nodes.value("last_frame")) & np.isnan(nodes.value("answered"))
        return np.asarray(quiet | answers | never)
    with np.errstate(invalid="ignore"):
        return np.asarray(quiet | (now - table.begun[: table.n] < GRACE))


def with_answering(observations: Observations, nodes: Table, now: float) -> Observations:
    """The observations; of silence, hosts that answer without an agent are seen without it: they are neither down nor
    cut off. They would show it once they stop to answer."""
    silent = observations.get(SymptomType.AGENT_SILENT)
    if silent is None:
        return observations
    n = len(silent.known)
    answers = np.isin(View(nodes, now).value("presence")[:n], [PRESENCES.index(p) for p in ANSWERS])
    known = silent.known.copy()
    known[: len(answers)] |= answers & ~nodes.quiet[: len(answers)]
    return {**observations, SymptomType.AGENT_SILENT: replace(silent, known=known)}


def silent_before(nodes: Table, states: Iterable[RuleState], now: float) -> Mask:
    """NODE rows of which a silence is open that began before the host last answered without its agent: what is silent
    now may be the host, but its own beginning is not known yet (docs/methods.md#agent-silent)."""
    answered, found = View(nodes, now).value("answered"), np.zeros(nodes.n, np.bool_)
    for row, held in ((row, held) for state in states for row, held in state.open.items() if row < nodes.n):
        found[row] = held.symptom.since < answered[row]
    return found


COVERING = ("leaf", "rail", "feed", "module")
"""Domains that are maintained as a whole: their ports are set aside. Single links are covered by their names."""


def of_components(
    domains: RowDomains, maintained: Callable[[str], bool], ports: View, since: float, measured: bool
) -> Mask:
    """PORT rows in a group whose component, as "leaf(su0/rail1)", is under maintenance; and those that fell since then
    when its ports did and are more likely its ports than broken at that moment: without a known cable, or filed
    elsewhere.

    since     begin of the maintenance; what fell before is no sign of it
    measured  a source saw cables on the wire: none of them is filed wrongly
    """
    n = len(domains.hosts)
    found, fell = np.zeros(n, np.bool_), ports.tracks.downs.last[:n]
    with np.errstate(invalid="ignore"):
        lately = fell >= since
    falling: list[tuple[Ids, int]] = []
    for domain in COVERING:
        covered = np.array([maintained(f"{domain}({name})") for name in domains.names[domain]] + [False], np.bool_)
        if covered.any() and domain in domains.port.ids:
            ids = domains.port.ids[domain]
            found |= covered[ids]
            fallen = np.bincount(ids[lately & covered[ids]], minlength=1)
            falling += [(ids, group) for group in np.flatnonzero(fallen >= FEW).tolist()]
    others = np.flatnonzero(~found & lately)
    for ids, number in falling if len(others) else ():
        group = ids == number
        times = np.sort(fell[group & lately])
        first, last = np.searchsorted(times, fell[others] - TOGETHER), np.searchsorted(times, fell[others] + TOGETHER)
        near = others[last - first >= FEW]
        loose = domains.port.ids["leaf"][near] < 0
        filed = [] if measured else _filed_elsewhere(domains, group, near[~loose], lately, ports)
        found[[*near[loose].tolist(), *filed]] = True
    return found


def flows_through(domains: RowDomains, maintained: Callable[[str], bool]) -> Mask:
    """FLOW rows through a group whose component is under maintenance. Its ports of hosts without an agent are not read:
    what their peers lose is no sign of a fault."""
    many = domains.by_table[Kind.FLOW].many
    found = np.zeros(len(next(iter(many.values()), ())), np.bool_)
    for domain in COVERING if len(found) else ():
        if domain in many:
            for group, name in enumerate(domains.names[domain]):
                if maintained(f"{domain}({name})"):
                    found[many[domain].members(group)] = True
    return found


def _filed_elsewhere(domains: RowDomains, group: Mask, others: Ints, fell: Mask, ports: View) -> list[int]:
    """Which of these ports are those of a group under maintenance: one or few of any other leaf, no more of them than
    members that stayed up (the other halves of wrong records), and with the names of its adapters
    (docs/methods.md#wrong-topology)."""
    up = ports.tracks.link[: len(group)] == UP
    if not 0 < len(others) <= np.count_nonzero(group & ~fell & up):
        return []
    leaf = domains.port.ids["leaf"]
    _, at, here = np.unique(leaf[others], return_inverse=True, return_counts=True)
    whole = np.bincount(leaf[leaf >= 0])[leaf[others]]
    few = others[here[at] <= np.maximum(1.0, WRONG * whole)]
    own = domains.devices(np.flatnonzero(group & fell).tolist())
    return [row for row in few.tolist() if (names := domains.devices([row])) and names <= own]


WRONG = 0.1
"""Share of the ports of a leaf that may be filed wrongly: a map that is worse is no evidence (design choice).
"""
FEW = 2
"""Ports of a maintained group that must fall with one that is not filed in it (design choice)."""


def cut_off(ports: View, maintained: Mask) -> Floats:
    """Since when links of these PORT rows have not been up, NaN for rows that are up or not among them."""
    n = len(maintained)
    down = maintained & (ports.tracks.link[:n] != UP)
    return np.where(down, np.fmin(ports.tracks.since[:n], ports.tracks.downs.last[:n]), np.nan)


def fell_in_windows(ports: View, maintained: Mask | None, absent: Floats) -> Floats:
    """When the links of PORT rows under maintenance fell last, NaN never, and the others.

    maintained  rows of components in windows, None where none is; rows of hosts in them are marked in the table
    absent      per PORT row since when nothing came from its host under maintenance, NaN for no (`away`)
    """
    quiet = ports.table.quiet[: ports.n].copy()
    if maintained is not None:
        quiet[: len(maintained)] |= maintained[: len(quiet)]
    fell = np.where(quiet, ports.tracks.downs.last[: ports.n], np.nan)
    fell[: len(absent)] = np.fmin(fell[: len(absent)], absent[: len(fell)])
    return fell


def away(domains: RowDomains, nodes: Table, now: float) -> tuple[Mask, Floats]:
    """FLOW rows to or from a host under maintenance, and per PORT row since when nothing came from its host in it,
    NaN for no: what peers lose to it then is no sign of a fault."""
    view = View(nodes, now)
    of_nodes, hosts = domains.by_table[Kind.NODE].ids["host"], domains.port.ids["host"]
    n = len(of_nodes)
    quiet = nodes.quiet[:n]
    with np.errstate(invalid="ignore"):
        gone = quiet & (now - view.value("last_frame")[:n] > UNHEARD)
    size = int(max(hosts.max(initial=-1), of_nodes.max(initial=-1))) + 2
    since = np.full(size, np.nan)
    since[of_nodes[gone]] = view.value("last_frame")[:n][gone]
    since[-1] = np.nan
    many = domains.by_table[Kind.FLOW].many.get("host")
    flows = np.zeros(len(many) if many is not None else 0, np.bool_)
    if many is not None:
        for group in np.unique(of_nodes[quiet & (of_nodes >= 0)]).tolist():
            flows[many.members(group)] = True
    return flows, since[hosts]


def away_unread(nodes: Table, now: float) -> Floats:
    """Wall times at which hosts under maintenance that never sent a frame, and do not answer, answered last: no port of
    theirs is known, but their peers lose packets to them."""
    view = View(nodes, now)
    gone = view.value("presence") == PRESENCES.index(Presence.UNREACHABLE)
    unread = np.isnan(view.value("last_frame")) & np.isfinite(view.value("answered"))
    return np.asarray(view.value("answered")[nodes.quiet[: nodes.n] & gone & unread])


def vanishing(nodes: Table, silent: Ints, now: float) -> Floats:
    """Wall times of the last sign of hosts that do not answer, but not for long enough to be among the silent ones:
    what begins to lose packets now may lose them to these."""
    view = View(nodes, now)
    gone = (view.value("presence") == PRESENCES.index(Presence.UNREACHABLE)) & ~nodes.quiet[: nodes.n]
    gone[silent[silent < len(gone)]] = False
    return np.asarray(np.fmax(view.value("last_frame"), view.value("answered"))[gone])


def waiting_ports(ports: View) -> Mask:
    """PORT rows with a physical link that no subnet manager has made ACTIVE, as far as is known."""
    return np.asarray(ports.tracks.link[: ports.n] == INIT)


def port_health(
    domains: RowDomains, observations: Observations, ports: View, absent: Floats, flows_read: Floats,
    transit: LeafCables | None = None,
) -> PortHealth:  # fmt: skip
    """Input of the diagnosis of losses; where none is known, what silent hosts need of it. `absent`: see `away`;
    `flows_read`, `transit`: see PortHealth."""
    ratio = np.full(len(domains.hosts), np.nan)
    lossy, flows = observations.get(SymptomType.PACKET_LOSS), observations.get(SymptomType.FLOW_LOSS)
    losses = ports.tracks.losses
    read = losses.ended[: len(ratio)]
    if (lossy is None or not len(lossy.rows)) and (flows is None or not len(flows.known)):
        nowhere = np.zeros(len(ratio), np.bool_)
        well = Unwell(ratio, ratio, ratio, ratio, ratio, np.zeros(0))
        silent = observations.get(SymptomType.AGENT_SILENT)
        work = _work(ports, len(ratio)) if silent is not None and len(silent.rows) else None
        return PortHealth(domains.port, well, ratio, domains.near, ports.now, nowhere, read, flows_read, work=work)
    if lossy is not None:
        ratio[lossy.rows] = _lost_on_the_way(ports, lossy.rows)
    found = unwell(observations, domains.port, *_out(ports, len(ratio)), ports.now)
    vanished = np.isfinite(found.damaged) & ~ports.present[: len(ratio)]
    gone = np.fmin(absent[: len(ratio)], np.where(vanished, found.damaged, np.nan))
    found.dead, found.over[np.isfinite(gone)] = np.fmin(found.dead, gone), np.inf
    found.damaged[vanished] = np.nan
    towards = losses.lost_towards(len(ratio), ports.now)
    health = PortHealth(
        domains.port, found, ratio, domains.near, ports.now, towards, read, flows_read, domains.rails(),
        islands=domains.islands(), work=_work(ports, len(ratio)), counted=_counts_losses_towards(ports, len(ratio)),
        transit=transit, lost=losses.lost_a_second(len(ratio)),
    )  # fmt: skip
    if np.isfinite(found.worn).any():
        health.errors = _errors_a_second(ports, found.worn)
    return health


def _counts_losses_towards(ports: View, n: int) -> Mask:
    """Ports at which it is counted that packets to them were lost."""
    columns = ports.tracks.losses.columns
    names = [name for name in (columns.twice, columns.gaps) if name]
    return np.any([np.isfinite(ports.value(name)[:n]) for name in names], axis=0) if names else np.zeros(n, np.bool_)


def shows_timeouts(ports: View, n: int) -> Mask:
    """Ports of which it is read what they send again to a peer that does not answer."""
    return np.asarray(np.isfinite(ports.value("ack_timeout")[:n]) | np.isfinite(ports.value("retrans_packets")[:n]))


def _work(ports: View, n: int) -> PortWork:
    pressure, placed = ports.tracks.pressure, ports.table.domains
    read = np.isfinite(pressure.traffic.latest[:, :n]).any(axis=0)
    newest = np.where(read & np.isnan(pressure.worked[:n]), -np.inf, pressure.worked[:n])
    job = placed.ids.get("job") if placed is not None else None
    job = np.full(n, -1, np.int32) if job is None else job[:n]
    with np.errstate(invalid="ignore"):
        received = pressure.traffic.latest[RECEIVE, :n] >= BUSY
    return PortWork(newest, pressure.begun[:n], received, job)


def _errors_a_second(ports: View, since: Floats) -> Floats:
    """Bit errors a second of the short window, of ports that have had errors since then; NaN of the others and where a
    counter stands at its top."""
    errors, n = ports.tracks.errors, len(since)
    seconds = np.clip(ports.now - since, LEAST_OF_ERRORS, errors.short.horizon)
    return np.where(errors.blind[:n], np.nan, errors.short.sum(ERRORS, n) / seconds)


LEAST_OF_ERRORS = 10.0  # seconds of errors, at least: a poll


BOOT = 600.0
"""Seconds that a large host takes from its last packet until its driver has loaded again (design choice)."""


def _lost_on_the_way(ports: View, rows: Ints) -> Floats:
    """Share of packets that these ports lost. Where nothing but timers shows a loss, no receiver saw a gap: the peer is
    gone, and it is less than WEAK; unless next to all of it is lost."""
    losses = ports.tracks.losses
    ratio, timed_out = losses.ratio(rows), losses.timed_out(rows)
    gaps = np.isfinite(ports.value("seq_nak_rx")[rows]) | np.isfinite(ports.value("implied_nak")[rows])
    with np.errstate(invalid="ignore"):
        gone = gaps & (ratio - timed_out < WEAK) & (ratio < STALLED)
    return np.where(gone, ratio - timed_out, ratio)


def _out(ports: View, n: int) -> tuple[Floats, Floats]:
    """When each PORT row last stopped to work and since when it works again: its downs, changes of its state, starts of
    its host; NaN never."""
    tracks, begun, fell = ports.tracks, ports.table.begun[:n].copy(), ports.tracks.downs.last[:n]
    begun[begun < ports.now - AFTER - IDLE] = np.nan
    changed = np.where(tracks.since[:n] > tracks.first[:n], tracks.since[:n], np.nan)
    began = np.fmin(np.where(np.isnan(fell), changed, fell), begun - BOOT)
    return np.asarray(began), np.asarray(np.fmax(changed, begun))


def with_parts(domains: RowDomains, observations: Observations, ports: View, parts: LastParts) -> Observations:
    """The observations with the rows that fell with flapping ones, and with the parts of switches that show something
    as further groups of the PORT rows."""
    found = dict(observations)
    if (fell := fell_with_others(found, ports.tracks.downs, ports.now)) is not None:
        found[SymptomType.LINK_FELL] = fell
    if (flapping := found.get(SymptomType.LINK_FLAPPING)) is not None:
        downs, now = ports.tracks.downs, ports.now
        beside = None if fell is None else fell_beside(flapping, fell.rows, downs, now)
        found[SymptomType.LINK_FLAPPING] = replace(flapping, alike=fell_alike(flapping, downs, now), beside=beside)
    leaf, socket = domains.port.ids["leaf"], domains.assigned.socket
    for domain, kinds in RUNS.items():
        mine = [found[kind] for kind in kinds if kind in found]
        shows, known = np.zeros(len(leaf), np.bool_), np.zeros(len(leaf), np.bool_)
        for observation in mine:
            shows[observation.rows] = True
            known |= observation.known
        if SymptomType.LINK_DOWN in kinds:
            for observation in mine:
                others = observation.rows[_with_others(observation, leaf)]
                shows[others] = known[others] = False
        ids, names, choice = np.full(len(leaf), -1, np.int32), list[str](), np.zeros(0)
        if shows.any() and len(socket) == len(leaf):
            names = list(domains.names["leaf"])
            choice = np.zeros(len(names))
            for group, part in parts.of(domain, leaf, socket, shows, known).items():
                ids[part.rows], choice[group] = group, part.choice
                names[group] = f"{names[group]}, {part.text}"
        domains.divide(domain, ids, names, choice=choice)
    divide_waiting(domains, found.get(SymptomType.CONGESTION), parts)
    return {kind: replace(one, groups=domains.port) if "leaf" in one.groups.ids else one for kind, one in found.items()}


def _with_others(down: Observation, leaf: Ids) -> Mask:
    """Which links that are down went down with others than those of their leaf."""
    before = down.onset if down.before is None else down.before
    of_leaf = leaf[down.rows] >= 0
    found = np.zeros(len(down.rows), np.bool_)
    ids = leaf[down.rows[of_leaf]].astype(np.int64)
    found[of_leaf] = down_with_others(down.onset[of_leaf], before[of_leaf], ids, np.sort(down.onset))
    return found


def fell_and_back(ports: View) -> Floats:
    """Per PORT row when it last fell, if it is up again; NaN of others."""
    return np.where(ports.tracks.link[: ports.n] == UP, ports.tracks.downs.last[: ports.n], np.nan)
