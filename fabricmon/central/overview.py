"""The fabric at a glance: what page, /health, /metrics and systemd's status line all count from. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from fabricmon.model import Incident, NodeView, Presence, Severity

TROUBLED = (
    Presence.CLONED,
    Presence.INCOMPATIBLE,
    Presence.UNREACHABLE,
    Presence.REFUSED,
    Presence.SLOW,
    Presence.NEVER,
)
"""Presences that a person should look at, in that order."""


class Overview(Struct, frozen=True):
    """Counts at one moment.

    at            wall time
    nodes         presence -> nodes, all presences named
    ports         rows of kind PORT of nodes whose frames arrive; ports_silent: of the nodes whose frames do not
    gpus          GPUs of nodes whose frames arrive
    firing        severity -> open incidents, all severities named
    resolved      incidents that ended within the last hour
    symptoms      open symptoms, before causes were found for them
    maintenance   nodes in a maintenance window
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

    @property
    def expected(self) -> int:
        """All nodes there should be."""
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
        """Something is seen at all: without a live node nothing can be said of the fabric, least that it is well."""
        return self.live > 0


def overview(
    fabric: str, nodes: Sequence[NodeView], incidents: Sequence[Incident], symptoms: int, at: float
) -> Overview:
    """Count."""
    by_presence = dict.fromkeys(Presence, 0)
    ports = silent = gpus = maintenance = 0
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
    return Overview(at, fabric, by_presence, ports, silent, gpus, firing, resolved, symptoms, maintenance)


def sentence(o: Overview) -> str:
    """One line for a person: "512 of 512 ports on 64 of 64 nodes live; 1 critical, 2 warnings"."""
    if not o.expected:
        return "no agents known"
    if not o.known:
        return f"nothing seen: 0 of {o.expected} nodes live"
    counts = [f"{o.firing[s]} {s.value}" for s in reversed(Severity) if o.firing[s]]
    return f"{o.live} of {o.expected} nodes live, {o.ports} ports; {', '.join(counts) or 'no open incident'}"
