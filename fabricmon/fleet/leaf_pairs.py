"""What probes show between two leaves, or within one: round trips and losses of all their flows. Pure, NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.row_state import Floats
from fabricmon.fleet.table import Table
from fabricmon.fleet.tracks import FlowTracks
from fabricmon.topology.groups import Domains

Rows = NDArray[np.intp]


class LeafPair(NamedTuple):
    """Flows from one leaf to another, or within it, of one rail.

    flows     that have probes in the last minute, `answered` of them in the newest window
    sent      probes of the last minute, `lost` of them without an answer
    rtt       median of the flows' median round trips in the newest window, seconds, NaN unknown
    slowest   largest of those medians
    """

    rail: str
    near: str
    far: str
    flows: int
    answered: int
    sent: int
    lost: int
    rtt: float
    slowest: float


@dataclass(frozen=True, slots=True)
class LeafPairs:
    """All pairs with probes in the last minute, the worst first: by the share of lost probes, then by the slowest flow.
    near, far: numbers of leaves in `leaves`; rail: in `rails`."""

    leaves: tuple[str, ...] = ()
    rails: tuple[str, ...] = ()
    rail: Rows = field(default_factory=lambda: np.zeros(0, np.intp))
    near: Rows = field(default_factory=lambda: np.zeros(0, np.intp))
    far: Rows = field(default_factory=lambda: np.zeros(0, np.intp))
    flows: Rows = field(default_factory=lambda: np.zeros(0, np.intp))
    answered: Rows = field(default_factory=lambda: np.zeros(0, np.intp))
    sent: Floats = field(default_factory=lambda: np.zeros(0))
    lost: Floats = field(default_factory=lambda: np.zeros(0))
    rtt: Floats = field(default_factory=lambda: np.zeros(0))
    slowest: Floats = field(default_factory=lambda: np.zeros(0))

    def of_rail(self, rail: str) -> Rows:
        return np.flatnonzero(self.rail == self.rails.index(rail)) if rail in self.rails else np.zeros(0, np.intp)

    def pair(self, at: int) -> LeafPair:
        return LeafPair(
            self.rails[self.rail[at]], self.leaves[self.near[at]], self.leaves[self.far[at]], int(self.flows[at]),
            int(self.answered[at]), int(self.sent[at]), int(self.lost[at]), float(self.rtt[at]),
            float(self.slowest[at]),
        )  # fmt: skip


class ProbedFlows(NamedTuple):
    """Copies of what the flows between known leaves show: where a thread of its own may read them.

    near, far  leaf of each flow, rail: its number in `rails`
    """

    leaves: tuple[str, ...]
    rails: tuple[str, ...]
    rail: Rows
    near: Rows
    far: Rows
    sent: Floats
    lost: Floats
    rtt: Floats


def probed_flows(flows: Table, ports: Table) -> ProbedFlows | None:
    """None without any. Flows whose leaves are not known are left out."""
    places, tracks = ports.domains, flows.tracks
    if places is None or not isinstance(tracks, FlowTracks) or not len(places.ids.get("leaf", ())):
        return None
    n, probes, leaf = flows.n, tracks.probes, places.ids["leaf"]
    ends = probes.ends(flows, ports)
    near, far = _of(leaf, ends.near[:n]), _of(leaf, ends.far[:n])
    sent = probes.sent[:, :n].sum(axis=0)
    rows = np.flatnonzero((near >= 0) & (far >= 0) & (sent > 0) & flows.present[:n])
    if not len(rows):
        return None
    rails, rail = _rails(places, ends.near[rows])
    return ProbedFlows(
        tuple(places.names["leaf"]), rails, rail, near[rows], far[rows], sent[rows].astype(np.float64),
        probes.lost[:, :n].sum(axis=0)[rows].astype(np.float64), probes.rtts[0, rows],
    )  # fmt: skip


def leaf_pairs(flows: ProbedFlows | None) -> LeafPairs:
    """Of each pair that has flows; of 640,000 it takes some tenths of a second."""
    if flows is None:
        return LeafPairs()
    leaves, rtt = len(flows.leaves), flows.rtt
    key, pair = np.unique((flows.rail * leaves + flows.near) * leaves + flows.far, return_inverse=True)
    size = len(key)
    order = np.lexsort((rtt, pair))  # by pair; unknown round trips last
    first = np.searchsorted(pair[order], np.arange(size))
    answered = np.bincount(pair[np.isfinite(rtt)], minlength=size)
    last, half = np.maximum(answered - 1, 0), answered // 2
    middle = (rtt[order[first + last // 2]] + rtt[order[first + half]]) / 2
    slowest = rtt[order[first + last]]
    sent, lost = (np.bincount(pair, of, size).astype(np.float64) for of in (flows.sent, flows.lost))
    worst = np.lexsort((-np.where(np.isnan(slowest), -1.0, slowest), -lost / sent))
    key, each = key[worst], np.bincount(pair, minlength=size)
    return LeafPairs(
        flows.leaves, flows.rails, key // leaves**2, key // leaves % leaves, key % leaves, each[worst],
        answered[worst], sent[worst], lost[worst], middle[worst], slowest[worst],
    )  # fmt: skip


def _of(groups: NDArray[np.int32], rows: Rows) -> NDArray[np.int64]:
    """The group of each PORT row; -1 unknown."""
    known = (rows >= 0) & (rows < len(groups))
    return np.where(known, groups[np.where(known, rows, 0)], -1).astype(np.int64)


def _rails(places: Domains, rows: Rows) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names of the rails of all units, and the number of each row's; those without a rail have the name ""."""
    ids = places.ids.get("rail", np.zeros(0, np.int32))
    group = _of(ids, rows) if len(ids) else np.full(len(rows), -1)
    about, names = places.about.get("rail", []), places.names.get("rail", [])
    named = [*(found.get("rail", name) for found, name in zip(about, names, strict=True)), ""]
    rails = tuple(sorted(set(named)))
    number = np.array([rails.index(name) for name in named], np.int64)
    return rails, number[group]
