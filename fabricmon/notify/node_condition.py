"""Condition of each cluster node: True, False or Unknown. Pure.

True needs an agent that is live and no incident about the node. A short silence of the agent changes nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from fabricmon.catalogue.kinds import Acting, kind_of
from fabricmon.model import Incident, NodeView, Presence, Severity
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.notify.matchers import Matcher, matches, nodes_of

MAX_MESSAGE = 1000  # characters

ABSENT = {
    Presence.SLOW: ("AgentSlow", "the frames of the node's agent are late"),
    Presence.REFUSED: ("AgentStopped", "no agent runs on the node"),
    Presence.UNREACHABLE: ("AgentUnreachable", "the node's agent cannot be reached"),
    Presence.CLONED: ("AgentCloned", "two agents claim to be this node"),
    Presence.INCOMPATIBLE: ("AgentIncompatible", "the node's agent has an incompatible version"),
    Presence.NEVER: ("AgentNeverSeen", "the node's agent was never seen"),
}
"""Reason and text for every presence but a live agent."""


class NodeCondition(Struct, frozen=True):
    """A condition's status ("True", "False", "Unknown"), its reason in CamelCase and words for people."""

    status: str
    reason: str
    message: str


HEALTHY = NodeCondition("True", "NoFabricFault", "the node's agent reports, and no incident concerns this node")
UNWATCHED = NodeCondition("Unknown", "NotMonitored", "fabricmon expects no agent on this node")


def node_conditions(
    incidents: Iterable[Incident],
    nodes: Sequence[NodeView],
    severity: Severity,
    matchers: Sequence[Matcher],
    patience: float,
    now: float,
    links: IncidentLinks = NO_LINKS,
) -> dict[str, NodeCondition | None]:
    """Node -> its condition at wall time `now`; None: its last condition stays.

    severity  less severe incidents leave a node healthy
    patience  seconds an agent may be silent until its node is unknown
    links     where people read more of an incident
    """
    known = {n.node for n in nodes}
    faults: dict[str, list[Incident]] = {}
    doubts: dict[str, Incident] = {}
    for incident in sorted(incidents, key=lambda i: (-i.severity.rank, i.since, i.id)):
        if incident.status != "firing":
            continue
        for name in sorted(nodes_in(incident) & known):
            if kind_of(incident.kind).acting is Acting.UNKNOWING:
                doubts.setdefault(name, incident)
            elif incident.severity.rank >= severity.rank and matches(tuple(matchers), incident):
                faults.setdefault(name, []).append(incident)
    return {n.node: _condition(n, faults.get(n.node, []), doubts.get(n.node), patience, now, links) for n in nodes}


def nodes_in(incident: Incident) -> set[str]:
    """Nodes that an incident is about, and those of its bad members where it is about more than one."""
    return {*nodes_of(incident), *(part.partition("/")[0] for part in incident.parts)}


def condition_reason(kind: str) -> str:
    """link_flapping -> LinkFlapping."""
    return "".join(word[:1].upper() + word[1:] for word in kind.split("_"))


def _condition(
    node: NodeView,
    faults: Sequence[Incident],
    doubt: Incident | None,
    patience: float,
    now: float,
    links: IncidentLinks,
) -> NodeCondition | None:
    if node.maintenance:
        return NodeCondition("Unknown", "Maintenance", f"not evaluated: maintenance {node.maintenance}")
    if faults:
        return NodeCondition("False", condition_reason(faults[0].kind), _message(faults, links))
    if node.presence is not Presence.LIVE:
        name, words = ABSENT[node.presence]
        return NodeCondition("Unknown", name, words) if now - node.since >= patience else None
    if doubt is not None:
        return NodeCondition("Unknown", condition_reason(doubt.kind), _message([doubt], links))
    return HEALTHY


def _message(incidents: Sequence[Incident], links: IncidentLinks) -> str:
    first, more = incidents[0], len(incidents) - 1
    where = links.incident(first.id)
    text = f"{first.title} (incident {first.id}{f', and {more} more' if more else ''}) {where}"
    return " ".join(text.split())[:MAX_MESSAGE]
