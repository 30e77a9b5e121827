"""What finds the fault: the product's diagnosis, and two methods of the literature on the same evidence.

Set cover takes, again and again, the part that most unexplained symptoms have in common, where at least HIT of its
observed members show them. Voting is that of 007: a symptom gives each part that it may come from an equal share of one
vote, and the part with most votes is blamed and its symptoms are taken out, while it has at least VOTES of all votes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.verdicts import verdicts_of
from fabricmon.engine.diagnosis.witnesses import witnesses
from tests.accuracy.evidence import Trial
from tests.accuracy.fabrics import Fabric

HIT = 0.4
VOTES = 0.05
MOST = 8  # parts that one trial may blame

DOMAINS = {
    SymptomType.LINK_DOWN: ("link", "nic", "host", "leaf"), SymptomType.LINK_FLAPPING: ("link", "leaf"),
    SymptomType.LINK_ERRORS: ("link", "nic"), SymptomType.NIC_FAULT: ("nic",),
    SymptomType.AGENT_SILENT: ("power",), SymptomType.PACKET_LOSS: ("link", "leaf", "pod", "plane"),
    SymptomType.FLOW_LOSS: ("link", "nic", "leaf", "spine", "core"),
}  # fmt: skip


class Answer(NamedTuple):
    """word, name: as an incident's component; others: its ambiguity group, or the parts of it that it lists as likely;
    tiers: of groups of switches among these."""

    word: str
    name: str
    confidence: float = 1.0
    others: tuple[tuple[str, str], ...] = ()
    tiers: frozenset[str] = frozenset()


def noisy_or(fabric: Fabric, trial: Trial) -> list[Answer]:
    found = verdicts_of(trial.facts, witnesses(trial.facts, trial.ports), trial.silence, trial.ports, fabric.board)
    answers = []
    for verdict in found:
        mode = verdict.modes[0]
        if mode.kind == "agent_silent":
            continue  # a note, not a verdict on the fabric
        names = fabric.places.names
        others = tuple((a.mode.word, names[a.mode.domain][a.group]) for a in (*verdict.rivals, *verdict.within))
        named = ((mode.domain, verdict.group), *((part.mode.domain, part.group) for part in verdict.within))
        tiers = frozenset(_tier(fabric, *one) for one in named)
        answers.append(Answer(mode.word, names[mode.domain][verdict.group], verdict.confidence, others, tiers))
    return answers


def _tier(fabric: Fabric, domain: str, group: int) -> str:
    return fabric.places.about(domain, group).get("tier", "") if domain in ("pod", "plane") else ""


def set_cover(fabric: Fabric, trial: Trial) -> list[Answer]:
    return _one_after_the_other(fabric, trial, voting=False)


def voting(fabric: Fabric, trial: Trial) -> list[Answer]:
    return _one_after_the_other(fabric, trial, voting=True)


def _one_after_the_other(fabric: Fabric, trial: Trial, *, voting: bool) -> list[Answer]:
    parts: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    size: dict[tuple[str, int], float] = {}
    of_symptom: dict[tuple[SymptomType, int], list[tuple[str, int]]] = defaultdict(list)
    for kind, facts in trial.facts.items():
        for domain in DOMAINS[kind]:
            if domain not in facts.groups:
                continue
            if domain in facts.groups.many:
                at, groups = facts.groups.many[domain].groups_of(facts.rows)
            else:
                ids = facts.groups.ids[domain][facts.rows]
                at = np.flatnonzero(ids >= 0)
                groups = ids[at].astype(np.int64)
            for position, group in zip(at.tolist(), groups.tolist(), strict=True):
                symptom = kind, int(facts.rows[position])
                parts[domain, group].add(symptom)
                of_symptom[symptom].append((domain, group))
            for group in np.unique(groups).tolist():
                if domain in facts.groups.many:
                    seen = float(facts.groups.many[domain].count(np.array([group]), facts.known)[0])
                else:
                    seen = float((facts.known & (facts.groups.ids[domain] == group)).sum())
                size[domain, group] = size.get((domain, group), 0.0) + seen
    left, answers = set(of_symptom), []
    total = len(left)
    while left and len(answers) < MOST:
        if voting:
            votes: dict[tuple[str, int], float] = defaultdict(float)
            for symptom in left:
                for part in of_symptom[symptom]:
                    votes[part] += 1 / len(of_symptom[symptom])
            best = max(votes, key=lambda part: (votes[part], part), default=None)
            if best is None or votes[best] < VOTES * total:
                break
        else:
            fit = [p for p in parts if len(parts[p] & left) >= HIT * size[p] and parts[p] & left]
            best = max(fit, key=lambda part: (len(parts[part] & left), -size[part], part), default=None)
            if best is None:
                break
        left -= parts[best]
        domain, group = best
        tiers = frozenset((_tier(fabric, domain, group),))
        answers.append(Answer(domain, fabric.places.names[domain][group], 1.0, (), tiers))
    return answers


METHODS = {"noisy-OR": noisy_or, "set cover": set_cover, "voting": voting}
