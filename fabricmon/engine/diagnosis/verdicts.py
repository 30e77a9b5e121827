"""From observations to verdicts: hard faults, then losses, then unexplained symptoms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp

import numpy as np

from fabricmon.catalogue.kinds import KINDS
from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GROUPS, LOSSES, MODES, NOTED, ONE_CAUSE, UNMAPPED_LOSS
from fabricmon.engine.diagnosis.dead_before import with_hosts_silent_before
from fabricmon.engine.diagnosis.dead_groups import DARK, of_dead_groups
from fabricmon.engine.diagnosis.diagnose import MOSTLY, diagnose
from fabricmon.engine.diagnosis.group_modes import DEAD_MODES, RUNS, SUBNET_MODE, WAITING_HOST
from fabricmon.engine.diagnosis.losses import NEAR, place_losses
from fabricmon.engine.diagnosis.lossy_switches import of_lossy_switches
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.diagnosis.uplinks import of_switches_above, with_effects, with_their_switch
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Ints, Mask
from fabricmon.engine.domains.port_health import PortHealth
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

WITNESS = SymptomType.LOSS_TOWARDS_HOST
CUTTING = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING})
"""Symptoms of a leaf whose hosts are unreachable."""
CUT_OFF = 0.5
"""Share of a host's ports below failed leaves from which these explain its silence (design choice)."""


def verdicts_of(
    observations: Observations, seen: Observation | None, silence: float, ports: PortHealth, index: SymptomIndex,
    diagnosed: Callable[[Observations, float], list[FaultVerdict]] = diagnose,
) -> list[FaultVerdict]:
    """All verdicts on the open symptoms.

    seen     silent hosts towards which peers lose packets (`witnesses`)
    silence  base rate of silent agents (`silence_rate`)
    diagnosed  `diagnose`, or what remembers it (`last_diagnosis`)
    """
    hard = {kind: found for kind, found in observations.items() if kind not in LOSSES}
    found = diagnosed(hard | ({WITNESS: seen} if seen is not None else {}), silence)
    found = [_without_witness(verdict) for verdict in found if set(verdict.explained) != {WITNESS}]
    found = [_with_unseen(verdict, observations, ports.now) for verdict in found]
    found = without_falls(found, index.domains)
    found = of_dead_groups(_without_cut_off(found, ports), observations)
    known = {kind: observation.known for kind, observation in hard.items()}
    found = of_switches_above(with_their_switch(found, index.domains), index.domains, known)
    found, soft = place_losses(observations, found, ports)
    if soft and (index.domains.port.ids["network"] < 0).all():  # a verdict, or a rival of one
        every = np.zeros(index.domains.port.rows, np.int32)
        index.domains.divide(UNMAPPED_LOSS.domain, every, ["ports losing packets"])
    found = with_hosts_silent_before(found, observations, index.domains)
    soft = of_lossy_switches(soft, observations.get(SymptomType.FLOW_LOSS), index.domains)
    return found + fallback(index, hard, found) + soft


def without_falls(verdicts: Sequence[FaultVerdict], domains: RowDomains) -> list[FaultVerdict]:
    """Without links that are down, or modules that flap, all of whose ports a larger group has that flaps: what flaps
    is down at times. They are effects of it, and so is a link of the group that went down after it began to flap."""
    groups = [at for at, v in enumerate(verdicts) if v.domain in GROUPS and FLAPPING & v.explained.keys()]
    found, gone = list(verdicts), set[int]()
    for at, verdict in enumerate(verdicts):
        rows = np.concatenate(list(verdict.explained.values()))
        if not verdict.explained.keys() <= CUTTING | FLAPPING:
            continue
        for larger in groups:
            held = np.concatenate([r for kind, r in found[larger].explained.items() if kind in FLAPPING])
            inside = np.isin(rows, held) | _later_link(verdict, found[larger], domains)
            if larger not in gone and larger != at and len(rows) < len(held) and inside.all():
                found[larger] = with_effects(found[larger], verdict)
                gone.add(at)
                break
    return [verdict for at, verdict in enumerate(found) if at not in gone]


def parts_apart(verdicts: Sequence[FaultVerdict]) -> list[FaultVerdict]:
    """The verdicts, those on several parts of a switch without a common port as one on each: they may have different
    causes, as a part that flaps, and ports whose cables were cut with those of another switch. Effects are of the
    first."""
    found: list[FaultVerdict] = []
    for verdict in verdicts:
        modes = [mode for part in verdict.apiece for mode in part.modes]
        same = len(modes) == len(verdict.modes) and all(any(mode is own for own in verdict.modes) for mode in modes)
        if same:
            first, *others = verdict.apiece
            found += [replace(first, effects=verdict.effects), *others]
        else:
            found.append(verdict)
    return found


def parts_together(verdicts: Sequence[FaultVerdict]) -> list[FaultVerdict]:
    """The verdicts, what is left of `parts_apart` on one switch as one again: they have one incident, as which ports it
    is may be known later (docs/methods.md#parts-of-a-switch)."""
    found: list[FaultVerdict] = []
    at: dict[int, int] = {}  # leaf -> where its verdict is
    for verdict in verdicts:
        if verdict.domain in RUNS and verdict.group in at:
            found[at[verdict.group]] = _as_one(found[at[verdict.group]], verdict)
            continue
        if verdict.domain in RUNS:
            at[verdict.group] = len(found)
        found.append(verdict)
    return found


def _as_one(one: FaultVerdict, another: FaultVerdict) -> FaultVerdict:
    """The verdict on two parts of a switch, as far as one can hold both that with the greater gain."""
    first, other = (one, another) if one.gain >= another.gain else (another, one)
    both = replace(
        first, modes=(*first.modes, *other.modes), explained={**first.explained, **other.explained},
        onset=min(first.onset, other.onset), silent={**first.silent, **other.silent},
        gathering=first.gathering or other.gathering,
    )  # fmt: skip
    return with_effects(both, replace(other, explained=other.effects))


def _later_link(verdict: FaultVerdict, group: FaultVerdict, domains: RowDomains) -> bool:
    """Whether a verdict is on one link, of a port of a group that began before: of a part of a switch, a port of that
    switch between those that showed something."""
    if verdict.domain != "link" or verdict.onset < group.onset:
        return False
    rows, held = (np.concatenate(list(each.explained.values())) for each in (verdict, group))
    ids, socket = domains.port.ids, domains.assigned.socket
    if group.domain not in RUNS:
        return group.domain in ids and bool((ids[group.domain][rows] == group.group).all())
    within = (socket[rows] >= socket[held].min()) & (socket[rows] <= socket[held].max())
    return bool(((ids["leaf"][rows] == group.group) & within).all())


FLAPPING = frozenset({SymptomType.LINK_FLAPPING, SymptomType.LINK_FELL})


def of_subnet_managers(
    verdicts: Sequence[FaultVerdict], waiting: Mask, domains: RowDomains, fabric: str
) -> tuple[list[FaultVerdict], list[FaultVerdict]]:
    """The verdicts on anything else, and those on subnet managers: of links of one network that are down
    as none configured them (docs/methods.md#ports-that-wait-for-the-subnet-manager). Those of one host stay the host's.

    waiting  PORT rows with a physical link and not ACTIVE
    """
    network, host, known = domains.port.ids["network"], domains.port.ids["host"], domains.names.get("network", [])
    ids, names = np.zeros(len(network), np.int32), [fabric]
    if len(known) > 1:
        ids, names = np.where(network >= 0, network, len(known)), [*(f"{fabric}/{name}" for name in known), fabric]
    of: dict[int, list[FaultVerdict]] = {}
    for verdict in verdicts:
        down = verdict.explained.get(SymptomType.LINK_DOWN)
        if down is not None and len(verdict.explained) == 1 and waiting[down].all():
            of.setdefault(int(ids[down[0]]), []).append(verdict)
    domains.divide(SUBNET_MODE.domain, ids.astype(np.int32) if of else np.full(len(ids), -1, np.int32), names)
    gone, found, single = set[int](), list[FaultVerdict](), set[int]()
    for group, mine in of.items():
        rows: Ints = np.unique(np.concatenate([verdict.explained[SymptomType.LINK_DOWN] for verdict in mine]))
        if len(hosts := np.unique(host[rows])) - int(hosts[0] < 0) >= SUBNET_MODE.least:
            found.append(_of_subnet_manager(group, mine, rows))
            gone |= {id(verdict) for verdict in mine}
        single |= {id(verdict) for verdict in mine if verdict.domain == "host"}
    left = [replace(v, modes=(WAITING_HOST,)) if id(v) in single else v for v in verdicts if id(v) not in gone]
    return left, found


def _of_subnet_manager(group: int, mine: Sequence[FaultVerdict], rows: Ints) -> FaultVerdict:
    gain = sum(verdict.mode.cost for verdict in mine) - SUBNET_MODE.cost
    confidence = 1 / (1 + exp(-gain))
    found = FaultVerdict(
        modes=(SUBNET_MODE,), group=group, confidence=confidence, alone=confidence,
        gain=sum(verdict.gain for verdict in mine) + gain, explained={SymptomType.LINK_DOWN: rows},
        onset=min(verdict.onset for verdict in mine), silent={}, rivals=(), best_other=None,
        apart=(len(mine), gain) if len(mine) > 1 else None,
    )  # fmt: skip
    for verdict in mine:
        found = with_effects(found, replace(verdict, explained=verdict.effects))
    return found


def with_dark_hosts(verdicts: Sequence[FaultVerdict], domains: RowDomains) -> list[FaultVerdict]:
    """The verdicts, without links that are down of hosts that another one explains, and without single hosts among
    those of a group that are down by their links: who sweeps the switches sees the ports of dead hosts go dark."""
    owner: dict[int, int] = {}
    of_nodes, of_ports = domains.by_table[Kind.NODE].ids["host"], domains.port.ids["host"]
    for at in sorted(range(len(verdicts)), key=lambda at: _silent_hosts(verdicts[at])):
        rows = verdicts[at].explained.get(SymptomType.AGENT_SILENT, np.empty(0, np.int64))
        owner |= dict.fromkeys(of_nodes[rows].tolist(), at)
    found, gone, dark = list(verdicts), set[int](), dict[int, set[int]]()
    for at, verdict in enumerate(verdicts if owner else ()):
        if _is_dark(verdict):
            hosts = of_ports[verdict.explained[SymptomType.LINK_DOWN]].tolist()
            silent = [owner[host] for host in hosts if host in owner]
            most = max(silent, key=silent.count) if len(silent) >= MOSTLY * len(hosts) else -1
            if most in (-1, at) or verdict.onset < found[most].onset - ONE_CAUSE:
                continue
            if found[most].mode.kind in DEAD or _goes_dark(found[most], verdict, set(hosts), domains):
                links = {SymptomType.LINK_DOWN: verdict.explained[SymptomType.LINK_DOWN]}
                found[most] = with_effects(found[most], replace(verdict, explained=links))
                dark.setdefault(most, set()).update(hosts)
                gone.add(at)
    for at, hosts in dark.items():
        if len(hosts) >= DARK * len(found[at].explained[SymptomType.AGENT_SILENT]):
            found[at] = replace(found[at], seen=True)
    found = [_with_own_dark_links(verdict, domains) for at, verdict in enumerate(found) if at not in gone]
    return [_as_dead(verdict) if verdict.seen else verdict for verdict in found]


def _with_own_dark_links(verdict: FaultVerdict, domains: RowDomains) -> FaultVerdict:
    """A verdict on hosts that fell silent together; they are dead where most of them went dark, too, each by its links,
    below leaves that other hosts share: a leaf of theirs alone would look the same."""
    down = verdict.explained.get(SymptomType.LINK_DOWN)
    if verdict.mode.name not in DEAD_MODES or SymptomType.AGENT_SILENT not in verdict.explained or down is None:
        return verdict
    of_ports, leaf = domains.port.ids["host"], domains.port.ids["leaf"]
    hosts = domains.by_table[Kind.NODE].ids["host"][verdict.explained[SymptomType.AGENT_SILENT]]
    shared = np.unique(leaf[(of_ports >= 0) & ~np.isin(of_ports, hosts)])
    dark = np.unique(of_ports[down[np.isin(leaf[down], shared[shared >= 0])]])
    if len(np.intersect1d(dark, hosts)) < DARK * len(hosts):
        return verdict
    links: dict[SymptomType, Ints] = {SymptomType.LINK_DOWN: down}
    own = dict(verdict.explained)
    del own[SymptomType.LINK_DOWN]
    return replace(with_effects(verdict, replace(verdict, explained=links)), explained=own, seen=True)


def _silent_hosts(verdict: FaultVerdict) -> int:
    return len(verdict.explained.get(SymptomType.AGENT_SILENT, ()))


def _is_dark(verdict: FaultVerdict) -> bool:
    """Links that are down and nothing else, or a host that is down by its links and its agent."""
    shown = verdict.explained.keys()
    with_agent = verdict.domain == "host" and shown == {SymptomType.LINK_DOWN, SymptomType.AGENT_SILENT}
    return with_agent or shown == {SymptomType.LINK_DOWN}


def _as_dead(verdict: FaultVerdict) -> FaultVerdict:
    """A verdict on silent hosts that are seen to be dead."""
    dead = DEAD_MODES.get(verdict.mode.name)
    return replace(verdict, modes=(dead, *verdict.modes[1:])) if dead is not None else verdict


DEAD = ("fault_domain", "host_unreachable")
"""Kinds of verdicts on silent hosts that are more than silence."""


def _goes_dark(silent: FaultVerdict, links: FaultVerdict, hosts: set[int], domains: RowDomains) -> bool:
    """Whether links go down as their silent hosts die: at that moment, most of them, of several hosts, and others fell
    silent, too. A leaf that fails takes no hosts of others along. Of hosts that have ports on known leaves only these
    count: a sweep of the switches shows no others, as those of a storage network."""
    together = abs(links.onset - silent.onset) <= ONE_CAUSE and len(hosts) > 1
    of_ports, leaf = domains.port.ids["host"], domains.port.ids["leaf"]
    ports, down = np.flatnonzero(np.isin(of_ports, sorted(hosts))), links.explained[SymptomType.LINK_DOWN]
    placed = np.unique(of_ports[ports[leaf[ports] >= 0]])
    ports, down = (rows[(leaf[rows] >= 0) | ~np.isin(of_ports[rows], placed)] for rows in (ports, down))
    return together and len(down) >= DARK * len(ports) and _silent_hosts(silent) > len(hosts)


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


def _with_unseen(verdict: FaultVerdict, observations: Observations, now: float) -> FaultVerdict:
    """Set `unseen` of lost power or a cut network where flows are known: a loss may still show."""
    silent, flows = SymptomType.AGENT_SILENT in verdict.explained, observations.get(SymptomType.FLOW_LOSS)
    rival = any(rival.mode.domain == verdict.domain for rival in verdict.rivals)
    if not silent or verdict.seen or not rival or flows is None or not flows.known.any():
        return verdict
    return replace(verdict, unseen=now - verdict.onset <= NEAR)


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


def unexplained(observations: Observations, verdicts: Sequence[FaultVerdict]) -> dict[SymptomType, Ints]:
    """Symptom type -> positive rows that no verdict explains."""
    left: dict[SymptomType, Ints] = {}
    for kind, found in observations.items():
        covered = [rows[kind] for v in verdicts for rows in (v.explained, v.effects) if kind in rows]
        rest = np.setdiff1d(found.rows, np.concatenate(covered)) if covered else found.rows
        if len(rest):
            left[kind] = rest
    return left
