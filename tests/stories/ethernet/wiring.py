"""Which leaf each leg is connected to, and the cable plan that a person would write of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricmon.sources import load
from fabricmon.topology.graph import Graph
from tests.stories.ethernet.clusters import Cluster


class Wiring:
    """Leaves by number. Arrays are [hosts, legs].

    names  name of each leaf, by its number
    leaf   number of the leaf
    port   port of that leaf, counted from 1
    """

    def __init__(self, cluster: Cluster) -> None:
        self.names: list[str] = []
        self.leaf: NDArray[np.int64] = np.zeros((cluster.hosts, cluster.legs), int)
        self.port: NDArray[np.int64] = np.zeros((cluster.hosts, cluster.legs), int)
        used: dict[str, int] = {}
        for host in range(cluster.hosts):
            for leg in range(cluster.legs):
                name = cluster.leaf_of(host, leg)
                if name not in used:
                    self.names.append(name)
                used[name] = used.get(name, 0) + 1
                self.leaf[host, leg] = self.names.index(name)
                self.port[host, leg] = used[name]

    def number(self, leaf: str) -> int:
        return self.names.index(leaf)


def cable_plan(cluster: Cluster, folder: Path, *, wrong: float = 0.0, hosts_of_rack: int = 0) -> Graph:
    """The topology that a cable plan of this cluster gives.

    wrong          share of the cables that are filed at each other's switch port
    hosts_of_rack  hosts of a rack; 0: the plan names no racks
    """
    path = folder / "plan.yaml"
    path.write_text("\n".join(_lines(cluster, wrong, hosts_of_rack)) + "\n")
    return load(str(path))


def _lines(cluster: Cluster, wrong: float, hosts_of_rack: int) -> list[str]:
    wiring = Wiring(cluster)
    lines = ["fabric: x", "switches:"]
    lines += [f"  {name}: {{level: 0}}" for name in wiring.names]
    lines += [f"  spine-{spine + 1}: {{level: 1}}" for spine in range(cluster.spines)]
    lines.append("hosts:")
    for host in range(cluster.hosts):
        rack = f", rack: rack{host // hosts_of_rack + 1}" if hosts_of_rack else ""
        lines.append(f"  {cluster.node(host)}: {{adapters: [{', '.join(cluster.leg_names(host))}]{rack}}}")
    lines.append("links:")
    for (host, leg), (leaf, port) in _filed(cluster, wiring, wrong).items():
        ends = f"from: {cluster.node(host)}/{cluster.leg_names(host)[leg]}, to: {leaf}/{port}"
        lines.append(f"  - {{{ends}, rate: {int(cluster.rate(host) * 8 / 1e9)}Gb/s}}")
    for number, name in enumerate(wiring.names):
        for spine in range(cluster.spines):
            lines.append(f"  - {{from: {name}/{100 + spine}, to: spine-{spine + 1}/{number + 1}, rate: 800Gb/s}}")
    return lines


def _filed(cluster: Cluster, wiring: Wiring, wrong: float) -> dict[tuple[int, int], tuple[str, int]]:
    """(host, leg) -> the switch port that the plan has for it."""
    ends = [(host, leg) for host in range(cluster.hosts) for leg in range(cluster.legs)]
    ports = {end: (wiring.names[wiring.leaf[end]], int(wiring.port[end])) for end in ends}
    if not wrong:
        return ports
    rng = np.random.default_rng(3)
    picked = [ends[index] for index in rng.choice(len(ends), int(len(ends) * wrong), replace=False)]
    swapped = [ports[end] for end in picked]
    rng.shuffle(swapped)
    return ports | {end: (str(leaf), int(port)) for end, (leaf, port) in zip(picked, swapped, strict=True)}
