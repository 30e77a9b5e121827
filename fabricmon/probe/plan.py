"""Who probes whom: a ring with chords within each leaf and rail, and flows between leaves. Pure.

Method and numbers: docs/probing.md#plan. Places on all rings are hashes of names, so that a node that comes or goes
changes the flows of few others.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from fabricmon.probe.assignment import SOURCES, PortProbes, ProbeTarget
from fabricmon.probe.packet import BackendName, Offer

OFFER = "probe_address"
"""Label of a PORT row that can probe and answer: where it answers."""


def offered(labels: Mapping[str, str]) -> Offer | None:
    """Where the responder of a PORT row with these labels is; None where it cannot be probed."""
    backend, slash, where = labels.get(OFFER, "").rpartition("/")
    address, _, port = where.rpartition(":")
    if not address or not port.isdecimal() or len(port) > 8 or (slash and backend != "verbs"):
        return None
    return Offer(address.strip("[]"), int(port), "verbs" if slash else "udp")


class ProbePort(NamedTuple):
    """An end of probes.

    address, port  of its responder (Offer)
    leaf, rail     "" unknown
    network        what must not probe across: its role, and plane or subnet where they are known
    job            of its node, "" none or several
    backend        probes do not go from one to another
    """

    node: str
    name: str
    address: str
    port: int
    leaf: str = ""
    rail: str = ""
    network: str = ""
    job: str = ""
    backend: BackendName = "udp"

    @property
    def full_name(self) -> str:
        return f"{self.node}/{self.name}"


class PlanLimits(NamedTuple):
    """chords       peers of a port on its leaf, at most
    between      peers of a port on other leaves, at most
    paths        equal-cost paths of a leaf whose uplinks the topology does not have
    probability  with which every one of them carries a flow
    """

    chords: int = 4
    between: int = 4
    paths: int = 16
    probability: float = 0.99


DEFAULTS = PlanLimits()


class PlannedFlow(NamedTuple):
    """From and to: indexes of the ports that were planned for; source: UDP port; apart: between two leaves."""

    source: int
    target: int
    udp: int
    apart: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a plan covers.

    ports        that probe or are probed
    within       flows on one leaf, and `between` leaves
    leaves       with a flow to another leaf, of all that have another leaf of their rail
    pairs        ordered pairs of leaves of one rail with a flow, of all
    probability  least of all leaves: that each of its paths carries a flow of it, 1 where none is between leaves, NaN
                 where paths are not equal
    needed       flows of a port to other leaves with which all leaves would have the stated one
    """

    ports: int = 0
    within: int = 0
    between: int = 0
    leaves: tuple[int, int] = (0, 0)
    pairs: tuple[int, int] = (0, 0)
    probability: float = 1.0
    needed: int = 0


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """ports and flows; flows are ordered by their source"""

    ports: tuple[ProbePort, ...]
    flows: tuple[PlannedFlow, ...]
    coverage: Coverage

    def by_node(self) -> dict[str, tuple[PortProbes, ...]]:
        """What each agent is sent."""
        targets: dict[int, list[ProbeTarget]] = defaultdict(list)
        askers: dict[int, set[str]] = defaultdict(set)
        for flow in self.flows:
            peer = self.ports[flow.target]
            group = peer.leaf or "unknown"
            targets[flow.source].append(ProbeTarget(peer.full_name, peer.address, peer.port, flow.udp, group))
            askers[flow.target].add(self.ports[flow.source].address)
        found: dict[str, list[PortProbes]] = defaultdict(list)
        for at, port in enumerate(self.ports):
            found[port.node].append(PortProbes(port.name, tuple(targets[at]), tuple(sorted(askers[at]))))
        return {node: tuple(each) for node, each in found.items()}


def flows_needed(paths: int, probability: float) -> int:
    """Flows that hash onto so many paths until each carries one with this probability: the union bound
    paths x (1 - 1/paths)^flows <= 1 - probability."""
    if paths <= 1:
        return 1
    return math.ceil(math.log((1 - probability) / paths) / math.log1p(-1 / paths))


def path_probability(paths: int, flows: int) -> float:
    """The other way round: a lower bound of the probability that each path carries a flow."""
    return max(0.0, 1 - paths * (1 - 1 / paths) ** flows) if paths > 1 else float(flows > 0)


def plan(
    ports: Iterable[ProbePort], uplinks: Mapping[str, int] = {}, limits: PlanLimits = DEFAULTS,
    unequal: frozenset[str] = frozenset(),
) -> ProbePlan:  # fmt: skip
    """uplinks  leaf -> its equal-cost paths, where known; `unequal`: leaves whose paths are not equal"""
    every = tuple(sorted(set(ports)))
    fabrics: dict[tuple[str, str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, port in enumerate(every):
        fabrics[port.network, port.rail, port.backend][port.leaf].append(at)
    flows: list[PlannedFlow] = []
    covered = _Covered(uplinks, limits, unequal)
    sources = _SourcePorts(every)
    for leaves in fabrics.values():
        rings = {leaf: _ring(every, members) for leaf, members in leaves.items()}
        for ring in rings.values():
            flows += [PlannedFlow(a, b, sources.take(a, b), False) for a, b in _chords(ring, limits.chords)]
        known = {leaf: ring for leaf, ring in rings.items() if leaf}
        if len(known) > 1:
            pairs = _between(every, known, covered, limits)
            flows += [PlannedFlow(a, b, sources.take(a, b), True) for a, b in pairs]
            covered.add(every, known, pairs)
    flows.sort()
    within = sum(not flow.apart for flow in flows)
    return ProbePlan(every, tuple(flows), covered.summary(len(every), within, len(flows) - within))


def place(*words: str) -> int:
    """A place on a ring of 2^64, the same on every machine."""
    return int.from_bytes(blake2b("\0".join(words).encode(), digest_size=8).digest())


def _ring(ports: Sequence[ProbePort], members: Sequence[int]) -> list[int]:
    """Members in ring order; those of a job are neighbours, so that its pairs are probed first."""
    def at(number: int) -> tuple[int, int]:
        own = place(ports[number].full_name)
        return (place("job", ports[number].job) if ports[number].job else own, own)

    return sorted(members, key=at)


def _chords(ring: Sequence[int], chords: int) -> list[tuple[int, int]]:
    """Each probes its next neighbours and each is probed by as many, on a ring of one port by none."""
    steps = range(1, min(chords, len(ring) - 1) + 1)
    return [(one, ring[(at + step) % len(ring)]) for at, one in enumerate(ring) for step in steps]


def _between(
    ports: Sequence[ProbePort], rings: Mapping[str, Sequence[int]], covered: _Covered, limits: PlanLimits
) -> list[tuple[int, int]]:
    """Flows to other leaves of the rail: first to the job's own ports, then to places that are hashes."""
    order = sorted(rings, key=lambda leaf: place("leaf", leaf))
    places = [place("leaf", leaf) for leaf in order]
    members = {leaf: sorted((place(ports[at].full_name), at) for at in rings[leaf]) for leaf in order}
    wanted = {leaf: covered.each(leaf, len(rings[leaf])) for leaf in order}
    room = {at: 2 * limits.between for ring in rings.values() for at in ring}  # of those that may probe it
    jobs = _job_rings(ports, rings)
    found: list[tuple[int, int]] = []
    for leaf in order:
        for _, at in members[leaf]:
            mine = _job_peers(ports, jobs.get(ports[at].job, ()), at, (wanted[leaf] + 1) // 2, room)
            for turn in range(wanted[leaf] - len(mine)):
                peer = _reached(order, places, members, leaf, place(ports[at].full_name, str(turn)), room, mine)
                if peer is not None:
                    mine.append(peer)
                    room[peer] -= 1
            found += [(at, peer) for peer in mine]
    return found


def _job_rings(ports: Sequence[ProbePort], rings: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for ring in rings.values():
        for at in ring:
            if ports[at].job:
                found[ports[at].job].append(at)
    return {job: sorted(mine, key=lambda at: (place(ports[at].full_name), at)) for job, mine in found.items()}


def _job_peers(
    ports: Sequence[ProbePort], ring: Sequence[int], at: int, most: int, room: dict[int, int]
) -> list[int]:
    """The next ports of the job that are on other leaves."""
    if len(ring) < 2:
        return []
    here = bisect_left(ring, (place(ports[at].full_name), at), key=lambda one: (place(ports[one].full_name), one))
    found: list[int] = []
    for step in range(1, min(len(ring), 64)):
        peer = ring[(here + step) % len(ring)]
        if len(found) == most:
            break
        if ports[peer].leaf != ports[at].leaf and room[peer] > 0:
            found.append(peer)
            room[peer] -= 1
    return found


def _reached(
    order: Sequence[str], places: Sequence[int], members: Mapping[str, Sequence[tuple[int, int]]], own: str,
    where: int, room: Mapping[int, int], taken: Sequence[int],
) -> int | None:
    """The first port with room from a place on: of the next leaf on the ring of leaves, from the same place on."""
    begin = bisect_left(places, where)
    spot = place("port", str(where))
    for step in range(len(order)):
        leaf = order[(begin + step) % len(order)]
        if leaf == own:
            continue
        ring = members[leaf]
        first = bisect_left(ring, (spot, -1))
        for turn in range(len(ring)):
            peer = ring[(first + turn) % len(ring)][1]
            if room[peer] > 0 and peer not in taken:
                return peer
    return None


class _SourcePorts:
    """UDP source ports: of one port each once, else by the hash of both names."""

    def __init__(self, ports: Sequence[ProbePort]) -> None:
        self._ports = ports
        self._taken: dict[int, set[int]] = defaultdict(set)

    def take(self, source: int, target: int) -> int:
        taken = self._taken[source]
        at = place(self._ports[source].full_name, self._ports[target].full_name) % len(SOURCES)
        while at in taken:
            at = (at + 1) % len(SOURCES)
        taken.add(at)
        return SOURCES[at]


class _Covered:
    """Coverage of the flows between leaves as they are planned."""

    def __init__(self, uplinks: Mapping[str, int], limits: PlanLimits, unequal: frozenset[str]) -> None:
        self._uplinks, self._limits, self._unequal = uplinks, limits, unequal
        self._probability, self._most_needed = 1.0, 0
        self._leaves, self._pairs = [0, 0], [0, 0]

    def _paths(self, leaf: str) -> int:
        return self._uplinks.get(leaf) or self._limits.paths

    def each(self, leaf: str, members: int) -> int:
        """Flows to other leaves of each of a leaf's ports."""
        return max(1, min(self._limits.between, self._needed(leaf, members)))

    def _needed(self, leaf: str, members: int) -> int:
        return math.ceil(flows_needed(self._paths(leaf), self._limits.probability) / members)

    def add(
        self, ports: Sequence[ProbePort], rings: Mapping[str, Sequence[int]], pairs: Sequence[tuple[int, int]]
    ) -> None:
        leaving: dict[str, int] = defaultdict(int)
        joined = set()
        for one, other in pairs:
            leaving[ports[one].leaf] += 1
            joined.add((ports[one].leaf, ports[other].leaf))
        self._leaves[0] += len(leaving)
        self._leaves[1] += len(rings)
        self._pairs[0] += len(joined)
        self._pairs[1] += len(rings) * (len(rings) - 1)
        for leaf, ring in rings.items():
            self._most_needed = max(self._most_needed, self._needed(leaf, len(ring)))
            self._probability = min(self._probability, path_probability(self._paths(leaf), leaving[leaf]))
        if not self._unequal.isdisjoint(rings):
            self._probability = math.nan  # and stays: min(NaN, x) is NaN

    def summary(self, ports: int, within: int, between: int) -> Coverage:
        leaves, pairs = (self._leaves[0], self._leaves[1]), (self._pairs[0], self._pairs[1])
        return Coverage(ports, within, between, leaves, pairs, self._probability, self._most_needed)
