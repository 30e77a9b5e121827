"""Which flows lose packets, decided together: few packets a flow are many over a leaf. Pure, NumPy.

Method: docs/methods.md#pooled-losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.flow import USUAL_LOSS
from fabricmon.fleet.row_state import Bools, Floats
from fabricmon.topology.groups import Many

LEAST = 3.0
"""Lost probes of a part, at least; the same as of a flow (docs/methods.md#packet-loss)."""
RATE = 0.01
"""Chance that any part at all is taken for lossy in a window: Bonferroni over all of them (design choice)."""
ELSEWHERE = 3.0
"""Lost probes that a flow would show on average before it counts as clean inside of a lossy part: e^-3 is 5 %."""
PARTS = ("link", "nic", "leaf", "spine", "core", "plane", "network")
"""Domains of flows whose members are taken together, besides each flow by itself."""
MOST = 64
"""Lossy parts that are searched for, one after the other."""


class PooledLosses(NamedTuple):
    """bad: rows that lost packets in a lossy part; clean: rows that show no loss and are not in a lossy part, or had so
    many packets there that they would show it"""

    bad: Bools
    clean: Bools


class _LossyPart(NamedTuple):
    gain: float
    rows: NDArray[np.int64]
    share: float
    domain: str = ""


def pooled(lost: Floats, sent: Floats, many: Mapping[str, Many]) -> PooledLosses:
    """lost  float[turns, n], lost packets of each turn of the last minute
    sent  float[n], packets of all of it; rows without packets are neither bad nor clean
    many  domain -> groups of the rows
    """
    left = np.where(sent > 0, lost, 0.0)
    bad, clean = np.zeros(len(sent), np.bool_), sent > 0
    if not left.any():
        return PooledLosses(bad, clean)
    known = {domain: many[domain] for domain in PARTS if domain in many and len(many[domain].group)}
    packets = {domain: _per_group(groups, np.arange(len(sent)), sent) for domain, groups in known.items()}
    tests = int(clean.sum()) + sum(map(len, packets.values()))
    needed = log(max(tests, 1) / RATE)
    for _ in range(MOST):
        part = _best(left, sent, known, packets)
        if part is None or part.gain < needed:
            break
        bad[part.rows[left[:, part.rows].any(axis=0)]] = True
        clean[part.rows[sent[part.rows] * part.share < ELSEWHERE]] = False
        left[:, part.rows] = 0.0
        if part.domain == "leaf" and "network" in known:
            beside = _beside(left, part.rows, known["network"])
            clean[beside] = False
            left[:, beside] = 0.0
    return PooledLosses(bad, clean & ~bad)


def _beside(left: Floats, rows: NDArray[np.int64], networks: Many) -> NDArray[np.intp]:
    """The other flows of a lossy leaf's networks that lost something: where switches carry the packets of other leaves,
    it may have been there."""
    lost = np.flatnonzero(left.any(axis=0))
    _, mine = networks.groups_of(rows[rows < len(networks)])
    lost = lost[lost < len(networks)]
    at, theirs = networks.groups_of(lost)
    return np.unique(lost[at[np.isin(theirs, mine)]])


def _per_group(many: Many, rows: NDArray[np.intp], values: Floats) -> Floats:
    """Sum over some rows of their values, per group."""
    rows = rows[rows < len(many)]
    at, groups = many.groups_of(rows)
    return np.bincount(groups, values[rows][at], int(many.group.max(initial=-1)) + 1).astype(np.float64)


def _best(left: Floats, sent: Floats, many: Mapping[str, Many], packets: Mapping[str, Floats]) -> _LossyPart | None:
    """The part whose losses are the least likely to be usual ones; None where none has any.

    All packets of a part have one loss: where it is concentrated in a smaller part, that one is better. Losses in one
    turn only are a moment, no fault. Of parts with the same packets it is the last in PARTS.
    """
    rows = np.flatnonzero(left.any(axis=0))
    if not len(rows):
        return None
    gains = _gain(left[:, rows].sum(axis=0), sent[rows], (left[:, rows] > 0).sum(axis=0))
    at = int(np.argmax(gains))
    row = int(rows[at])
    best = _LossyPart(float(gains[at]), np.array([row]), float(left[:, row].sum() / sent[row]))
    for domain, groups in many.items():
        of_turns = np.array([_per_group(groups, rows, turn) for turn in left])
        lost = of_turns.sum(axis=0)
        gains = _gain(lost, packets[domain], (of_turns > 0).sum(axis=0))
        at = int(np.argmax(gains))
        if gains[at] and gains[at] >= best.gain:
            mine = groups.members(at)
            best = _LossyPart(float(gains[at]), mine[mine < len(sent)], float(lost[at] / packets[domain][at]), domain)
    return best if best.gain > 0 else None


def _gain(lost: Floats, sent: Floats, turns: NDArray[np.int64]) -> Floats:
    """Nats by which so many lost packets are more likely with their own share than with the usual one (Poisson); 0 for
    too few, or of one turn."""
    mean = np.maximum(sent, 1e-9) * USUAL_LOSS
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = lost * np.log(lost / mean) - (lost - mean)
    return np.asarray(np.where((lost >= LEAST) & (lost > mean) & (turns > 1), gain, 0.0))
