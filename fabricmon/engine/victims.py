"""Who is held up by whom: congested ports that a port which pauses its switch, or an incast, explains. Pure.

A port that waits is a victim where somebody who pauses, or is overrun, can be reached from it: it is explained, not
blamed, and never outranks that cause (detection-methods 3.2 and 4.6). So such ports are taken out of the evidence
before the diagnosis and told with the cause.

Back-pressure begins at the receiver's own leaf and climbs from switch to switch, within milliseconds. So a victim's
congestion cannot have begun before its cause. On the culprit's own leaf or rail that is enough; elsewhere in its
network only where most of the victim's own neighbours are fine: else what they share is congested by itself, unless
the culprit makes a storm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from msgspec.structs import replace

from fabricmon.engine.board import Board
from fabricmon.engine.case import Case
from fabricmon.engine.diagnose import Facts, Verdict
from fabricmon.engine.search import Ints
from fabricmon.model import Evidence

CULPRITS = ("TP", "IC")
"""Symptom types of receivers that others wait for, the more certain one first."""

VICTIM = "CG"

EARLIER = 60.0
"""Seconds by which a victim's symptom may seem to begin before its cause [D]: both look at windows and are polled."""

NEAR = ("leaf", "rail_traffic")
FAR = ("plane", "network")
"""Domains within which a culprit is reached, the narrower one first."""

SHARE = 0.5  # of a group's active ports: from there on its congestion is its own (detection-methods 3.1)
NAMED = 20  # victims that an incident names (detection-methods 4.5)


def victims(facts: Mapping[str, Facts], storms: Collection[int]) -> dict[tuple[str, int], Ints]:
    """(symptom type, row) of a culprit -> rows of the congested ports that it explains; each port has one culprit.

    storms  rows of the culprits that pause their switch nearly all the time
    """
    congested = facts.get(VICTIM)
    if congested is None or not len(congested.rows):
        return {}
    culprits = [
        (kind, row, onset)
        for kind in CULPRITS
        if kind in facts
        for row, onset in zip(facts[kind].rows.tolist(), facts[kind].onset.tolist(), strict=True)
    ]
    if not culprits:
        return {}
    ids, rows = _ids(congested), congested.rows
    free = ~np.isin(rows, [row for _, row, _ in culprits])
    own = _crowded(congested)
    found: dict[tuple[str, int], list[Ints]] = {}
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


def without(facts: Mapping[str, Facts], held_up: Mapping[tuple[str, int], Ints]) -> dict[str, Facts]:
    """The facts with the victims neither for nor against anything."""
    if not held_up:
        return dict(facts)
    congested, gone = facts[VICTIM], np.concatenate(list(held_up.values()))
    known = congested.known.copy()
    known[gone] = False
    keep = ~np.isin(congested.rows, gone)
    left = Facts(congested.groups, congested.rows[keep], congested.onset[keep], known)
    return {**facts, VICTIM: left}


def with_victims(case: Case, verdict: Verdict, held_up: Mapping[tuple[str, int], Ints], board: Board) -> Case:
    """The case, with the ports that the culprits among its symptoms hold up."""
    found = [
        held_up[kind, row]
        for kind in CULPRITS
        for row in verdict.explained.get(kind, np.empty(0, np.int64)).tolist()
        if (kind, row) in held_up
    ]
    if not found:
        return case
    rows = np.concatenate(found).tolist()
    names = [str(board.component(VICTIM, row)) for row in rows]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    text = f"victims: {len(names)} congested ports wait for it: {', '.join(names[:NAMED])}{more}"
    return replace(
        case,
        claims=case.claims | board.keys({VICTIM: rows}),
        evidence=(*case.evidence, Evidence(case.component, text, value=float(len(names)))),
        labels=case.labels | {"victims": str(len(names))},
    )


def _ids(facts: Facts) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Groups of rows that are in one of a domain each."""
    return {domain: ids for domain, ids in facts.groups.ids.items() if isinstance(ids, np.ndarray)}


def _crowded(congested: Facts) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Congested ports of whose leaf or rail most active ports are congested."""
    crowded = np.zeros(len(congested.rows), np.bool_)
    for domain in NEAR:
        ids = _ids(congested).get(domain)
        if ids is None:
            continue
        size = int(ids.max(initial=-1)) + 2
        active = np.bincount(ids[congested.known] + 1, minlength=size)
        shown = np.bincount(ids[congested.rows] + 1, minlength=size)
        mine = ids[congested.rows]
        crowded |= (mine >= 0) & (shown[mine + 1] >= SHARE * active[mine + 1])
    return crowded
