"""Counts of the fabric for the page, /health, /metrics and the status line of systemd. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from fabricmon.catalogue.technology import TECHNOLOGIES, gap, words
from fabricmon.model import Checked, CheckedNode, Incident, NodeView, Presence, Severity

TROUBLED = (
    Presence.CLONED,
    Presence.INCOMPATIBLE,
    Presence.UNREACHABLE,
    Presence.REFUSED,
    Presence.SLOW,
    Presence.NEVER,
)
"""Presences that need attention, in this order."""


class Overview(Struct, frozen=True):
    """Counts of the fabric at one moment.

    at               the server's current time
    nodes            nodes by presence
    ports            ports of live nodes
    ports_silent     ports of nodes that do not report
    gpus             GPUs of live nodes
    firing           open incidents by severity
    resolved         incidents that ended within the last hour
    symptoms         open symptoms, before diagnosis
    maintenance      nodes in a maintenance window
    checked          checked components of live nodes by technology
    unchecked        components whose state, or every error counter, was not read, by technology: unknown
    nodes_unchecked  live nodes with such components
    nodes_nothing    live nodes without fabric hardware, which no setting allows (collect.inventory.none_expected)
    """

    at: float
    fabric: str
    nodes: dict[Presence, int]
    ports: int
    ports_silent: int
    gpus: int
    firing: dict[Severity, int]
    resolved: int
    symptoms: int
    maintenance: int
    checked: dict[str, int]
    unchecked: dict[str, int]
    nodes_unchecked: int
    nodes_nothing: int

    @property
    def expected(self) -> int:
        """Number of expected nodes."""
        return sum(self.nodes.values())

    @property
    def live(self) -> int:
        return self.nodes[Presence.LIVE]

    @property
    def open(self) -> int:
        """Open incidents of any severity."""
        return sum(self.firing.values())

    @property
    def worst(self) -> Severity | None:
        """The highest severity of an open incident."""
        return next((s for s in reversed(Severity) if self.firing[s]), None)

    @property
    def known(self) -> bool:
        """Whether any node is live: without one the state of the fabric is unknown."""
        return self.live > 0

    @property
    def checked_text(self) -> str:
        """What of the live nodes was checked, in words."""
        return words(Checked(name, number, 0) for name, number in self.checked.items())

    @property
    def gap(self) -> str:
        """What of the live nodes is unknown, in words; "" for nothing."""
        return gap(self.unchecked, self.nodes_unchecked, self.nodes_nothing)


def overview(
    fabric: str, nodes: Sequence[NodeView], incidents: Sequence[Incident], symptoms: int, at: float
) -> Overview:
    """The counts from nodes and incidents; `symptoms` is their number."""
    by_presence = dict.fromkeys(Presence, 0)
    ports = silent = gpus = maintenance = 0
    seen = [n.checked for n in nodes if n.presence is Presence.LIVE and n.checked is not None]
    for node in nodes:
        by_presence[node.presence] += 1
        maintenance += bool(node.maintenance)
        if node.presence is Presence.LIVE:
            ports += node.ports
            gpus += node.gpus
        else:
            silent += node.ports
    firing = dict.fromkeys(Severity, 0)
    resolved = 0
    for incident in incidents:
        if incident.status == "firing":
            firing[incident.severity] += 1
        else:
            resolved += 1
    return Overview(
        at, fabric, by_presence, ports, silent, gpus, firing, resolved, symptoms, maintenance,
        _by_technology(seen, lambda each: each.checked), _by_technology(seen, lambda each: each.unknown),
        sum(each.unknown > 0 for each in seen), sum(not each.counts and not each.none_expected for each in seen),
    )  # fmt: skip


def _by_technology(seen: Sequence[CheckedNode], number: Callable[[Checked], int]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for each in (each for node in seen for each in node.counts):
        counts[each.technology] += number(each)
    return {name: counts[name] for name in TECHNOLOGIES if counts[name]}


def sentence(o: Overview) -> str:
    """One line: "512 of 512 ports on 64 of 64 nodes live; 1 critical, 2 warnings"."""
    if not o.expected:
        return "no agents known"
    if not o.known:
        return f"no data: 0 of {o.expected} nodes live"
    counts = [f"{o.firing[s]} {s.value}" for s in reversed(Severity) if o.firing[s]]
    found = f"{', '.join(counts) or 'no open incident'}{f'; {o.gap}' if o.gap else ''}"
    return f"{o.live} of {o.expected} nodes live, {o.ports} ports; {found}"
