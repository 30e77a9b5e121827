"""Evidence of packet loss in incidents: of a loss, or of the effects of a hard fault. Pure."""

from __future__ import annotations

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.causes import WORDS
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.incidents.settling import Unsettled
from fabricmon.forms.readable import count
from fabricmon.model import Evidence, Kind

SETTLE = {SymptomType.FLOW_LOSS: 15.0, SymptomType.PACKET_LOSS: 30.0}
"""Seconds for which a loss waits, by the type of its symptoms (design choice): more flows or ports may follow within a
window or two, and a hard fault behind them may appear. An agent counts as silent after 30 s."""

FINER = {
    "plane": "its ports lose alike on all leaves: the evidence allows no finer answer than one of "
    "the {switches} {tier} switches of the plane or one of their cables",
    "pod": "its ports lose alike on all leaves: the evidence allows no finer answer than one of the "
    "{switches} {tier} switches of the pod",
    "network": "no part of the network loses more than another: the evidence allows no finer answer",
    "together_lossy": "the server knows no topology: which part of the fabric they share is unknown",
}


LEVELS = {
    "L1": "counters of the nodes",
    "L2": "packet loss of single connections and their paths",
    "L3": "counters of nodes and switches",
}
"""Evidence level (docs/methods.md#evidence-levels) -> what it is."""


def unsettled(verdict: FaultVerdict) -> Unsettled:
    return Unsettled("losses spread, and a hard fault may appear", max(SETTLE[kind] for kind in verdict.explained))


def evidence_level(verdict: FaultVerdict, index: SymptomIndex) -> str:
    """The evidence level (docs/methods.md#evidence-levels): flows with paths, switch ports, or node counters."""
    if SymptomType.FLOW_LOSS in verdict.explained:
        return "L2"
    swept = index.domains.assigned.swept
    ports = [rows for kind, rows in verdict.explained.items() if index.table(kind) is Kind.PORT]
    return "L3" if any(swept[rows[rows < len(swept)]].any() for rows in ports) else "L1"


def candidate_switches(verdict: FaultVerdict, index: SymptomIndex) -> list[str]:
    """The switches of a group, which the evidence does not separate; its likely parts where these are few."""
    if verdict.within:
        return [index.named(part.mode, part.group) for part in verdict.within]
    if verdict.domain not in ("plane", "pod"):
        return []
    about = index.domains.about(verdict.domain, verdict.group)
    return [f"{about['tier']}({name})" for name in about.get("names", "").split()]


def cable_ends(name: str, index: SymptomIndex) -> list[str]:
    """The ends of a cable: an adapter, or the port of a switch."""
    found: list[str] = []
    hosts = set(index.domains.names["host"])
    for end in name.split(", "):
        node, _, port = end.partition("/")
        found.append(f"nic({node}/{port.partition('/')[0]})" if node in hosts else f"port({end})")
    return found


def loss_evidence(verdict: FaultVerdict, component: str, index: SymptomIndex) -> list[Evidence]:
    """The losses that the cause explains, and why the answer is no finer."""
    found: list[Evidence] = []
    for kind, rows in verdict.effects.items():
        if len(rows):
            names = ", ".join(str(index.component(kind, row)) for row in rows[:3].tolist())
            more = ", ..." if len(rows) > 3 else ""
            text = f"explained by it: {WORDS[kind]} on {count(len(rows), 'other member')} ({names}{more})"
            found.append(Evidence(component, text, value=float(len(rows))))
    if verdict.cables:
        names = "; ".join(index.domains.names["link"][cable] for cable in verdict.cables)
        text = f"{len(verdict.cables)} of its {verdict.observed} observed cables lose packets: {names}"
        text += " (neighbouring ports may be one module)"
        found.append(Evidence(component, text, value=float(len(verdict.cables))))
    if verdict.only_losses and verdict.domain in FINER:
        about = index.domains.about(verdict.domain, verdict.group)
        text = FINER[verdict.domain].format(**{"tier": "", "switches": "", **about})
        if verdict.within:
            names = " or ".join(index.named(part.mode, part.group) for part in verdict.within)
            text = f"probably {names}; the evidence does not separate them"
        found.append(Evidence(component, text))
    return found
