"""Probes by hand: who probes whom, and what the results mean. Pure.

Method: docs/probing.md#by-hand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from fabricmon.catalogue.flow import USUAL_LOSS
from fabricmon.model import Inventory, Kind
from fabricmon.probe.assignment import SOURCES, WHOLE, FlowResult, PortProbes, ProbeTarget
from fabricmon.probe.packet import SIZE
from fabricmon.probe.plan import ProbePort, offered
from fabricmon.probe.windows import MAX_PENDING, known, quantile

NEIGHBOURS = 8
"""Other nodes that each adapter of a mesh probes, at most."""
RATE = 0.01
"""Chance that a healthy mesh shows any finding of loss (design choice; Bonferroni over its flows)."""

Status = Literal["pass", "warn", "critical", "unknown"]
RANKS: tuple[Status, ...] = ("pass", "unknown", "warn", "critical")
"""The worst of several statuses is the last of these."""


class PortPair(NamedTuple):
    """Who asks, and who answers."""

    source: ProbePort
    target: ProbePort


class WantedEnd(NamedTuple):
    """A node, and one of its adapters or ports: "" means all that can probe."""

    node: str
    adapter: str = ""


class PairResult(Struct, frozen=True):
    """What was measured from one port to another. Times in seconds, None unknown.

    sent, lost, late  questions of all windows that count, large ones included
    rtt               network round trip: median, 99th percentile, longest
    own, peer         99th percentile of the delay on the own host, and on the responder's
    packet            bytes of the largest packet that was answered
    dscp              of questions as they arrive at the far end
    findings          what is wrong, one line each
    """

    source: str
    target: str
    status: Status
    sent: int
    lost: int
    late: int
    rtt: tuple[float | None, float | None, float | None]
    own: float | None
    peer: float | None
    packet: int | None
    dscp: int | None
    findings: tuple[str, ...]


def ports_of(inventory: Inventory) -> list[ProbePort]:
    """The ports of a node that can probe; none where `agent.probe` is off."""
    node, found = inventory.identity.node, list[ProbePort]()
    roles: dict[str, str] = {}
    rows = [component for part in inventory.parts if part.kind is Kind.PORT for component in part.components]
    for row in rows:
        roles.setdefault(row.name, row.labels.get("role", ""))
    for row in rows:
        where = offered(row.labels)
        if where is not None:
            found.append(ProbePort(node, row.name, where.address, where.port, network=roles[row.name],
                                   backend=where.backend))  # fmt: skip
    return found


def pairs_of(wanted: Sequence[WantedEnd], ports: Mapping[str, Sequence[ProbePort]]) -> tuple[list[PortPair], list[str]]:
    """Who probes whom, in both directions, and what cannot be probed and why.

    wanted  in this order; two single ports are a pair whatever their names, else ports of one name and role are
    ports   node -> its ports
    """
    chosen = [[port for port in ports.get(end.node, ()) if _is(port, end.adapter)] for end in wanted]
    missing = [_nothing(end, ports) for end, mine in zip(wanted, chosen, strict=True) if not mine]
    if len(wanted) == 2 and all(end.adapter and len(mine) == 1 for end, mine in zip(wanted, chosen, strict=True)):
        one, other = chosen[0][0], chosen[1][0]
        if one.backend != other.backend:
            return [], [f"{one.full_name} probes by {one.backend}, {other.full_name} by {other.backend}"]
        return [PortPair(one, other), PortPair(other, one)], missing
    groups: dict[tuple[str, str, str], list[ProbePort]] = defaultdict(list)
    for port in dict.fromkeys(port for mine in chosen for port in mine):
        groups[port.name, port.network, port.backend].append(port)
    pairs: list[PortPair] = []
    for group in groups.values():
        if len(group) == 1:
            missing.append(f"{group[0].full_name}: no other node has a port of this name that can probe")
        ahead = range(1, min(len(group), NEIGHBOURS + 1))
        pairs += [PortPair(port, group[(at + n) % len(group)]) for at, port in enumerate(group) for n in ahead]
    return pairs, missing


def _is(port: ProbePort, adapter: str) -> bool:
    return adapter in ("", port.name, port.name.partition("/")[0])


def _nothing(end: WantedEnd, ports: Mapping[str, Sequence[ProbePort]]) -> str:
    names = ", ".join(port.name for port in ports.get(end.node, ()))
    if not names:
        return f"{end.node}: its agent offers no port to probe (agent.probe.enabled, and an address on each adapter)"
    return f"{end.node}: no port {end.adapter} that can probe; there are {names}"


def assignments(pairs: Iterable[PortPair], paths: int, first: int, asking: bool) -> dict[str, tuple[PortProbes, ...]]:
    """Node -> what its agent is sent.

    paths   source ports for each pair, besides the one of the large packet
    first   number of the first source port, so that two commands seldom take the same
    asking  False: only who may ask, so that every port answers before the first question
    """
    targets: dict[ProbePort, list[ProbeTarget]] = {}
    askers: dict[ProbePort, list[str]] = {}
    for pair in pairs:
        for port in pair:
            targets.setdefault(port, [])
            askers.setdefault(port, [])
        askers[pair.target].append(pair.source.address)
        for size in (*[SIZE] * paths, WHOLE) if asking else ():
            mine, peer = targets[pair.source], pair.target
            source = SOURCES[(first + len(mine)) % len(SOURCES)]
            mine.append(ProbeTarget(peer.full_name, peer.address, peer.port, source, size=size))
    found: dict[str, list[PortProbes]] = defaultdict(list)
    for port, mine in targets.items():
        found[port.node].append(PortProbes(port.name, tuple(mine), tuple(sorted(set(askers[port])))))
    return {node: tuple(each) for node, each in found.items()}


class _Flow:
    """All windows of one flow that count."""

    def __init__(self) -> None:
        self.sent = self.lost = self.late = self.packet = 0
        self.results: list[FlowResult] = []
        self.void = ""

    def add(self, one: FlowResult) -> None:
        self.packet = one.packet
        if one.void or not 0 <= one.lost <= one.sent <= MAX_PENDING:
            self.void = one.void or "the agent's numbers contradict each other"
            return
        self.sent, self.lost, self.late = self.sent + one.sent, self.lost + one.lost, self.late + one.late
        self.results.append(one)


def pair_results(pairs: Sequence[PortPair], results: Mapping[str, Iterable[FlowResult]], dscp: int) -> list[PairResult]:
    """The result of each pair, in their order. results: by node that asked, all windows. dscp: as it was sent."""
    flows: dict[tuple[str, str], dict[tuple[int, int], _Flow]] = defaultdict(lambda: defaultdict(_Flow))
    for node, found in results.items():
        for one in found:
            target = one.target
            flows[f"{node}/{one.port}", target.peer][target.source, target.size].add(one)
    limit = RATE / max(1, sum(map(len, flows.values())))
    return [_pair_result(pair, flows[pair.source.full_name, pair.target.full_name], dscp, limit) for pair in pairs]


def _pair_result(pair: PortPair, flows: Mapping[tuple[int, int], _Flow], dscp: int, limit: float) -> PairResult:
    sent, lost, late = (sum(getattr(flow, of) for flow in flows.values()) for of in ("sent", "lost", "late"))
    windows = [one for flow in flows.values() for one in flow.results]
    seen = [one.dscp for one in windows if one.dscp is not None]
    findings = list(_findings(flows, limit))
    if seen and seen[-1] != dscp:
        findings.append(("warn", f"DSCP {dscp} arrives as {seen[-1]}"))
    if late:
        findings.append(("warn", f"{late} of {sent} were answered after more than a second"))
    if not sent:
        void = next((flow.void for flow in flows.values() if flow.void), "no probe was sent")
        findings.append(("unknown", void))
    answered = [flow.packet for flow in flows.values() if flow.lost < flow.sent]
    times = [[t for one in windows if (t := one.rtt[at]) is not None] for at in range(3)]
    return PairResult(
        pair.source.full_name, pair.target.full_name, worst(status for status, _ in findings), sent, lost, late,
        (known(quantile(times[0], 0.5)), max(times[1], default=None), max(times[2], default=None)),
        max((one.own for one in windows if one.own is not None), default=None),
        max((one.peer for one in windows if one.peer is not None), default=None),
        max(answered, default=None), seen[-1] if seen else None, tuple(text for _, text in findings),
    )  # fmt: skip


def _findings(flows: Mapping[tuple[int, int], _Flow], limit: float) -> Iterator[tuple[Status, str]]:
    sent, lost = (sum(getattr(flow, of) for flow in flows.values()) for of in ("sent", "lost"))
    if sent and lost == sent:
        yield "critical", f"no answer to {sent} probes"
        return
    dead = [key for key, flow in flows.items() if flow.lost == flow.sent and _tail(flow.lost, flow.sent) < limit]
    for source, size in sorted(dead):
        if size == WHOLE:
            packet = flows[source, size].packet
            yield "critical", f"packets of {packet} bytes are not answered, small ones are: MTU of the path"
        else:
            yield "critical", f"no answer on source port {source}, others are answered: one of several paths"
    rest = [flow for key, flow in flows.items() if key not in dead]
    of, gone = sum(flow.sent for flow in rest), sum(flow.lost for flow in rest)
    if _tail(gone, of) < limit:
        yield "warn", f"{gone} of {of} probes lost"


def _tail(lost: int, sent: int) -> float:
    """The chance that a healthy network loses so many or more: Poisson, mean USUAL_LOSS x sent."""
    if not lost:
        return 1.0
    mean = USUAL_LOSS * sent
    term = math.exp(lost * math.log(mean) - mean - math.lgamma(lost + 1))
    total, n = 0.0, lost
    while term > total * 1e-9:
        total, n = total + term, n + 1
        term *= mean / n
    return min(1.0, total)


def worst(statuses: Iterable[Status]) -> Status:
    """The worst; "pass" of none."""
    return max(statuses, key=RANKS.index, default="pass")


def unreached(results: Sequence[PairResult]) -> list[str]:
    """Ports that no other reaches and that reach no other, of those probed with two others at least."""
    peers: dict[str, set[str]] = defaultdict(set)
    alive: set[str] = set()
    for one in results:
        if one.sent:
            peers[one.source].add(one.target)
            peers[one.target].add(one.source)
        if one.lost < one.sent:
            alive |= {one.source, one.target}
    return sorted(name for name, others in peers.items() if len(others) > 1 and name not in alive)
