"""Victims: congested ports that a pausing port or an incast explains. Pure.

Method: docs/methods.md#congestion-victims. Victims are removed from the evidence before the diagnosis and reported with
the cause. Back-pressure spreads from the receiver's leaf within milliseconds, so a victim's congestion cannot begin
before its cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Ints, Mask

CULPRITS = (SymptomType.PAUSING, SymptomType.INCAST)
"""Symptom types of receivers that cause victims, the more certain one first."""

VICTIM = SymptomType.CONGESTION

EARLIER = 60.0
"""Seconds by which a victim's symptom may seem to begin before its cause (design choice): both use polled windows."""

NEAR = ("leaf", "rail_traffic", "port_name")
FAR = ("plane", "network")
"""Domains in which a culprit has victims, the narrower one first."""

SHARE = 0.5  # of a group's active ports: from there on its congestion is its own (docs/methods.md#congestion-victims)


def victims(observations: Observations, storms: Collection[int]) -> dict[tuple[SymptomType, int], Ints]:
    """(symptom type, row) of a culprit -> rows of the congested ports that it explains; each port has one culprit.

    storms  rows of the culprits that pause their switch nearly all the time
    """
    congested = observations.get(VICTIM)
    if congested is None or not len(congested.rows):
        return {}
    culprits = [
        (kind, row, onset)
        for kind in CULPRITS
        if kind in observations
        for row, onset in zip(observations[kind].rows.tolist(), observations[kind].onset.tolist(), strict=True)
    ]
    if not culprits:
        return {}
    ids, rows = congested.groups.ids, congested.rows
    free = ~np.isin(rows, [row for _, row, _ in culprits])
    own = _crowded(congested)
    found: dict[tuple[SymptomType, int], list[Ints]] = {}
    for domains, far in ((NEAR, False), (FAR, True)):
        for kind, row, onset in culprits:
            reached = np.zeros(len(rows), np.bool_)
            for domain in domains:
                group = ids[domain][row] if domain in ids else -1
                if group >= 0:
                    reached |= ids[domain][rows] == group
                    if far:
                        break
            reached &= free & (congested.onset >= onset - EARLIER)
            if far and row not in storms:
                reached &= ~own
            if reached.any():
                found.setdefault((kind, row), []).append(rows[reached])
                free &= ~reached
    return {key: np.sort(np.concatenate(parts)) for key, parts in found.items()}


def without(
    observations: Observations, held_up: Mapping[tuple[SymptomType, int], Ints]
) -> dict[SymptomType, Observation]:
    """The observations without the victims."""
    if not held_up:
        return dict(observations)
    congested, gone = observations[VICTIM], np.concatenate(list(held_up.values()))
    known = congested.known.copy()
    known[gone] = False
    keep = ~np.isin(congested.rows, gone)
    left = Observation(congested.groups, congested.rows[keep], congested.onset[keep], known)
    return {**observations, VICTIM: left}


def _crowded(congested: Observation) -> Mask:
    """Congested ports whose leaf or rail is mostly congested."""
    crowded = np.zeros(len(congested.rows), np.bool_)
    for domain in NEAR:
        ids = congested.groups.ids.get(domain)
        if ids is None:
            continue
        size = int(ids.max(initial=-1)) + 2
        active = np.bincount(ids[congested.known] + 1, minlength=size)
        shown = np.bincount(ids[congested.rows] + 1, minlength=size)
        mine = ids[congested.rows]
        crowded |= (mine >= 0) & (shown[mine + 1] >= SHARE * active[mine + 1])
    return crowded
