"""Acting: to which nodes something may be done because of an incident, and for which it may be taken back. Pure.

For senders that change the world (a drain in Slurm, a taint in Kubernetes). A monitor that acts is a danger of its own:
a fault of its own, or of the network it looks through, must not take the cluster out of service. Hence everything
here errs on the side of doing nothing, and what is held back has words for why.

What has been done is read from the world (`Held`) and not remembered, so a restart neither forgets nor repeats.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from fabricmon.model import Incident, NodeView, Presence, Severity
from fabricmon.notify.matchers import Matcher, matches, nodes_of

HOUR = 3600.0

UNKNOWING = frozenset({"agent_silent", "telemetry_quality", "host_unreachable", "maintenance", "mass_alarm"})
"""Kinds that say that something is not known, or is being worked on: never a reason to act."""

WIDE = frozenset({"fault_domain"})
"""Kinds that are about more than one host."""

SEEN = frozenset({Presence.LIVE, Presence.SLOW})
"""A node whose agent speaks; of every other we do not know how it is."""


class Terms(Struct, frozen=True):
    """What a site allows.

    kinds         kinds of incidents to act on; nothing is acted on that is not listed
    matchers      all must hold for the incident
    severity      at least this severe
    confidence    at least this sure of the cause
    hold          seconds an incident has been firing before anything is done
    calm          seconds an incident has been over before it is taken back
    most_nodes    nodes acted on at once, at most ...
    most_share    ... and at most this share of the nodes whose agents speak; one node is always within it
    per_hour      actions begun within an hour, at most
    undo          whether anything is taken back at all
    """

    kinds: tuple[str, ...]
    matchers: tuple[Matcher, ...] = ()
    severity: Severity = Severity.CRITICAL
    confidence: float = 0.9
    hold: float = 60.0
    calm: float = 600.0
    most_nodes: int = 10
    most_share: float = 0.005
    per_hour: int = 10
    undo: bool = False


class Held(NamedTuple):
    """A node on which we have acted and that still stands so, as the world says. `node` is the centre's name of it."""

    node: str
    incident: str


class Deed(Struct, frozen=True):
    """One action, written down before it is done.

    actor  name of the entry below `senders:`; verb: "drain", "resume", "taint", "untaint"; at: wall time
    """

    actor: str
    node: str
    verb: str
    incident: str
    at: float
    undo: bool = False


class Decision(NamedTuple):
    """What to do now.

    act       (node, incident) in the order of severity and age
    undo      what may be taken back
    withheld  node -> why nothing is done although an incident of a listed kind fires there
    """

    act: list[tuple[str, Incident]]
    undo: list[Held]
    withheld: dict[str, str]


def allowance(terms: Terms, nodes: Collection[NodeView]) -> int:
    """How many nodes may be acted on at once: a share of those that are seen, so that a centre that has lost sight of
    the fleet does next to nothing."""
    seen = sum(n.presence in SEEN for n in nodes)
    return min(terms.most_nodes, max(1, math.floor(seen * terms.most_share))) if seen else 0


def decide(
    terms: Terms,
    incidents: Sequence[Incident],
    silenced: Collection[str],
    nodes: Sequence[NodeView],
    held: Collection[Held],
    taken: Mapping[str, str],
    deeds: Iterable[Deed],
    now: float,
) -> Decision:
    """What may be done at wall time `now`.

    incidents  all that fire, and those resolved that are known, above all those that `held` names
    silenced   ids of incidents that a silence covers
    nodes      every node of the fleet
    held       what we have done and still stands
    taken      node -> why it needs nothing: what somebody else has done to it, or that it is not there
    deeds      what this actor did within the last hour at least
    """
    known = {n.node: n for n in nodes}
    by_id = {i.id: i for i in incidents}
    ours = {h.node for h in held}
    withheld: dict[str, str] = {}
    wanted: dict[str, Incident] = {}  # the gravest and oldest incident of each node
    alarm = next((i for i in incidents if i.kind == "mass_alarm" and i.status == "firing"), None)
    for incident in sorted(incidents, key=lambda i: (-i.severity.rank, i.since, i.id)):
        if incident.status != "firing" or incident.kind not in terms.kinds or not matches(terms.matchers, incident):
            continue
        hosts = [name for name in nodes_of(incident) if name in known]
        if len(hosts) == 1 and hosts[0] not in wanted:
            why = _unfit(terms, incident, silenced, known[hosts[0]], now)
            if why:
                withheld.setdefault(hosts[0], why)
            else:
                wanted[hosts[0]] = incident
                withheld.pop(hosts[0], None)

    most = allowance(terms, nodes)
    left = terms.per_hour - sum(1 for d in deeds if not d.undo and now - d.at < HOUR)
    act: list[tuple[str, Incident]] = []
    for node, incident in wanted.items():
        if node in ours:
            continue
        if alarm is not None:
            withheld[node] = f"mass alarm {alarm.id} fires: so much at once is not the fault of single nodes"
        elif node in taken:
            withheld[node] = taken[node]
        elif len(ours) + len(act) >= most:
            withheld[node] = f"nodes acted on at once: {len(ours) + len(act)}, and {most} is the most that is allowed"
        elif len(act) >= left:
            withheld[node] = f"{terms.per_hour} actions an hour are allowed, and were used"
        else:
            act.append((node, incident))
    undo = [h for h in held if terms.undo and _over(terms, h, by_id, known, incidents, now)]
    return Decision(act, undo, withheld)


def check_kinds(kinds: Sequence[str]) -> None:
    """ValueError for kinds that can be no reason to act."""
    if not kinds:
        raise ValueError("`kinds`: name the kinds of incidents to act on; there is no default")
    for kind in kinds:
        if kind in UNKNOWING:
            raise ValueError(f"`kinds`: {kind} says that something is not known; that is no reason to act")
        if kind in WIDE:
            raise ValueError(f"`kinds`: {kind} is about more than one host")


def _unfit(terms: Terms, incident: Incident, silenced: Collection[str], node: NodeView, now: float) -> str:
    """Why an incident of a listed kind is no reason to act on its node yet; "" where it is one."""
    if incident.kind in UNKNOWING or incident.kind in WIDE:
        return f"{incident.kind} is never a reason to act"
    if incident.severity.rank < terms.severity.rank:
        return f"{incident.id} is {incident.severity.value} only"
    if not incident.confidence >= terms.confidence:  # NaN is not enough either
        return f"{incident.id}: the cause is not sure enough ({incident.confidence:.2f} < {terms.confidence:g})"
    if incident.id in silenced:
        return f"{incident.id} is silenced"
    if node.maintenance:
        return f"under maintenance ({node.maintenance})"
    if node.presence not in SEEN:
        return f"its agent is {node.presence.value}: how it is now is not known"
    if now - incident.since < terms.hold:
        return f"{incident.id} fires for less than {terms.hold:g} s"
    return ""


def larger(incident: Incident) -> str:
    """Id of the incident that this one became part of; "" where it did not."""
    return incident.labels.get("absorbed_by", "")


def _ended(id: str, by_id: Mapping[str, Incident]) -> float | None:
    """When an incident ended, None for not yet or not known. What became part of a larger incident has ended as itself
    only: it is over when that one is."""
    followed: set[str] = set()
    while True:
        was = by_id.get(id)
        if was is None or was.status == "firing" or was.resolved is None:
            return None
        followed.add(id)
        id = larger(was)
        if not id or id in followed:
            return was.resolved


def _over(
    terms: Terms,
    held: Held,
    by_id: Mapping[str, Incident],
    known: Mapping[str, NodeView],
    incidents: Iterable[Incident],
    now: float,
) -> bool:
    """Whether the reason has gone: its incident is known to have ended long enough ago, the node is seen, and no
    other incident of the listed kinds fires there. An incident that nobody knows any more has not ended."""
    node, ended = known.get(held.node), _ended(held.incident, by_id)
    if node is None or node.presence not in SEEN or ended is None or now - ended < terms.calm:
        return False
    return not any(i.status == "firing" and i.kind in terms.kinds and held.node in nodes_of(i) for i in incidents)
