"""The way of each flow at this moment: which leg, leaf and spine it takes, and whether packets get through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.stories.ethernet.clusters import Cluster
from tests.stories.ethernet.jobs import Jobs
from tests.stories.ethernet.state import Flags, Floats, Ints, State
from tests.stories.ethernet.wiring import Wiring


@dataclass(frozen=True)
class Routes:
    """Arrays are [flows].

    source, target            host
    source_port, target_port  RDMA port of that host
    source_leg, target_leg    leg of that host
    source_leaf, target_leaf  number of the leaf of that leg
    spine, job                number of the spine and of the job
    running                   the flow's job runs
    alive                     it runs, and both ends have a link and an adapter that works
    """

    source: Ints
    target: Ints
    source_port: Ints
    target_port: Ints
    source_leg: Ints
    target_leg: Ints
    source_leaf: Ints
    target_leaf: Ints
    spine: Ints
    job: Ints
    running: Flags
    alive: Flags

    @property
    def cut(self) -> Flags:
        return self.running & ~self.alive

    def loss(self, state: State, activity: Floats) -> Floats:
        """Share of each flow's packets that are lost."""
        above = state.loss_to_spine[self.source_leaf, self.spine] + state.loss_from_spine[self.spine, self.target_leaf]
        loss = (
            np.where(self.source_leaf != self.target_leaf, above, 0)
            + state.loss_to_switch[self.source, self.source_leg]
            + state.loss_from_switch[self.target, self.target_leg]
        )
        load = activity[self.job]
        return loss + state.lossy_class[self.source] * load + state.lossy_class[self.target] * load * 0.5


def routes(
    cluster: Cluster, wiring: Wiring, jobs: Jobs, state: State, links: Flags, rng: np.random.Generator
) -> Routes:
    """Where the flows go; those over a spine that is down are hashed to another first."""
    source, source_port = jobs.source[:, 0], jobs.source[:, 1]
    target, target_port = jobs.target[:, 0], jobs.target[:, 1]
    if cluster.bonded:
        leg = _leg_up(links, source, source_port, jobs.leg)
        source_leg = source_port * 2 + leg
        # A bonded receiver is reached by the leg of the sender's plane while that is up.
        target_leg = target_port * 2 + _leg_up(links, target, target_port, leg)
    else:
        source_leg, target_leg = source_port, target_port
    source_leaf, target_leaf = wiring.leaf[source, source_leg], wiring.leaf[target, target_leg]
    _avoid_dead_spines(jobs, state, source_leaf != target_leaf, rng)
    running = jobs.running[jobs.job]
    ends_up = links[source, source_leg] & links[target, target_leg]
    works = ~state.hangs[source, source_port] & ~state.hangs[target, target_port]
    return Routes(
        source, target, source_port, target_port, source_leg, target_leg, source_leaf, target_leaf,
        spine=jobs.spine.copy(), job=jobs.job, running=running, alive=running & ends_up & works,
    )  # fmt: skip


def _leg_up(links: Flags, host: Ints, port: Ints, leg: Ints) -> Ints:
    """The wanted leg of each bond, or the other one where it has no link."""
    return np.where(links[host, port * 2 + leg], leg, leg ^ 1)


def _avoid_dead_spines(jobs: Jobs, state: State, above: Flags, rng: np.random.Generator) -> None:
    alive = np.flatnonzero(state.spine_up)
    for flow in np.flatnonzero(above & ~state.spine_up[jobs.spine]):
        jobs.spine[flow] = alive[rng.integers(len(alive))]
