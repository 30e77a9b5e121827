"""The incident of a verdict: texts, severity, members, evidence. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from msgspec.structs import replace

from fabricmon.catalogue.kinds import KINDS, SHOWS, TRAFFIC, Hardness
from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import GROUPS, LOSSES, WORDS
from fabricmon.engine.diagnosis.diagnose import MOSTLY
from fabricmon.engine.diagnosis.group_modes import HARD_MODES, TOGETHER_MODES
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.diagnosis.victims import CULPRITS, VICTIM
from fabricmon.engine.diagnosis.warm_air import HOTTER
from fabricmon.engine.domains.groups import Ints
from fabricmon.engine.incidents import loss_texts
from fabricmon.engine.incidents.episode import severest
from fabricmon.engine.incidents.group_texts import ModeText
from fabricmon.engine.incidents.heat_texts import words_of_heat
from fabricmon.engine.incidents.incident_draft import LINGER, PARTS, IncidentDraft
from fabricmon.engine.incidents.mode_texts import (
    CONFIRMED_TEXTS,
    EITHER_END_TEXT,
    PARTLY_TEXTS,
    SERIES_TEXT,
    TEXTS,
    control_of,
)
from fabricmon.engine.incidents.ruled_out import MemberCounts, ruled_out, times_text
from fabricmon.engine.incidents.settling import LastReads, unsettled
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.forms.readable import certainty
from fabricmon.model import ComponentId, Event, Evidence, Kind, Members, Severity, Symptom

NAMED = 20  # victims that an incident names (design choice)
EXAMPLES = 5  # symptoms whose readings are printed with a verdict

GROUP_CALM = 30.0  # three polls without a symptom before a group is called recovered
FLAPS_REMEMBERED = KINDS["link_flapping"].cooling
"""Seconds for which a group that flaps keeps its members: each time others fall, so that penalties end one by one."""
EVENT_NEAR = 60.0  # seconds between a kernel event and the symptom it belongs to
SURE, SUSPECTED = 0.9, 0.5  # docs/methods.md#confidence

GROWING = ("link", "part")
"""Words of components whose name may grow after a comma: the far end of a link, the ports of a part."""

OF_SWITCHES = ("ports", "switches", "names")
"""Facts about a group that are no labels of its incident."""

OF_WHOLE_SWITCHES = frozenset(mode.domain for mode in HARD_MODES if mode.whole == "leaf") | {
    mode.domain for mode in TOGETHER_MODES
}
"""Domains whose members are switches with all their cables, or may be."""

LASTING = LOSSES | {SymptomType.STRAGGLER}
"""Symptom types of traffic: other faults make them, at others or on their own members, and they end later."""

IN_MAINTENANCE = "it is under maintenance, and the topology does not know it"

WARM_AIR = f"> {HOTTER:g} °C, and 3.5 times their spread (docs/methods.md#warm-air)"
METHOD = "noisy-OR, most probable set of causes (docs/methods.md#noisy-or)"


@dataclass(frozen=True, slots=True)
class VerdictContext:
    """Input of `draft_of` besides the verdict.

    covered   (component word, hosts) -> id of the maintenance window that covers it, "" none
    events    the newest kernel event of a component
    counts    members observed and members with symptoms
    read_now  the evidence of an open symptom as it reads now
    layers    the link layers of some PORT rows (technology.link_layer)
    topology  source of the topology in force, "" none
    """

    index: SymptomIndex
    read: LastReads
    covered: Callable[[str, frozenset[str]], str]
    events: Mapping[ComponentId, Event]
    counts: MemberCounts
    read_now: Callable[[Symptom], tuple[Evidence, ...]]
    layers: Callable[[Iterable[int]], frozenset[str]]
    topology: str = ""


def draft_of(verdict: FaultVerdict, context: VerdictContext) -> IncidentDraft:
    """The incident of a verdict."""
    index, mode = context.index, verdict.mode
    names = sorted(index.domains.names[mode.domain][group] for group in (verdict.group, *verdict.series))
    name = ", ".join(names)
    component, *_ = own = tuple(f"{mode.word}({one})" for one in (name, *names))
    symptoms = [symptom for kind, rows in verdict.explained.items() for symptom in index.symptoms(kind, rows)]
    hosts = frozenset().union(*(index.hosts(kind, rows) for kind, rows in verdict.explained.items()))
    bad, of, parts = _members(verdict, index)
    kind, (title, why, action) = _texts(verdict, context, symptoms, " or ".join(names), Members(bad, of))
    candidates = _candidates(verdict, index, component, name)
    early = loss_texts.unsettled(verdict) if verdict.only_losses else unsettled(verdict, index, context.read)
    return IncidentDraft(
        family=mode.family,
        identity=f"{mode.family}({name.partition(', ')[0] if mode.word in GROWING else name})",
        component=component,
        kind=kind,
        severity=_severity(verdict, kind, symptoms, hosts, _began(verdict, index)),
        confidence=round(verdict.confidence, 4),
        title=title if verdict.confidence >= SURE else f"Suspected: {title}",
        why=f"{why} Probably it is {verdict.maintained}: {IN_MAINTENANCE}." if verdict.maintained else why,
        action=action,
        evidence=_evidence(verdict, context, component, symptoms, of),
        members=Members(bad, of),
        claims=(claims := _claims(verdict, index)),
        effects=_effects(claims, symptoms, index),
        shows=_shows(claims, kind, index),
        onset=verdict.onset,
        labels=_labels(verdict, index, symptoms, hosts),
        candidates=candidates,
        parts=(*map(str, parts), *_adapters(verdict, index))[:PARTS],
        group=(group := mode.domain in GROUPS),
        wait=early.seconds,
        unsettled=early.reason,
        linger=LINGER if group else 0.0,
        calm=GROUP_CALM if group and mode.domain != "host" else 0.0,
        series=FLAPS_REMEMBERED if group and SymptomType.LINK_FLAPPING in verdict.explained else 0.0,
        covered=next(filter(None, (context.covered(one, hosts) for one in own)), ""),
        ruled_out=ruled_out(verdict, (component, *candidates), context.counts, index),
    )


def _claims(verdict: FaultVerdict, index: SymptomIndex) -> frozenset[SymptomKey]:
    effects = {shown: rows for shown, rows in verdict.effects.items() if shown in index.rule_states}
    return index.keys(verdict.explained) | index.keys(effects)


def _effects(claims: frozenset[SymptomKey], symptoms: Iterable[Symptom], index: SymptomIndex) -> frozenset[SymptomKey]:
    """The claims on traffic, less those that are the evidence of the verdict."""
    rules = {state.rule.name for kind in LASTING for state in index.rule_states.get(kind, ())}
    evidence = {SymptomKey(symptom.rule, symptom.component) for symptom in symptoms}
    return frozenset(key for key in claims if key.rule in rules) - evidence


def _shows(claims: frozenset[SymptomKey], kind: str, index: SymptomIndex) -> frozenset[SymptomKey]:
    """The claims of the kind of the incident."""
    rules = {state.rule.name for states in index.rule_states.values() for state in states if state.rule.kind == kind}
    return frozenset(key for key in claims if key.rule in rules)


def with_victims(
    draft: IncidentDraft, verdict: FaultVerdict, held_up: Mapping[tuple[SymptomType, int], Ints], index: SymptomIndex
) -> IncidentDraft:
    """The draft with the victims of the culprits among its symptoms."""
    found = [
        held_up[kind, row]
        for kind in CULPRITS
        for row in verdict.explained.get(kind, np.empty(0, np.int64)).tolist()
        if (kind, row) in held_up
    ]
    if not found:
        return draft
    rows = np.concatenate(found)
    names = [str(index.component(VICTIM, row)) for row in rows.tolist()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    text = f"victims: {len(names)} congested ports: {', '.join(names[:NAMED])}{more}"
    victims = index.keys({VICTIM: rows})
    return replace(
        draft,
        claims=draft.claims | victims,
        effects=draft.effects | victims,
        evidence=(*draft.evidence, Evidence(draft.component, text, value=float(len(names)))),
        labels=draft.labels | {"victims": str(len(names))},
    )


def is_partly(verdict: FaultVerdict) -> bool:
    """Whether less than MOSTLY of the observed members show anything of it: "is down" would be of the others, too."""
    own = [rows for kind, rows in verdict.explained.items() if kind in verdict.mode.q and kind in verdict.silent]
    bad = np.unique(np.concatenate(own)) if own else np.empty(0, np.int64)
    healthy = [
        verdict.silent[kind] - len(np.setdiff1d(bad, rows))
        for kind, rows in verdict.explained.items() if kind in verdict.mode.q and kind in verdict.silent
    ]  # fmt: skip
    return bool(healthy) and len(bad) < MOSTLY * (len(bad) + min(healthy))


def _own_texts(verdict: FaultVerdict) -> ModeText | None:
    """The texts of its mode, as sure and as whole as it is."""
    if verdict.series:
        return SERIES_TEXT if SymptomType.FLOW_LOSS in verdict.explained else EITHER_END_TEXT
    name = verdict.mode.name
    confirmed = CONFIRMED_TEXTS.get(name) if verdict.seen else None
    partly = PARTLY_TEXTS.get(name) if is_partly(verdict) else None
    return confirmed or partly or TEXTS.get(name)


def _texts(
    verdict: FaultVerdict, context: VerdictContext, symptoms: Sequence[Symptom], name: str, members: Members
) -> tuple[str, Sequence[str]]:
    """Kind of the incident, and its title, why and action: the mode's, else those of the rule that shows it."""
    mode, index = verdict.mode, context.index
    own_texts = _own_texts(verdict)
    layers = context.layers(row for kind, rows in verdict.explained.items() if index.table(kind) is Kind.PORT
                            for row in rows.tolist())  # fmt: skip
    if own_texts is not None:
        words: dict[str, str | int] = {"name": name, "bad": members.bad, "of": members.of, "n": 1 + len(verdict.series)}
        words |= words_of_heat(own_texts, symptoms, verdict.warmer, members.bad) | {"control": control_of(layers)}
        return mode.kind, [text.format(**words) for text in (own_texts.title, own_texts.why, own_texts.action)]
    own = KINDS[mode.kind].symptom
    finest = own if own is not None and own in verdict.explained else next(iter(verdict.explained))
    rule = index.leading_rule(finest, verdict.explained[finest])
    return rule.kind if finest == own else mode.kind, (f"{rule.title}: {name}", *rule.text_of(layers))


def _labels(
    verdict: FaultVerdict, index: SymptomIndex, symptoms: Iterable[Symptom], hosts: frozenset[str]
) -> dict[str, str]:
    about = index.domains.about(verdict.domain, verdict.group).items()
    labels = {"mode": verdict.mode.name} | {key: value for key, value in about if key not in OF_SWITCHES}
    labels |= {key: value for symptom in symptoms for key, value in symptom.info.items()}
    if verdict.confidence < SURE:
        labels["suspected"] = "true"
    if verdict.domain in GROUPS and verdict.explained.keys() <= LASTING | {VICTIM}:
        labels[SHOWS] = TRAFFIC
    if len(hosts) == 1:
        labels["node"] = next(iter(hosts))
    return labels


def _members(verdict: FaultVerdict, index: SymptomIndex) -> tuple[int, int, list[ComponentId]]:
    """Bad members, all members, and the bad ones' names. Hosts of a power domain, ports of anything else."""
    own = [kind for kind in verdict.explained if kind in verdict.mode.q] or list(verdict.explained)
    kinds = [kind for kind in own if index.table(kind) is Kind.PORT] or own
    rows = sorted({row for kind in kinds for row in verdict.explained[kind].tolist()})
    if verdict.only_losses and verdict.domain in loss_texts.FINER:  # both ends of the flows
        ends = verdict.effects.get(SymptomType.PACKET_LOSS, np.empty(0, np.int64))
        rows += sorted(set(ends.tolist()) - set(rows))
    size = len(index.domains.members(index.table(kinds[0]), verdict.domain, verdict.group))
    if verdict.domain in OF_WHOLE_SWITCHES:  # their cables to other switches, too, as far as they failed
        of_ports = [found for kind, found in verdict.effects.items() if index.table(kind) is Kind.PORT]
        tier = index.domains.assigned.ids["tier"]
        cables = sorted({row for found in of_ports for row in found.tolist() if tier[row] >= 0} - set(rows))
        rows, size = [*rows, *cables], size + len(cables)
    return len(rows), max(size, len(rows)), [index.component(kinds[0], row) for row in rows]


def _adapters(verdict: FaultVerdict, index: SymptomIndex) -> list[str]:
    """Adapters of the PCIe links of a group: "host-003/mlx5_2" means more to a reader than a PCI address."""
    rows = verdict.explained.get(SymptomType.PCIE_DEGRADED)
    if rows is None or verdict.domain not in GROUPS:
        return []
    ids, names = index.domains.by_table[Kind.PCIE].ids["adapter"], index.domains.names["adapter"]
    return [names[at] for at in ids[rows].tolist() if at >= 0]


def _began(verdict: FaultVerdict, index: SymptomIndex) -> bool:
    """Whether the beginning of anything that it explains was seen."""
    return any(index.witnessed(kind, rows, ()) for kind, rows in verdict.explained.items())


def _severity(
    verdict: FaultVerdict, kind: str, symptoms: Sequence[Symptom], hosts: frozenset[str], began: bool
) -> Severity:
    """A suspicion is a warning at most; info below a probability of one half, where normal work may be the reason and
    was there at the first reading (nothing changed), and for loss that may be of no fault at all. Loss of one port
    lasts at that port, whichever of its cable and adapter makes it, so it is worth a look."""
    severity = _severity_if_sure(verdict, kind, symptoms, hosts)
    if verdict.confidence >= SURE:
        return severity
    located = not verdict.only_losses or verdict.domain in ("link", "nic") or verdict.some >= SURE
    known = verdict.confidence >= SUSPECTED and located and (began or not verdict.mode.harmless)
    return min(severity, Severity.WARNING if known else Severity.INFO, key=lambda s: s.rank)


def _severity_if_sure(verdict: FaultVerdict, kind: str, symptoms: Sequence[Symptom], hosts: frozenset[str]) -> Severity:
    """Critical for a hard fault of a domain of two or more hosts; the rule's severity for a single link."""
    shown = severest(symptom.severity for symptom in symptoms)
    if KINDS[kind].hardness is Hardness.SOFT:
        return shown
    if verdict.mode.severity is not None:
        likely = verdict.within[0].mode if verdict.within else verdict.mode
        return likely.severity or verdict.mode.severity
    if verdict.domain == "nvlink_domain":
        return Severity.CRITICAL
    if verdict.domain in GROUPS - {"host"}:
        if verdict.mode.word == "management":
            return Severity.WARNING
        return Severity.CRITICAL if len(hosts) > 1 else shown
    return KINDS[kind].severity or shown


def _candidates(verdict: FaultVerdict, index: SymptomIndex, component: str, name: str) -> tuple[str, ...]:
    """The rest of the ambiguity group. A link's own evidence cannot separate its cable from the ports at its ends
    (docs/methods.md#limits-of-localization)."""
    found = [verdict.maintained] if verdict.maintained else []
    found += [index.named(verdict.mode, group) for group in (verdict.group, *verdict.series) if verdict.series]
    found += [index.named(rival.mode, rival.group) for rival in verdict.rivals]
    found += loss_texts.candidate_switches(verdict, index)
    ids = index.domains.port.ids
    if verdict.domain == "link" and verdict.only_losses:
        found.extend(loss_texts.cable_ends(name, index))
    elif verdict.domain == "link" and SymptomType.INCAST not in verdict.explained:  # an overrun link is not broken
        near, _, far = name.partition(", ")
        node, _, rest = near.partition("/")
        nic = ids["nic"][next(iter(verdict.explained.values()))]
        found.append(f"nic({node}/{rest.partition('/')[0]})" if (nic >= 0).any() else f"port({near})")
        if far:
            found.append(f"port({far})")
    elif verdict.domain == "nic":
        # Its links that are down, explained or an effect.
        rows = index.domains.members(Kind.PORT, verdict.domain, verdict.group).tolist()
        rule_states = index.rule_states.get(SymptomType.LINK_DOWN, ())
        links = ids["link"][[row for row in rows if any(row in rule_state.open for rule_state in rule_states)]]
        found.extend(f"link({index.domains.names['link'][link]})" for link in links.tolist() if link >= 0)
    return tuple(dict.fromkeys(candidate for candidate in found if candidate != component))


def _evidence(
    verdict: FaultVerdict, context: VerdictContext, component: str, symptoms: Sequence[Symptom], of: int
) -> tuple[Evidence, ...]:
    """Counts, examples, counter-evidence, the best alternative and its gap."""
    index = context.index
    found: list[Evidence] = []
    for kind, rows in verdict.explained.items():
        if len(rows) > 1:
            onsets = [symptom.since for symptom in index.symptoms(kind, rows)]
            within = f", began within {max(onsets) - min(onsets):.0f} s" if onsets else ""
            text = f"{WORDS[kind]} on {len(rows)} members{within}"
            found.append(Evidence(component, text, value=float(len(rows)), limit=float(of)))
    for symptom in symptoms[:EXAMPLES]:
        found.extend(context.read_now(symptom)[:3])
        event = context.events.get(symptom.component)
        if event is not None and abs(event.wall - symptom.since) <= EVENT_NEAR:
            found.append(Evidence(str(symptom.component), f"kernel: {event.text}"))
    if verdict.warmer:
        text = f"the modules of its members are {verdict.warmer:.0f} °C warmer than the median of all modules"
        found.append(Evidence(component, text, WARM_AIR, verdict.warmer, HOTTER, unit="celsius"))
    found.extend(loss_texts.loss_evidence(verdict, component, index))
    for kind, count in verdict.silent.items():
        if count:
            found.append(Evidence(component, f"{count} observed members show no {WORDS[kind]}", METHOD, for_it=False))
    if missing := _unobserved(verdict, of):
        found.append(Evidence(component, f"{missing} of {of} members are no evidence: not read, or just back"))
    if verdict.maintained:
        found.append(Evidence(component, f"{verdict.maintained}: {IN_MAINTENANCE}", for_it=False))
    found.append(_best_cause(verdict, context, component))
    return tuple(found)


def _best_cause(verdict: FaultVerdict, context: VerdictContext, component: str) -> Evidence:
    """The cause beside the next best one, and what it is based on."""
    index = context.index
    level = loss_texts.evidence_level(verdict, index)
    text, gap = f"best explanation: {verdict.mode.name}, confidence {certainty(verdict.confidence)}", ""
    if (other := verdict.best_other) is not None:
        named, behind = index.named(other.mode, other.group), verdict.gain - other.gain
        text += f"; {times_text(behind)} more probable than {named}" if behind > log(2) else f"; {named} is as probable"
        gap = f"; {named} is {behind:.1f} nats behind"
    text += f"; based on {loss_texts.LEVELS[level]}"
    text += f"; topology {_file_only(context.topology)}" if context.topology else ""
    formula = f"{verdict.odds_text}{gap}; evidence level {level}; {METHOD}"
    return Evidence(component, text, formula, value=round(verdict.gain, 3), limit=0.0)


def _file_only(source: str) -> str:
    """A source of the topology without folders: "ibnetdiscover:/var/lib/x.txt" -> "ibnetdiscover: x.txt"."""
    kind, _, path = source.partition(":")
    return f"{kind}: {path.rpartition('/')[2]}" if "/" in path else source


def _unobserved(verdict: FaultVerdict, of: int) -> int:
    """Count of members of the group without a reading now."""
    kinds = [kind for kind in verdict.mode.q if kind in verdict.explained]
    if verdict.domain not in GROUPS or not kinds:
        return 0
    return max(0, of - len(verdict.explained[kinds[0]]) - verdict.silent.get(kinds[0], 0))
