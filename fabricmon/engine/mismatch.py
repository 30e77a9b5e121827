"""What is wrong with the topology, as incidents: findings of the graph, and ports filed in the wrong place. Pure.

A finding is told when it has stood for STANDS seconds: a sweep that ran while a switch restarted sees half a fabric.
It is resolved when the graph in force does not have it any more. Many findings of one kind are one incident.

A port that goes down with a group it is not in, within TOGETHER seconds, is most likely filed in the wrong place: where
5 % of the records were wrong, each drew an extra verdict (detection-methods 4.9). It joins the group's incident, and a
note says so until another topology is given. It must be able to belong there: the adapter has the name that the group's
adapters have (one rail), or its host has an adapter in that group that stayed up (the two are swapped). A link of
another rail that fails in the same seconds is a fault of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fabricmon.engine.case import Case
from fabricmon.engine.situation import incident_id
from fabricmon.model import ComponentId, Evidence, Incident, Members, Severity
from fabricmon.topology.graph import Finding, Graph

KIND = "topology_mismatch"
STANDS = 300.0  # seconds [D]: ten sweeps of the default period
EACH_MOST = 16  # findings of one kind that are told one by one
PARTS = 64  # components of a finding that an incident names
TOGETHER = 10.0  # detection-methods 4.9
STRAYS = 256  # ports in the wrong place that are remembered; the oldest go

# Findings that a person should act on although no port has failed; what a rule of links or a missing record would tell
# better is information.
WARNINGS = frozenset({
    "miswired", "swapped_rails", "lost_uplinks", "twice_on_leaf", "lost_leg", "lost_global_links", "lost_local_link",
    "duplicate_adapter",
})  # fmt: skip

ACTIONS: Mapping[str, str] = {
    "miswired": "Move the cables to where the plan has them, or correct the plan.",
    "swapped_rails": "Swap the two cables. Until then each of the two adapters talks on the other's rail.",
    "lost_uplinks": "Look for ports that are down or disabled on that switch and for cables that were never plugged.",
    "duplicate_adapter": "Give each host a name of its own: cloned images keep the old one.",
}
_ACTION = "Compare with the cabling plan: correct the fabric, or the file that the topology comes from."
_WHY = (
    "The topology itself says so, before any counter is read. While it is wrong, verdicts about leaves and rails may "
    "name the wrong one."
)


class Mismatches:
    """Findings over time. `cases` is called at each diagnosis."""

    def __init__(self, fabric: str) -> None:
        self._fabric = fabric
        self._network = f"network({fabric or 'fabric'})"
        self._graph: Graph | None = None
        self._first: dict[str, float] = {}
        self._cases: dict[str, Case] = {}
        self._kept: dict[str, Case] = {}
        self._keep_until = float("-inf")

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """What was told before a restart stays until the topology has had the time to be known again."""
        for incident in incidents:
            if incident.kind == KIND and incident.status == "firing":
                case = _case_of(incident)
                for names in (",".join(incident.parts), incident.component):
                    identity = f"{incident.labels.get('finding', '')}({names})"
                    if incident_id(self._fabric, KIND, identity) == incident.id:
                        self._kept[incident.id] = msgspec.structs.replace(case, identity=identity)
        self._keep_until = now + STANDS

    def cases(self, graph: Graph | None, now: float) -> list[Case]:
        if graph is not self._graph:
            self._graph = graph
            found = self._told(graph.findings) if graph is not None else []
            self._cases = {incident_id(self._fabric, case.family, case.identity): case for case in found}
            known = {id: case.onset for id, case in self._kept.items()} | self._first
            self._first = {id: known.get(id, now) for id in self._cases}
        if now >= self._keep_until:
            self._kept = {}
        ripe = {
            id: msgspec.structs.replace(case, onset=self._first[id])
            for id, case in self._cases.items()
            if now - self._first[id] >= STANDS or id in self._kept  # what was told is not held back again
        }
        return list((self._kept | ripe).values())

    def _told(self, findings: Sequence[Finding]) -> list[Case]:
        kinds: dict[str, list[Finding]] = {}
        for finding in findings:
            kinds.setdefault(finding.kind, []).append(finding)
        cases: list[Case] = []
        for kind, found in kinds.items():
            if len(found) <= EACH_MOST:
                cases += [self._one(finding) for finding in found]
            else:
                every = tuple(dict.fromkeys(name for finding in found for name in finding.components))
                why = f"{len(found)} findings, such as: {found[0].why}"
                cases.append(self._one(Finding(kind, every, why), summary=len(found)))
        return cases

    def _one(self, finding: Finding, summary: int = 0) -> Case:
        first = finding.components[0] if finding.components else self._network
        component = self._network if summary or not finding.components else self._word(first)
        many = len(finding.components)
        title = f"Topology: {finding.kind.replace('_', ' ')}, {first}" + (f" and {many - 1} more" if many > 1 else "")
        if summary:
            title = f"Topology: {summary} findings of {finding.kind.replace('_', ' ')}"
        return Case(
            family=KIND,
            identity=f"{finding.kind}({component})" if summary else f"{finding.kind}({','.join(finding.components)})",
            component=component,
            kind=KIND,
            severity=Severity.WARNING if finding.kind in WARNINGS else Severity.INFO,
            confidence=1.0,
            title=title,
            why=f"{finding.why}. {_WHY}",
            action=ACTIONS.get(finding.kind, _ACTION),
            evidence=(Evidence(component, finding.why, f"finding {finding.kind}"),),
            members=Members(many, many),
            claims=frozenset(),
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
        self._seen: dict[str, Case] = {}
        self._leaves: dict[tuple[str, str], str] = {}

    def joined(self, cases: Sequence[Case], graph: Graph | None) -> list[Case]:
        """The cases with strays made part of the group they went with, and the notes about them."""
        if graph is not self._graph:
            self._graph, self._seen = graph, {}
            self._leaves = _leaves(graph) if graph is not None else {}
        groups = [case for case in cases if case.group and case.kind == "fault_domain" and _downs(case)]
        if not groups or graph is None:
            return [*cases, *self._seen.values()]
        gained: dict[int, list[Case]] = {}
        left: list[Case] = []
        for case in cases:
            with_it = self._group_of(case, groups)
            if with_it is None:
                left.append(case)
            else:
                gained.setdefault(id(with_it), []).append(case)
                self._note(case, with_it)
        told = [_with(case, gained[id(case)]) if id(case) in gained else case for case in left]
        return [*told, *self._seen.values()]

    def _group_of(self, case: Case, groups: Sequence[Case]) -> Case | None:
        if case.family != "link" or case.kind != "link_down":
            return None
        near = [
            group for group in groups if abs(group.onset - case.onset) <= TOGETHER and self._may_belong(case, group)
        ]
        return min(near, key=lambda group: (abs(group.onset - case.onset), group.identity), default=None)

    def _may_belong(self, case: Case, group: Case) -> bool:
        down = {_adapter(key.component) for key in group.claims if key.rule == "link_down"}
        own = {_adapter(key.component) for key in case.claims}
        if {device for _, device in own} & {device for _, device in down}:
            return True
        leaves = {self._leaves[adapter] for adapter in down if adapter in self._leaves}
        hosts = {host for host, _ in own}
        return any(
            leaf in leaves and adapter[0] in hosts and adapter not in down for adapter, leaf in self._leaves.items()
        )

    def _note(self, case: Case, group: Case) -> None:
        after = case.onset - group.onset
        text = f"{case.component} went down {after:+.0f} s from {group.component}, which it is not in"
        self._seen.pop(case.identity, None)
        self._seen[case.identity] = Case(
            family=KIND,
            identity=f"stray({case.identity})",
            component=case.component,
            kind=KIND,
            severity=Severity.INFO,
            confidence=0.9,
            title=f"Topology: {case.component} is probably filed in the wrong place",
            why=f"{text}. One wrong record explains that better than two faults at once. {_WHY}",
            action="Look where this cable really ends and correct the topology; with a new one this note ends.",
            evidence=(Evidence(case.component, text, f"within {TOGETHER:g} s (detection-methods 4.9)"),),
            members=Members(1, 1),
            claims=frozenset(),
            onset=case.onset,
            labels=case.labels | {"finding": "stray_port", "group": group.component},
            parts=case.parts,
        )
        while len(self._seen) > STRAYS:
            del self._seen[next(iter(self._seen))]


def _adapter(component: ComponentId) -> tuple[str, str]:
    """Host and device: "host-007/mlx5_3/1" -> ("host-007", "mlx5_3")."""
    return component.node, component.name.partition("/")[0]


def _leaves(graph: Graph) -> dict[tuple[str, str], str]:
    """(host, device) -> id of the switch it is filed on."""
    found: dict[tuple[str, str], str] = {}
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            adapter = graph.adapters.get(near.node)
            if adapter is not None and far.node in graph.switches:
                found[adapter.host, adapter.name] = far.node
    return found


def _downs(case: Case) -> bool:
    return any(key.rule == "link_down" for key in case.claims)


def _with(group: Case, strays: Sequence[Case]) -> Case:
    names = ", ".join(stray.component for stray in strays[:5])
    text = f"{len(strays)} links that are filed elsewhere went down with it: {names}"
    return msgspec.structs.replace(
        group,
        claims=group.claims.union(*(stray.claims for stray in strays)),
        evidence=(*group.evidence, Evidence(group.component, text, f"within {TOGETHER:g} s (detection-methods 4.9)")),
    )


def _case_of(incident: Incident) -> Case:
    """The case that a restored incident was made of, as far as it still matters."""
    finding = incident.labels.get("finding", "")
    return Case(
        family=KIND, identity="", component=incident.component, kind=KIND, severity=incident.severity,
        confidence=incident.confidence, title=incident.title, why=incident.why, action=incident.action,
        evidence=incident.evidence, members=incident.members, claims=frozenset(), onset=incident.since,
        labels={"finding": finding}, parts=incident.parts,
    )  # fmt: skip
