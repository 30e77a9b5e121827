"""Who sends to whom, over which switches and cables, and what share of it is lost on the way. Pure.

A port of a job sends to some peers of its own rail: its neighbours in a ring, and others at growing strides, so that
every port has as many senders as receivers. A flow takes one path (ECMP by hash), or all of them in turn where the
fabric sprays packets over them (adaptive routing).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricmon.sim.layout import Layout
from fabricmon.sim.paths import Path, Paths, mix
from fabricmon.sim.traffic import Job

Ints = NDArray[np.intp]
Floats = NDArray[np.float64]

SPRAYED = 16
"""Paths that stand for all of a flow whose packets are sprayed."""
STEADY_PEERS = 4
"""Peers of a port that no job uses."""


@dataclass(frozen=True)
class Gray:
    """A switch that loses a share `ratio` of the packets of a share `pairs` of its pairs of ports."""

    switch: int
    ratio: float
    pairs: float = 1.0


class Flows:
    """Flow f sends from port `source[f]` to port `target[f]`, the share `weight[f]` of what the source sends.

    job     int[flows]: number of the job it belongs to, -1 for steady traffic
    words   per flow: its path's label, "" where it is sprayed or has none
    loss    float64[flows]: share of its packets that is lost; 1 where no path leads to the target
    """

    def __init__(self, layout: Layout, jobs: Iterable[Job], seed: int, spray: bool = False) -> None:
        self._layout, self._seed, self._spray = layout, seed, spray
        pairs = _pairs(layout, tuple(jobs), seed)
        self.source: Ints = np.array([p[0] for p in pairs], np.intp)
        self.target: Ints = np.array([p[1] for p in pairs], np.intp)
        self.weight: Floats = np.array([p[2] for p in pairs], float)
        self.job: Ints = np.array([p[3] for p in pairs], np.intp)
        self.words: list[str] = []
        self.loss: Floats = np.zeros(len(pairs))
        self.broken: NDArray[np.bool_] = np.zeros(len(pairs), np.bool_)
        self._dead: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        self._routed = False
        self._path_flow: Ints = np.zeros(0, np.intp)
        self._hop_path: Ints = np.zeros(0, np.intp)
        self._hop_switch: Ints = np.zeros(0, np.intp)
        self._hop_in: Ints = np.zeros(0, np.intp)
        self._hop_out: Ints = np.zeros(0, np.intp)
        self._paths: Ints = np.ones(len(pairs), np.intp)

    def __len__(self) -> int:
        return len(self.source)

    # --- routes

    def route(
        self, dead_switches: Iterable[int] = (), dead_cables: Iterable[int] = (), named: bool = True
    ) -> bool:
        """Lay every flow's path around what is dead. Returns whether any label changed; `named`: make labels at all."""
        dead = frozenset(dead_switches), frozenset(dead_cables)
        if self._routed and dead == self._dead:
            return False
        self._dead, self._routed = dead, True
        layout, before = self._layout, self.words
        paths = Paths(layout, *dead)
        lanes = SPRAYED if self._spray else 1
        flow_of: list[int] = []
        hop_flow: list[int] = []
        hop_switch: list[int] = []
        hop_in: list[int] = []
        hop_out: list[int] = []
        self.words = []
        for flow, (source, target) in enumerate(zip(self.source.tolist(), self.target.tolist(), strict=True)):
            word = ""
            for lane in range(lanes):
                found = self._path(paths, source, target, lane)
                if found is None:
                    break
                word = paths.words(found) if named and not self._spray else ""
                cables = (int(layout.cable[source]), *found.cables, int(layout.cable[target]))
                number = len(flow_of)
                flow_of.append(flow)
                for at, switch in enumerate(found.switches):
                    hop_flow.append(number)
                    hop_switch.append(switch)
                    hop_in.append(cables[at])
                    hop_out.append(cables[at + 1])
            self.words.append(word)
        self._path_flow = np.array(flow_of, np.intp)
        self._hop_path = np.array(hop_flow, np.intp)
        self._hop_switch = np.array(hop_switch, np.intp)
        self._hop_in = np.array(hop_in, np.intp)
        self._hop_out = np.array(hop_out, np.intp)
        counted = np.bincount(self._path_flow, minlength=len(self))
        known = (self._layout.leaf[self.source] >= 0) & (self._layout.leaf[self.target] >= 0)
        self.broken = known & (counted == 0)
        self._paths = np.maximum(1, counted)
        return self.words != before

    def _path(self, paths: Paths, source: int, target: int, lane: int) -> Path | None:
        a, b = int(self._layout.leaf[source]), int(self._layout.leaf[target])
        if a < 0 or b < 0:
            return None
        return paths.path(a, b, mix(self._seed, source, target, lane))

    # --- loss

    @property
    def routed(self) -> bool:
        return self._routed

    def lose(self, grays: Iterable[Gray], cables: dict[int, float], ports: dict[int, float]) -> None:
        """Work out each flow's loss: of gray switches, of cables (number -> ratio), of ports (row -> ratio)."""
        kept = np.zeros(len(self._path_flow))  # log of the share that arrives, per path
        for gray in grays:
            at = np.flatnonzero(self._hop_switch == gray.switch)
            if gray.pairs < 1:
                at = at[_chosen(self._hop_in[at], self._hop_out[at], gray.switch, self._seed, gray.pairs)]
            np.add.at(kept, self._hop_path[at], np.log1p(-min(gray.ratio, 1 - 1e-12)))
        for cable, ratio in cables.items():
            # a cable between two switches leaves one of them; an adapter's leaves or enters one
            first = np.flatnonzero(self._hop_out == cable)
            entered = np.flatnonzero((self._hop_in == cable) & self._starts())
            for at in (first, entered):
                np.add.at(kept, self._hop_path[at], np.log1p(-min(ratio, 1 - 1e-12)))
        arrived = np.bincount(self._path_flow, np.exp(kept), len(self)) / self._paths
        arrived[np.bincount(self._path_flow, minlength=len(self)) == 0] = 1.0
        for row, ratio in ports.items():
            arrived[(self.source == row) | (self.target == row)] *= 1 - ratio
        self.loss = np.where(self.broken, 1.0, 1 - arrived)

    def _starts(self) -> NDArray[np.bool_]:
        """Hops that are the first of their path."""
        if not len(self._hop_path):
            return np.zeros(0, np.bool_)
        return np.concatenate([[True], self._hop_path[1:] != self._hop_path[:-1]])

    def through(self, switch: int) -> Ints:
        """Flows that may pass a switch."""
        return np.unique(self._path_flow[self._hop_path[self._hop_switch == switch]])

    def crossing(self, leaf: int) -> NDArray[np.bool_]:
        """bool[ports]: ports below a leaf that send to a port elsewhere."""
        found = np.zeros(self._layout.ports, np.bool_)
        out = (self._layout.leaf[self.source] == leaf) & (self._layout.leaf[self.target] != leaf)
        found[self.source[out]] = True
        return found


def _pairs(layout: Layout, jobs: tuple[Job, ...], seed: int) -> list[tuple[int, int, float, int]]:
    """(source, target, weight, job) of every flow, ordered by source."""
    found: list[tuple[int, int, float, int]] = []
    taken: set[str] = set()
    for number, job in enumerate(jobs):
        taken |= set(job.hosts)
        if job.pattern == "idle":
            continue
        for ring in _rings(layout, job.hosts).values():
            found += _circulant(ring, _strides(len(ring), job.peers, job.pattern, mix(seed, number)), number)
    rest = [host for host in layout.hosts if host not in taken]
    for ring in _rings(layout, rest).values():
        found += _circulant(ring, _strides(len(ring), STEADY_PEERS, "all_to_all", mix(seed, len(jobs))), -1)
    return sorted(found)


def _rings(layout: Layout, hosts: Iterable[str]) -> dict[tuple[int, int], list[int]]:
    """Compute ports in host order by rail and port number: who talks to whom."""
    number = {host: at for at, host in enumerate(layout.hosts)}
    rings: dict[tuple[int, int], list[int]] = defaultdict(list)
    for host in hosts:
        for row in layout.host_rows(number[host]).tolist():
            if not layout.storage[row]:
                rings[int(layout.rail[row]), layout.numbers[row]].append(row)
    return rings


def _strides(size: int, peers: int, pattern: str, seed: int) -> list[int]:
    """How far around the ring each port's peers are, all different."""
    most = min(peers, size - 1)
    if most < 1:
        return []
    if pattern in ("ring", "bursts"):
        if most == size - 1:
            return [*range(1, size)]
        return [stride for n in range(1, size) for stride in (n, size - n)][:most]
    if pattern == "tree":
        powers = [1 << n for n in range(size.bit_length()) if 1 << n < size]
        return (powers + [n for n in range(1, size) if n not in powers])[:most]
    return (np.random.default_rng(seed).permutation(size - 1)[:most] + 1).tolist()


def _circulant(ring: list[int], strides: list[int], job: int) -> list[tuple[int, int, float, int]]:
    size, steps = len(ring), tuple(dict.fromkeys(strides))
    return [(row, ring[(at + step) % size], 1 / len(steps), job) for at, row in enumerate(ring) for step in steps]


def _chosen(one: Ints, other: Ints, switch: int, seed: int, share: float) -> NDArray[np.bool_]:
    """Which hops are between a pair of ports that is bad, both ways. Ports are told by their cables.

    A broken crossbar hits every port alike: the pairs are taken in an order that spreads them over the ports.
    """
    hops = list(zip(np.minimum(one, other).tolist(), np.maximum(one, other).tolist(), strict=True))
    rest = sorted(set(hops), key=lambda pair: mix(seed, switch, *pair))
    bad: set[tuple[int, int]] = set()
    hits: Counter[int] = Counter()
    for _ in range(round(share * len(rest))):
        pair = min(rest, key=lambda pair: max(hits[pair[0]], hits[pair[1]]) * len(hops) + hits[pair[0]] + hits[pair[1]])
        rest.remove(pair)
        bad.add(pair)
        hits.update(pair)
    return np.array([hop in bad for hop in hops], np.bool_)
