"""Cables between switches that fail with the switch at one of their ends: effects of its verdict. Pure.

A sweep reports them as links of their own. They are in no group of the switch: a leaf is its hosts' ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.diagnose import FaultVerdict
from fabricmon.engine.domains.row_domains import RowDomains

FAILING = frozenset({SymptomType.LINK_DOWN, SymptomType.LINK_FLAPPING, SymptomType.LINK_ERRORS})
OF_LEAVES = ("leaf", "run_down", "run_flapping", "run_errors")
"""Domains with the group numbers of leaves."""
BEFORE = 60.0  # seconds by which a cable may seem to fail before its switch: sweeps are polls (design choice)


def with_their_switch(verdicts: Sequence[FaultVerdict], domains: RowDomains) -> list[FaultVerdict]:
    """The verdicts, without those on cables between switches that the verdict on a leaf at one end explains."""
    at_switch: dict[str, int] = {}
    for at, verdict in enumerate(verdicts):
        if verdict.domain in OF_LEAVES and verdict.explained.keys() & FAILING:
            at_switch.setdefault(domains.about("leaf", verdict.group).get("switch", ""), at)
    at_switch.pop("", None)
    tier = domains.assigned.ids["tier"]
    found = list(verdicts)
    gone: set[int] = set()
    for at, verdict in enumerate(verdicts):
        rows = [rows for kind, rows in verdict.explained.items() if kind in FAILING]
        if not at_switch or verdict.domain != "link" or not rows or (tier[np.concatenate(rows)] < 0).any():
            continue
        ends = [end.rpartition("/")[0] for end in domains.names["link"][verdict.group].split(", ")]
        owner = next((at_switch[end] for end in ends if end in at_switch), None)
        if owner is not None and verdict.onset >= found[owner].onset - BEFORE:
            found[owner] = _with_effects(found[owner], verdict)
            gone.add(at)
    return [verdict for at, verdict in enumerate(found) if at not in gone]


def _with_effects(verdict: FaultVerdict, cable: FaultVerdict) -> FaultVerdict:
    effects = dict(verdict.effects)
    for kind, rows in cable.explained.items():
        effects[kind] = np.union1d(effects.get(kind, rows[:0]), rows)
    return replace(verdict, effects=effects)
