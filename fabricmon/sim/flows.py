"""Flows between ports: their switches and cables, and the share of their packets that is lost. Pure.

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
from fabricmon.sim.traffic import TrafficJob

Ints = NDArray[np.intp]
Floats = NDArray[np.float64]

SPRAYED = 16
"""Paths simulated for a flow whose packets are sprayed."""
STEADY_PEERS = 4
"""Peers of a port that no job uses."""


@dataclass(frozen=True)
class Gray:
    """A switch that loses a share `ratio` of the packets of a share `pairs` of its pairs of ports."""

    switch: int
    ratio: float
    pairs: float = 1.0


class Flows:
    """Flow f sends from port `source[f]` to port `target[f]`, the share `weight[f]` of the source's traffic.

    job     int[flows]: number of its job, -1 for steady traffic
    words   per flow: its path's label, "" where it is sprayed or has none
    loss    float64[flows]: share of its packets that is lost; 1 where no path leads to the target
    """

    def __init__(self, layout: Layout, jobs: Iterable[TrafficJob], seed: int, spray: bool = False) -> None:
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
        self._hop_path, self._hop_switch, self._hop_in, self._hop_out = np.zeros((4, 0), np.intp)
        self._paths: Ints = np.ones(len(pairs), np.intp)

    def __len__(self) -> int:
        return len(self.source)

    # --- routes

    def route(
        self, dead_switches: Iterable[int] = (), dead_cables: Iterable[int] = (), named: bool = True
    ) -> bool:
        """Route every flow around dead switches and cables. Returns whether any label changed; `named`: make labels."""
        dead = frozenset(dead_switches), frozenset(dead_cables)
        if self._routed and dead == self._dead:
            return False
        self._dead, self._routed = dead, True
        before, found = self.words, Paths(self._layout, *dead)
        every = [self._ways(found, *ends) for ends in zip(self.source.tolist(), self.target.tolist(), strict=True)]
        show = named and not self._spray
        self.words = [found.words(ways[-1]) if show and ways else "" for ways in every]
        self._path_flow = np.repeat(np.arange(len(every)), [len(ways) for ways in every])
        hops: list[tuple[int, int, int, int]] = []
        for number, (flow, path) in enumerate((f, path) for f, ways in enumerate(every) for path in ways):
            ends = int(self._layout.cable[self.source[flow]]), int(self._layout.cable[self.target[flow]])
            cables = (ends[0], *path.cables, ends[1])
            hops += zip([number] * len(path.switches), path.switches, cables[:-1], cables[1:], strict=True)
        self._hop_path, self._hop_switch, self._hop_in, self._hop_out = np.array(hops, np.intp).reshape(-1, 4).T
        counted = np.bincount(self._path_flow, minlength=len(self))
        known = (self._layout.leaf[self.source] >= 0) & (self._layout.leaf[self.target] >= 0)
        self.broken = known & (counted == 0)
        self._paths = np.maximum(1, counted)
        return self.words != before

    def _ways(self, paths: Paths, source: int, target: int) -> list[Path]:
        """The paths of a flow's packets; none where its ports are on no switch, or no path joins these."""
        a, b = int(self._layout.leaf[source]), int(self._layout.leaf[target])
        lanes = range(SPRAYED if self._spray else 1) if min(a, b) >= 0 else ()
        found = [paths.path(a, b, mix(self._seed, source, target, lane)) for lane in lanes]
        return [path for path in found if path is not None]

    # --- loss

    @property
    def routed(self) -> bool:
        return self._routed

    def lose(self, grays: Iterable[Gray], cables: dict[int, float], ports: dict[int, float]) -> None:
        """Compute each flow's loss: of gray switches, of cables (number -> ratio), of ports (row -> ratio)."""
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


def _pairs(layout: Layout, jobs: tuple[TrafficJob, ...], seed: int) -> list[tuple[int, int, float, int]]:
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
    """Compute ports in host order by rail and port number, which send to each other."""
    number = {host: at for at, host in enumerate(layout.hosts)}
    rings: dict[tuple[int, int], list[int]] = defaultdict(list)
    for host in hosts:
        for row in layout.host_rows(number[host]).tolist():
            if not layout.storage[row]:
                rings[int(layout.rail[row]), layout.numbers[row]].append(row)
    return rings


def _strides(size: int, peers: int, pattern: str, seed: int) -> list[int]:
    """Distances of each port's peers around the ring, all different."""
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
    """Whether each hop is between a bad pair of ports, given by their cables, in either direction. The bad pairs are
    spread over the ports, as with a faulty crossbar."""
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
