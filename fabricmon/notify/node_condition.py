"""What a cluster's nodes are said to be: a condition of each, True, False or Unknown. Pure.

True needs somebody who looks: a node whose agent speaks and that no incident is about. Whatever is not known is
Unknown, and a moment's silence changes nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from fabricmon.model import Incident, NodeView, Presence, Severity
from fabricmon.notify.acting import UNKNOWING
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.notify.matchers import Matcher, matches, nodes_of

MAX_MESSAGE = 1000  # characters

ABSENT = {
    Presence.SLOW: ("AgentSlow", "the frames of the node's agent are late"),
    Presence.REFUSED: ("AgentStopped", "no agent runs on the node"),
    Presence.UNREACHABLE: ("AgentUnreachable", "the node's agent cannot be reached"),
    Presence.CLONED: ("AgentCloned", "two agents claim to be this node"),
    Presence.INCOMPATIBLE: ("AgentIncompatible", "the node's agent speaks another version"),
    Presence.NEVER: ("AgentNeverSeen", "the node's agent was never heard"),
}
"""Reason and words for every presence but that of an agent that speaks."""


class Verdict(Struct, frozen=True):
    """A condition's status ("True", "False", "Unknown"), its reason in CamelCase and words for people."""

    status: str
    reason: str
    message: str


HEALTHY = Verdict("True", "NoFabricFault", "the node's agent speaks, and no incident is about this node")
UNWATCHED = Verdict("Unknown", "NotMonitored", "fabricmon expects no agent on this node")


def verdicts(
    incidents: Iterable[Incident],
    nodes: Sequence[NodeView],
    severity: Severity,
    matchers: Sequence[Matcher],
    patience: float,
    now: float,
    links: Links = NO_LINKS,
) -> dict[str, Verdict | None]:
    """Node -> what it is said to be at wall time `now`; None: what was said of it before stands.

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
        for name in sorted(touched(incident) & known):
            if incident.kind in UNKNOWING:
                doubts.setdefault(name, incident)
            elif incident.severity.rank >= severity.rank and matches(tuple(matchers), incident):
                faults.setdefault(name, []).append(incident)
    return {n.node: _verdict(n, faults.get(n.node, []), doubts.get(n.node), patience, now, links) for n in nodes}


def touched(incident: Incident) -> set[str]:
    """Nodes that an incident is about, and those of its bad members where it is about more than one."""
    return {*nodes_of(incident), *(part.split("/", 1)[0] for part in incident.parts)}


def reason(kind: str) -> str:
    """link_flapping -> LinkFlapping."""
    return "".join(word[:1].upper() + word[1:] for word in kind.split("_"))


def _verdict(
    node: NodeView, faults: Sequence[Incident], doubt: Incident | None, patience: float, now: float, links: Links
) -> Verdict | None:
    if node.maintenance:
        return Verdict("Unknown", "Maintenance", f"not judged: maintenance {node.maintenance}")
    if faults:
        return Verdict("False", reason(faults[0].kind), _words(faults, links))
    if node.presence is not Presence.LIVE:
        name, words = ABSENT[node.presence]
        return Verdict("Unknown", name, words) if now - node.since >= patience else None
    if doubt is not None:
        return Verdict("Unknown", reason(doubt.kind), _words([doubt], links))
    return HEALTHY


def _words(incidents: Sequence[Incident], links: Links) -> str:
    first, more = incidents[0], len(incidents) - 1
    where = links.incident(first.id)
    text = f"{first.title} (incident {first.id}{f', and {more} more' if more else ''}) {where}"
    return " ".join(text.split())[:MAX_MESSAGE]
