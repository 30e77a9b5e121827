"""Incidents without a broken component: silent agents, unreliable telemetry. Most are info. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from fabricmon.catalogue.kinds import KINDS, Notice
from fabricmon.engine.incidents.claim_lookup import ClaimLookup
from fabricmon.engine.incidents.episode import severest
from fabricmon.engine.incidents.incident_draft import PARTS, IncidentDraft
from fabricmon.engine.symptoms.rule_state import RuleState, SymptomKey
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import ComponentId, Evidence, Kind, Members, Presence, Severity, Symptom
from fabricmon.rules.rule import Rule

ALL_SHARE = 0.5
"""Share of silent agents from which the server may be cut off: not monitored, a warning (design choice)."""


class NoticeSubject(NamedTuple):
    """The subject of a notice: a host, or a link that a sweep reports."""

    component: str  # "host(host-003)", "link(host-003/mlx5_2/1, leaf-3/12)"
    name: str
    node: str  # of the agent that reports it; "" for a link
    hosts: frozenset[str]


class SilentHosts(NamedTuple):
    """Hosts that do not answer the server.

    up       their peers lose nothing that they send them
    pending  that is known in seconds
    """

    up: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()


GOES_ON = (
    "few or no ports that may send to it lost packets since it fell silent: most likely it is up, and its agent or its "
    "management network failed"
)


class Notices:
    """Remembers which kinds are one summary, so that one agent more or less does not change the form."""

    def __init__(
        self, fabric: str, fleet: Fleet, lookup: ClaimLookup, read_now: Callable[[Symptom], tuple[Evidence, ...]]
    ) -> None:
        self.network = f"network({fabric or 'fabric'})"
        self._fleet, self._lookup, self._read_now = fleet, lookup, read_now
        self._summed: set[str] = set()

    def drafts(
        self,
        rule_states: Iterable[RuleState],
        claims: Collection[SymptomKey],
        covered: Callable[[str, frozenset[str]], str],
        seen: SilentHosts,
    ) -> list[IncidentDraft]:
        """Notices for symptoms that no verdict explains.

        claims    the symptoms that verdicts or restored incidents have
        covered   (component, hosts) -> id of the maintenance window that covers it, "" none
        seen      what is known of hosts that do not answer
        """
        found: list[IncidentDraft] = []
        for state in rule_states:
            rule = state.rule
            if KINDS[rule.kind].notice is not None:
                every = (held.symptom for held in state.open.values())
                left = [symptom for symptom in every if SymptomKey(rule.name, symptom.component) not in claims]
                gone = {held.symptom.component.node for held in state.open.values() if _vanished(held.symptom)}
                found += self._of_rule(rule, left, covered, gone, seen)
        return found

    def _of_rule(
        self,
        rule: Rule,
        symptoms: Iterable[Symptom],
        covered: Callable[[str, frozenset[str]], str],
        gone: Collection[str],
        seen: SilentHosts,
    ) -> list[IncidentDraft]:
        """The notices for the open symptoms of one rule that no verdict explains."""
        by_subject: dict[NoticeSubject, list[Symptom]] = {}
        for symptom in symptoms:
            by_subject.setdefault(self._subject(symptom.component), []).append(symptom)
        by_subject = {s: found for s, found in by_subject.items() if not covered(s.component, s.hosts)}
        kind, form = rule.kind, _form(rule)
        alone = self._alone(by_subject, seen) if form.blinds else {}
        by_subject = {s: found for s, found in by_subject.items() if s not in alone}
        following = self._last_words(gone) if alone else []
        apart = [self._vanished(rule, form, subject, found, following) for subject, found in alone.items()]
        warned = {s: found for s, found in by_subject.items() if any(map(_warns, found))}
        if len(warned) <= form.most:  # a warning about a few is none about all that the summary lists
            apart += [self._one(rule, form, subject, found) for subject, found in warned.items()]
            by_subject = {s: found for s, found in by_subject.items() if s not in warned}
        if len(by_subject) > form.most:
            self._summed.add(kind)
        elif len(by_subject) <= 1:
            self._summed.discard(kind)
        if kind in self._summed and by_subject:
            return [*apart, self._summary(rule, form, {subject.name: found for subject, found in by_subject.items()})]
        single = [(subject, self._one(rule, form, subject, found)) for subject, found in by_subject.items()]
        going_on = seen.up if form.blinds else ()
        return [*apart, *(_going_on(draft) if subject.node in going_on else draft for subject, draft in single)]

    def _vanished(
        self, rule: Rule, form: Notice, subject: NoticeSubject, symptoms: list[Symptom], following: Collection[float]
    ) -> IncidentDraft:
        """A host that reported and does not answer at all now: never one of a summary. It waits only where others fell
        silent with it whose symptom is still to come; it comes while they may have one cause."""
        title = f"Host {subject.name} does not answer: it is down, or cut off from the server"
        draft = self._one(rule, form, subject, symptoms)
        more = any(abs(last - draft.onset) <= form.settle for last in following)
        return replace(draft, title=title, severity=Severity.WARNING, wait=draft.wait if more else 0.0)

    def _last_words(self, gone: Collection[str]) -> list[float]:
        """When nodes last sent a frame or answered that do not answer now and are not `gone` yet by their symptom."""
        table = self._fleet.tables[Kind.NODE]
        last = np.fmax(table.value("last_frame"), table.value("answered"))
        nodes = self._fleet.nodes.values()
        rows = [node.row for node in nodes if node.presence is Presence.UNREACHABLE and node.name not in gone]
        return [float(at) for at in last[rows]]

    def _alone(
        self, by_subject: Mapping[NoticeSubject, list[Symptom]], seen: SilentHosts
    ) -> dict[NoticeSubject, list[Symptom]]:
        """Hosts that vanished, unless most did: then it is the server that cannot see."""
        warned = {
            subject: found
            for subject, found in by_subject.items()
            if subject.node not in seen.up | seen.pending and any(map(_vanished, found))
        }
        return warned if len(warned) < ALL_SHARE * len(self._fleet.nodes) else {}

    def _subject(self, component: ComponentId) -> NoticeSubject:
        link, node = self._lookup.swept_link(component), component.node
        if link is None:
            return NoticeSubject(f"host({node})", node, node, frozenset((node,)))
        name, host = link
        return NoticeSubject(f"link({name})", name, "", frozenset((host,)) if host else frozenset())

    def _one(self, rule: Rule, form: Notice, subject: NoticeSubject, symptoms: list[Symptom]) -> IncidentDraft:
        of_ports = [s for s in symptoms if s.component.kind is not Kind.NODE]
        what = f" ({len(of_ports)} components)" if len(of_ports) > 1 else ""
        return replace(
            self._draft(rule, form, symptoms),
            family=form.family,
            identity=subject.component,
            component=subject.component,
            title=f"{rule.title}: {subject.name}{what}",
            labels=({"node": subject.node} if subject.node else {})
            | {key: value for s in symptoms for key, value in s.info.items()},
            parts=tuple(str(s.component) for s in symptoms[:PARTS]),
        )

    def _summary(self, rule: Rule, form: Notice, by_host: Mapping[str, list[Symptom]]) -> IncidentDraft:
        nodes = len(self._fleet.nodes)
        draft = self._draft(rule, form, [s for found in by_host.values() for s in found])
        title = f"{rule.title}: {len(by_host)} of {nodes} nodes"
        if form.blinds and len(by_host) >= ALL_SHARE * nodes:
            title = f"{title}; the server's own network may be cut"
            severity = severest((draft.severity, Severity.WARNING))
            draft = replace(draft, severity=severity, action="Check the server's network first.")
        return replace(
            draft,
            title=title,
            members=Members(len(by_host), max(nodes, len(by_host))),
            parts=tuple(sorted(by_host)[:PARTS]),
            group=True,
        )

    def _draft(self, rule: Rule, form: Notice, symptoms: Sequence[Symptom]) -> IncidentDraft:
        """The parts of a notice that its symptoms give."""
        return IncidentDraft(
            family=rule.kind,
            identity=self.network,
            component=self.network,
            kind=rule.kind,
            severity=severest(rule.severity if _vanished(s) else s.severity for s in symptoms),
            title=rule.title,
            why=rule.why,
            action=rule.action,
            evidence=self._readings(symptoms),
            members=Members(len(symptoms), len(symptoms)),
            claims=frozenset(SymptomKey(s.rule, s.component) for s in symptoms),
            onset=min(s.since for s in symptoms),
            notice=True,
            wait=form.settle,
            unsettled="more symptoms may follow",
        )

    def _readings(self, symptoms: Sequence[Symptom]) -> tuple[Evidence, ...]:
        found: list[Evidence] = []
        for symptom in symptoms[:5]:
            found.extend(self._read_now(symptom)[:3])
            node = self._fleet.nodes.get(symptom.component.node)
            if node is not None and node.presence is not Presence.LIVE and node.detail:
                found.append(Evidence(str(symptom.component), node.detail))  # "connection refused"
        return tuple(found)


def _going_on(draft: IncidentDraft) -> IncidentDraft:
    return replace(draft, evidence=(*draft.evidence, Evidence(draft.component, GOES_ON)))


def _vanished(symptom: Symptom) -> bool:
    """It is of a node that reported and does not answer at all now (rules/agent_silent.py)."""
    return symptom.info.get("presence") == Presence.UNREACHABLE and symptom.severity is not Severity.INFO


def _warns(symptom: Symptom) -> bool:
    return symptom.severity.rank >= Severity.WARNING.rank and not _vanished(symptom)


def _form(rule: Rule) -> Notice:
    """The notice of a rule's kind; drafts() asks only for kinds that have one."""
    form = KINDS[rule.kind].notice
    assert form is not None
    return form
