"""Actions on nodes because of incidents (a drain in Slurm, a taint in Kubernetes), and their reversal. Pure.

A fault of the monitor or of its network must not take the cluster out of service: in doubt no action, with a reason.
Past actions are read from the cluster (`ActedNode`), so a restart neither forgets nor repeats.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from fabricmon.catalogue.kinds import KINDS, Acting, Inhibits, kind_of
from fabricmon.model import Incident, NodeView, Presence, Severity
from fabricmon.notify.inhibit import inhibits
from fabricmon.notify.matchers import Matcher, matches, nodes_of

HOUR = 3600.0

SEEN = frozenset({Presence.LIVE, Presence.SLOW})
"""Presences of nodes whose state is known."""


class Terms(Struct, frozen=True):
    """What a site allows.

    kinds         kinds of incidents to act on
    matchers      all must hold for the incident
    severity      at least this severe
    confidence    least confidence in the cause
    hold          seconds an incident has been firing before anything is done
    calm          seconds an incident has been over before the action is reversed
    most_nodes    nodes acted on at once, at most ...
    most_share    ... and at most this share of the reporting nodes; one node is always allowed
    per_hour      actions begun within an hour, at most
    undo          whether actions are reversed
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


class ActedNode(NamedTuple):
    """A node with an action of ours in force, as the cluster reports. `node` is its name in fabricmon."""

    node: str
    incident: str


class Deed(Struct, frozen=True):
    """One action, stored before it is done.

    actor  name of the entry below `senders:`; verb: "drain", "resume", "taint", "untaint"; at: wall time
    """

    actor: str
    node: str
    verb: str
    incident: str
    at: float
    undo: bool = False


class Decision(NamedTuple):
    """The actions of now.

    act       (node, incident) in the order of severity and age
    undo      actions to reverse
    withheld  node -> reason for no action although an incident of a listed kind fires there
    """

    act: list[tuple[str, Incident]]
    undo: list[ActedNode]
    withheld: dict[str, str]


def allowance(terms: Terms, nodes: Collection[NodeView]) -> int:
    """Most nodes with an action at once: a share of the reporting nodes, 0 without contact."""
    seen = sum(n.presence in SEEN for n in nodes)
    return min(terms.most_nodes, max(1, math.floor(seen * terms.most_share))) if seen else 0


def decide(
    terms: Terms,
    incidents: Sequence[Incident],
    silenced: Collection[str],
    nodes: Sequence[NodeView],
    held: Collection[ActedNode],
    exempt: Mapping[str, str],
    deeds: Iterable[Deed],
    now: float,
) -> Decision:
    """The actions that are allowed at wall time `now`.

    incidents  all that fire, and the known resolved ones, in particular those of `held`
    silenced   ids of incidents that a silence covers
    nodes      every node of the fleet
    held       actions in force
    exempt     node -> why it needs no action: drained otherwise, or not in the cluster
    deeds      actions of this actor within the last hour at least
    """
    known, by_id = {n.node: n for n in nodes}, {i.id: i for i in incidents}
    ours = {h.node for h in held}
    wanted, withheld = _candidates(terms, incidents, silenced, known, now)
    alarm = next((i for i in incidents if kind_of(i.kind).inhibits is Inhibits.ALL and i.status == "firing"), None)
    most = allowance(terms, nodes)
    left = terms.per_hour - sum(1 for d in deeds if not d.undo and now - d.at < HOUR)
    act: list[tuple[str, Incident]] = []
    for node, incident in wanted.items():
        if node in ours:
            continue
        if alarm is not None and ("until" not in alarm.labels or inhibits(alarm, incident)):
            withheld[node] = f"mass alarm {alarm.id} fires: no actions on single nodes"
        elif node in exempt:
            withheld[node] = exempt[node]
        elif len(ours) + len(act) >= most:
            withheld[node] = f"nodes acted on at once: {len(ours) + len(act)}, limit {most}"
        elif len(act) >= left:
            withheld[node] = f"limit of {terms.per_hour} actions an hour reached"
        else:
            act.append((node, incident))
    return Decision(act, [h for h in held if terms.undo and _over(terms, h, by_id, known, incidents, now)], withheld)


def _candidates(
    terms: Terms, incidents: Iterable[Incident], silenced: Collection[str], known: Mapping[str, NodeView], now: float
) -> tuple[dict[str, Incident], dict[str, str]]:
    """The most severe and oldest incident to act on of each node; else the reason why none is."""
    wanted: dict[str, Incident] = {}
    withheld: dict[str, str] = {}
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
    return wanted, withheld


def check_kinds(kinds: Sequence[str]) -> None:
    """ValueError for kinds that can be no reason to act."""
    if not kinds:
        raise ValueError("`kinds`: name the kinds of incidents to act on; there is no default")
    for kind in kinds:
        acting = KINDS[kind].acting if kind in KINDS else Acting.ALLOWED
        if acting is Acting.UNKNOWING:
            raise ValueError(f"`kinds`: {kind} reports an unknown state; that is no reason to act")
        if acting is Acting.WIDE:
            raise ValueError(f"`kinds`: {kind} is about more than one host")


def _unfit(terms: Terms, incident: Incident, silenced: Collection[str], node: NodeView, now: float) -> str:
    """Why an incident of a listed kind is no reason to act on its node; "" where it is one."""
    if kind_of(incident.kind).acting is not Acting.ALLOWED:
        return f"{incident.kind} is never a reason to act"
    if incident.severity.rank < terms.severity.rank:
        return f"{incident.id} is {incident.severity.value} only"
    if not incident.confidence >= terms.confidence:  # NaN is not enough either
        return f"{incident.id}: confidence too low ({incident.confidence:.2f} < {terms.confidence:g})"
    if incident.id in silenced:
        return f"{incident.id} is silenced"
    if node.maintenance:
        return f"under maintenance ({node.maintenance})"
    if node.presence not in SEEN:
        return f"its agent is {node.presence.value}: its state is unknown"
    if now - incident.since < terms.hold:
        return f"{incident.id} fires for less than {terms.hold:g} s"
    return ""


def absorbed_into(incident: Incident) -> str:
    """Id of the incident that absorbed this one, "" none."""
    return incident.labels.get("absorbed_by", "")


def _ended(id: str, by_id: Mapping[str, Incident]) -> float | None:
    """When an incident ended, None for not yet or unknown. An absorbed incident ends with the one that absorbed it."""
    followed: set[str] = set()
    while True:
        was = by_id.get(id)
        if was is None or was.status == "firing" or was.resolved is None:
            return None
        followed.add(id)
        id = absorbed_into(was)
        if not id or id in followed:
            return was.resolved


def _over(
    terms: Terms,
    held: ActedNode,
    by_id: Mapping[str, Incident],
    known: Mapping[str, NodeView],
    incidents: Iterable[Incident],
    now: float,
) -> bool:
    """Whether the action may be reversed: its incident ended long enough ago, the node reports, and no other incident
    of the listed kinds fires there. An unknown incident has not ended."""
    node, ended = known.get(held.node), _ended(held.incident, by_id)
    if node is None or node.presence not in SEEN or ended is None or now - ended < terms.calm:
        return False
    return not any(i.status == "firing" and i.kind in terms.kinds and held.node in nodes_of(i) for i in incidents)
