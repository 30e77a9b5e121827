"""Incidents of a wrong topology: findings of the graph, and ports recorded at the wrong place. Pure.

Method: docs/methods.md#wrong-topology. A finding opens after STANDS seconds: a sweep during a switch restart finds half
a fabric. A port may join a group that it is not in where all of these hold: no source measured its cable; the group has
a member that is filed there and stayed up (the other half of a wrong record); and it can belong there: its adapter has
the name of the group's adapters (one rail), or its host has an adapter in the group that stayed up (the two are
swapped)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from fabricmon.engine.incidents.episode import incident_id
from fabricmon.engine.incidents.incident_draft import PARTS, IncidentDraft
from fabricmon.engine.incidents.settling import SETTLE
from fabricmon.model import ComponentId, Evidence, Incident, Members, Severity
from fabricmon.topology.graph import Finding, Graph, Role

KIND = "topology_mismatch"
STANDS = 300.0  # seconds (design choice): ten sweeps of the default period
EACH_MOST = 16  # findings of one kind with an incident each
TOGETHER = 10.0  # docs/methods.md#wrong-topology
STRAYS = 256  # ports in the wrong place that are remembered; the oldest go

# Findings that need action although no port has failed; the rest is information.
WARNINGS = frozenset({
    "miswired", "swapped_rails", "lost_uplinks", "twice_on_leaf", "lost_leg", "lost_global_links", "lost_local_link",
    "duplicate_adapter",
})  # fmt: skip

ACTIONS: Mapping[str, str] = {
    "miswired": "Move the cables to where the plan has them, or correct the plan.",
    "swapped_rails": "Swap the two cables. Until then each of the two adapters is on the other's rail.",
    "lost_uplinks": "Check that switch for ports that are down or disabled and for cables that were never plugged.",
    "duplicate_adapter": "Give each host a name of its own: cloned images keep the old one.",
}
_ACTION = "Compare with the cabling plan: correct the fabric, or the file that the topology comes from."
_WHY = (
    "This comes from the topology, not from counters; until it is corrected, incidents may name the wrong leaf or rail."
)


class Mismatches:
    """Findings over time. `drafts` is called at each diagnosis."""

    def __init__(self, fabric: str) -> None:
        self._fabric = fabric
        self._network = f"network({fabric or 'fabric'})"
        self._graph: Graph | None = None
        self._first: dict[str, float] = {}
        self._drafts: dict[str, IncidentDraft] = {}
        self._kept: dict[str, IncidentDraft] = {}
        self._keep_until = float("-inf")

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """Keep the findings of before a restart for STANDS seconds, until the topology is known again."""
        for incident in incidents:
            if incident.kind == KIND and incident.status == "firing":
                draft = _draft_of(incident)
                for names in (",".join(incident.parts), incident.component):
                    identity = f"{incident.labels.get('finding', '')}({names})"
                    if incident_id(self._fabric, KIND, identity) == incident.id:
                        self._kept[incident.id] = msgspec.structs.replace(draft, identity=identity)
        self._keep_until = now + STANDS

    def drafts(self, graph: Graph | None, now: float) -> list[IncidentDraft]:
        if graph is not self._graph:
            self._graph = graph
            found = self._of_findings(graph.findings) if graph is not None else []
            self._drafts = {incident_id(self._fabric, draft.family, draft.identity): draft for draft in found}
            known = {id: draft.onset for id, draft in self._kept.items()} | self._first
            self._first = {id: known.get(id, now) for id in self._drafts}
        if now >= self._keep_until:
            self._kept = {}
        ripe = {
            id: msgspec.structs.replace(draft, onset=self._first[id])
            for id, draft in self._drafts.items()
            if now - self._first[id] >= STANDS or id in self._kept
        }
        return list((self._kept | ripe).values())

    def _of_findings(self, findings: Sequence[Finding]) -> list[IncidentDraft]:
        kinds: dict[str, list[Finding]] = {}
        for finding in findings:
            kinds.setdefault(finding.kind, []).append(finding)
        drafts: list[IncidentDraft] = []
        for kind, found in kinds.items():
            if len(found) <= EACH_MOST:
                drafts += [self._one(finding) for finding in found]
            else:
                every = tuple(dict.fromkeys(name for finding in found for name in finding.components))
                why = f"{len(found)} findings, such as: {found[0].why}"
                drafts.append(self._one(Finding(kind, every, why), summary=len(found)))
        return drafts

    def _one(self, finding: Finding, summary: int = 0) -> IncidentDraft:
        first = finding.components[0] if finding.components else self._network
        component = self._network if summary or not finding.components else self._word(first)
        many = len(finding.components)
        title = f"Topology: {finding.kind.replace('_', ' ')}, {first}" + (f" and {many - 1} more" if many > 1 else "")
        if summary:
            title = f"Topology: {summary} findings of {finding.kind.replace('_', ' ')}"
        return IncidentDraft(
            family=KIND,
            identity=f"{finding.kind}({component})" if summary else f"{finding.kind}({','.join(finding.components)})",
            component=component,
            kind=KIND,
            severity=Severity.WARNING if finding.kind in WARNINGS else Severity.INFO,
            title=title,
            why=f"{finding.why}. {_WHY}",
            action=ACTIONS.get(finding.kind, _ACTION),
            evidence=(Evidence(component, finding.why, f"finding {finding.kind}"),),
            members=Members(many, many),
            onset=0.0,
            labels={"finding": finding.kind},
            parts=finding.components[:PARTS],
        )

    def _word(self, name: str) -> str:
        graph = self._graph
        if graph is not None:
            if name in graph.hosts or any(adapter.host == name for adapter in graph.adapters.values()):
                return f"host({name})"
            if any(graph.name(switch) == name for switch in graph.switches):
                return f"switch({name})"
            for adapter in graph.adapters:
                if graph.name(adapter) == name:
                    return f"nic({graph.adapters[adapter].host or name}/{graph.adapters[adapter].name})"
        return f"topology({name})"


class Strays:
    """Ports that went down with a group that they are not in."""

    def __init__(self) -> None:
        self._graph: Graph | None = None
        self._seen: dict[str, IncidentDraft] = {}
        self._leaves: dict[tuple[str, str], str] = {}
        self._measured: frozenset[tuple[str, str]] = frozenset()

    def joined(
        self, drafts: Sequence[IncidentDraft], graph: Graph | None, expected: Callable[[str], bool]
    ) -> list[IncidentDraft]:
        """The drafts with strays made part of the group they went with, and the notes about them.

        expected  whether a node is one of the fabric: nothing is noted about others
        """
        if graph is not self._graph:
            self._graph, self._seen = graph, {}
            self._leaves = _leaves(graph) if graph is not None else {}
            self._measured = _measured(graph) if graph is not None else frozenset()
        self._seen = {
            identity: draft for identity, draft in self._seen.items() if expected(draft.labels.get("node", ""))
        }
        groups = [draft for draft in drafts if draft.group and draft.kind == "fault_domain" and _downs(draft)]
        if graph is None:
            return [*drafts, *self._seen.values()]
        gained: dict[int, list[IncidentDraft]] = {}
        left: list[IncidentDraft] = []
        for draft in drafts:
            with_it = self._group_of(draft, [group for group in groups if len(gained.get(id(group), ())) < _up(group)])
            if with_it is None:
                left.append(draft)
                if draft.kind == "link_down":
                    self._seen.pop(draft.identity, None)  # it went without the group: its record may be right
            else:
                gained.setdefault(id(with_it), []).append(draft)
                self._note(draft, with_it)
        joined = [_with(draft, gained[id(draft)]) if id(draft) in gained else draft for draft in left]
        return [*joined, *self._seen.values()]

    def _group_of(self, draft: IncidentDraft, groups: Sequence[IncidentDraft]) -> IncidentDraft | None:
        if draft.family != "link" or draft.kind != "link_down" or draft.unsettled:
            return None
        if any(_adapter(key.component) in self._measured for key in draft.claims):
            return None
        near = [
            group for group in groups if abs(group.onset - draft.onset) <= TOGETHER and self._may_belong(draft, group)
        ]
        return min(near, key=lambda group: (abs(group.onset - draft.onset), group.identity), default=None)

    def _may_belong(self, draft: IncidentDraft, group: IncidentDraft) -> bool:
        down = {_adapter(key.component) for key in group.claims if key.rule == "link_down"}
        own = {_adapter(key.component) for key in draft.claims}
        if {device for _, device in own} & {device for _, device in down}:
            return True
        leaves = {self._leaves[adapter] for adapter in down if adapter in self._leaves}
        hosts = {host for host, _ in own}
        return any(
            leaf in leaves and adapter[0] in hosts and adapter not in down for adapter, leaf in self._leaves.items()
        )

    def _note(self, draft: IncidentDraft, group: IncidentDraft) -> None:
        after = draft.onset - group.onset
        text = f"{draft.component} went down {after:+.0f} s from {group.component}, which it is not in"
        self._seen.pop(draft.identity, None)
        self._seen[draft.identity] = IncidentDraft(
            family=KIND,
            identity=f"stray({draft.identity})",
            component=draft.component,
            kind=KIND,
            confidence=0.9,
            title=f"Topology: {draft.component} is probably recorded at the wrong place",
            why=f"{text}. One wrong record is more likely than two faults at once. {_WHY}",
            action="Find where this cable ends and correct the topology; this incident ends with the new one.",
            evidence=(Evidence(draft.component, text, f"within {TOGETHER:g} s (docs/methods.md#wrong-topology)"),),
            onset=draft.onset,
            wait=SETTLE,
            unsettled="further members of the group may follow",
            labels=draft.labels | {"finding": "stray_port", "group": group.component},
            parts=draft.parts,
        )
        while len(self._seen) > STRAYS:
            del self._seen[next(iter(self._seen))]


def _adapter(component: ComponentId) -> tuple[str, str]:
    """Host and device: "host-007/mlx5_3/1" -> ("host-007", "mlx5_3")."""
    return component.node, component.name.partition("/")[0]


def _leaves(graph: Graph) -> dict[tuple[str, str], str]:
    """(host, device) -> id of the switch of its record."""
    found: dict[tuple[str, str], str] = {}
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            adapter = graph.adapters.get(near.node)
            if adapter is not None and far.node in graph.switches:
                found[adapter.host, adapter.name] = far.node
    return found


def _measured(graph: Graph) -> frozenset[tuple[str, str]]:
    """(host, device) of each adapter whose cable a source saw on the wire: its record is not wrong."""
    live = {str(at) for at, origin in enumerate(graph.origins) if origin.role is Role.LIVE}
    if not live:
        return frozenset()
    found = set()
    for link in graph.cables:
        sources = link.labels.get("sources", "").replace(",", " ").split()
        if live.intersection(sources) if sources else len(live) == len(graph.origins):
            ends = (graph.adapters.get(end.node) for end in (link.a, link.b))
            found |= {(adapter.host, adapter.name) for adapter in ends if adapter is not None}
    return frozenset(found)


def _up(group: IncidentDraft) -> int:
    """Members that are filed in a group and stayed up: so many records of it can be wrong."""
    return max(0, group.members.of - group.members.bad)


def _downs(draft: IncidentDraft) -> bool:
    return any(key.rule == "link_down" for key in draft.claims)


def _with(group: IncidentDraft, strays: Sequence[IncidentDraft]) -> IncidentDraft:
    names = ", ".join(stray.component for stray in strays[:5])
    text = f"{len(strays)} links that are recorded elsewhere went down with it: {names}"
    return msgspec.structs.replace(
        group,
        claims=group.claims.union(*(stray.claims for stray in strays)),
        evidence=(
            *group.evidence,
            Evidence(group.component, text, f"within {TOGETHER:g} s (docs/methods.md#wrong-topology)"),
        ),
    )


def _draft_of(incident: Incident) -> IncidentDraft:
    """The draft that a restored incident was made of, as far as it still matters."""
    finding = incident.labels.get("finding", "")
    return IncidentDraft(
        family=KIND, identity="", component=incident.component, kind=KIND, severity=incident.severity,
        confidence=incident.confidence, title=incident.title, why=incident.why, action=incident.action,
        evidence=incident.evidence, members=incident.members, onset=incident.since,
        labels={"finding": finding}, parts=incident.parts,
    )  # fmt: skip
