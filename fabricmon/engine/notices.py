"""Incidents that name no broken component: agents that are silent, telemetry that cannot be trusted, announced work.

They are info: they say what fabricmon cannot see, not what is broken. Many of one kind are one notice. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from fabricmon.engine.case import Case, Key
from fabricmon.engine.explain import PARTS
from fabricmon.engine.situation import severest
from fabricmon.model import ComponentId, Evidence, Kind, Maintenance, Members, Severity, Symptom
from fabricmon.rules.rule import Rule

EACH_MOST = {"agent_silent": 3, "telemetry_quality": 16}
"""More hosts than this with one kind of notice are told as one [D]; a summary ends when at most one is left."""

SILENCE_SETTLE = 10.0
"""Seconds for which a silent agent is not told of: the others of its power domain may follow within a poll [D]."""

CONGESTION_SETTLE = 60.0
"""Seconds for which a congested port is not told of: its rail, or who holds it up, may be told instead [D]."""

SETTLE = {"agent_silent": SILENCE_SETTLE, "congestion": CONGESTION_SETTLE}

ALL_SHARE = 0.5
"""From this share of silent agents it is the centre that cannot see: warning, as nothing is watched any more [D]."""


class Place(NamedTuple):
    """What a notice is about: a host, or a link that a sweep told of."""

    component: str  # "host(host-003)", "link(host-003/mlx5_2/1, leaf-3/12)"
    name: str
    node: str  # whose agent tells; "" for a link, which no host answers for
    hosts: frozenset[str]


class Notices:
    """Remembers which kinds are told as a summary, so that one agent more or less does not change the form."""

    def __init__(self, fabric: str) -> None:
        self.network = f"network({fabric or 'fabric'})"
        self._summed: set[str] = set()

    def cases(
        self,
        rule: Rule,
        symptoms: Collection[Symptom],
        nodes: int,
        details: Callable[[str], str],
        covered: Callable[[str, frozenset[str]], str],
        swept: Callable[[ComponentId], Place | None] = lambda _: None,
    ) -> list[Case]:
        """The notices for the open symptoms of one rule that no verdict explains.

        nodes    how many nodes are known
        details  node -> words of the pull, for the evidence; "" none
        swept    the link of a component that a sweep told of; None for a host's own
        """
        places: dict[Place, list[Symptom]] = {}
        for symptom in symptoms:
            node = symptom.component.node
            place = swept(symptom.component) or Place(f"host({node})", node, node, frozenset((node,)))
            places.setdefault(place, []).append(symptom)
        for place in [place for place in places if covered(place.component, place.hosts)]:
            del places[place]
        kind = rule.kind
        if len(places) > EACH_MOST.get(kind, 16):
            self._summed.add(kind)
        elif len(places) <= 1:
            self._summed.discard(kind)
        if kind in self._summed and places:
            return [self._summary(rule, {place.name: found for place, found in places.items()}, nodes, details)]
        return [self._one(rule, place, found, details) for place, found in places.items()]

    def _one(self, rule: Rule, place: Place, symptoms: list[Symptom], details: Callable[[str], str]) -> Case:
        of_ports = [s for s in symptoms if s.component.kind is not Kind.NODE]
        what = f" ({len(of_ports)} components)" if len(of_ports) > 1 else ""
        return Case(
            family="host" if rule.kind == "agent_silent" else rule.kind,
            identity=place.component,
            component=place.component,
            kind=rule.kind,
            severity=severest(s.severity for s in symptoms),
            confidence=1.0,
            title=f"{rule.title}: {place.name}{what}",
            why=rule.why,
            action=rule.action,
            evidence=_readings(symptoms, details),
            members=Members(len(symptoms), len(symptoms)),
            claims=frozenset(Key(s.rule, s.component) for s in symptoms),
            onset=min(s.since for s in symptoms),
            wait=SETTLE.get(rule.kind, 0.0),
            unsettled="others may follow",
            labels=({"node": place.node} if place.node else {}) | {k: v for s in symptoms for k, v in s.info.items()},
            parts=tuple(str(s.component) for s in symptoms[:PARTS]),
        )

    def _summary(
        self, rule: Rule, by_host: Mapping[str, list[Symptom]], nodes: int, details: Callable[[str], str]
    ) -> Case:
        symptoms = [s for found in by_host.values() for s in found]
        severity = severest(s.severity for s in symptoms)
        blind = rule.kind == "agent_silent" and len(by_host) >= ALL_SHARE * nodes
        if blind:
            severity = severest((severity, Severity.WARNING))
        title = f"{rule.title}: {len(by_host)} of {nodes} nodes"
        return Case(
            family=rule.kind,
            identity=self.network,
            component=self.network,
            kind=rule.kind,
            severity=severity,
            confidence=1.0,
            title=f"{title}; the centre's own network may be cut" if blind else title,
            why=rule.why,
            action="Look at this centre's network first." if blind else rule.action,
            evidence=_readings(symptoms, details),
            members=Members(len(by_host), max(nodes, len(by_host))),
            claims=frozenset(Key(s.rule, s.component) for s in symptoms),
            onset=min(s.since for s in symptoms),
            parts=tuple(sorted(by_host)[:PARTS]),
            group=True,
            wait=SETTLE.get(rule.kind, 0.0),
            unsettled="others may follow",
        )


def maintenance_case(window: Maintenance, hosts: Collection[str], held_back: int) -> Case:
    """The note that a window is on. `hosts` are those of the fabric that it covers."""
    names = window.hosts + window.components
    one = len(window.hosts) == 1 and not window.components and "*" not in window.hosts[0]
    component = f"host({window.hosts[0]})" if one else f"maintenance({window.id})"
    by = f" by {window.author}" if window.author else ""
    return Case(
        family="maintenance",
        identity=f"maintenance({window.id})",
        component=component,
        kind="maintenance",
        severity=Severity.INFO,
        confidence=1.0,
        title=f"Maintenance: {', '.join(names[:5])}{' and more' if len(names) > 5 else ''}",
        why=f"Announced{by}: {window.comment}" if window.comment else f"Announced{by}.",
        action="None. What is still wrong when the window ends is told then.",
        evidence=(Evidence(component, f"{held_back} symptoms held back now", value=float(held_back)),),
        members=Members(held_back, held_back),
        claims=frozenset(),
        onset=window.starts,
        labels={"maintenance": window.id},
        parts=tuple(sorted(hosts)[:PARTS]),
    )


def _readings(symptoms: Iterable[Symptom], details: Callable[[str], str]) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    for symptom in list(symptoms)[:5]:
        found.extend(symptom.evidence[:3])
        if detail := details(symptom.component.node):
            found.append(Evidence(str(symptom.component), detail))
    return tuple(found)
