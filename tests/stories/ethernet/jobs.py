"""Training jobs, and the flows between their hosts: synchronous, so the slowest flow of a job sets its speed."""

from __future__ import annotations

import numpy as np

from tests.stories.ethernet.clusters import Cluster
from tests.stories.ethernet.state import Flags, Floats, Ints, State

FLOWS_OF_A_PORT = 8
GIVE_UP_S, RESTART_S = 35.0, 60.0
"""A job whose flows are cut for so long ends; the scheduler starts it again so long after."""


class Jobs:
    """Arrays are [jobs] or [flows]; a flow's source and target are (host, port).

    A port sends half of its flows to the next host of its job (a ring), the others to random ones (experts).
    """

    def __init__(self, cluster: Cluster, dead: Flags, rng: np.random.Generator) -> None:
        self._rng, self._dead = rng, dead
        self._ports = [port for port in range(cluster.ports) if port not in cluster.storage]
        self._spines, self._bonded = cluster.spines, cluster.bonded
        self.hosts: list[list[int]] = []
        self.of_host: Ints = np.full(cluster.hosts, -1)
        first = 0
        for number, size in enumerate(cluster.job_sizes):
            self.hosts.append(list(range(first, first + size)))
            self.of_host[first : first + size] = number
            first += size
        count = len(self.hosts)
        self._iteration: Floats = rng.uniform(7, 16, count)
        self._level: Floats = rng.uniform(0.4, 0.62, count)
        self._phase: Floats = rng.uniform(0, 6, count)
        self.running: Flags = np.ones(count, bool)
        self.speed: Floats = np.ones(count)
        self.stalled: Floats = np.zeros(count)
        """Seconds for which a flow of the job has been cut."""
        self._restart: Floats = np.full(count, np.inf)
        self._connect()

    def _connect(self) -> None:
        source: list[tuple[int, int]] = []
        target: list[tuple[int, int]] = []
        job: list[int] = []
        for number, members in enumerate(self.hosts):
            alive = [host for host in members if not self._dead[host]]
            if len(alive) < 2:
                continue
            shift = self._rng.integers(len(alive) - 1, size=FLOWS_OF_A_PORT)
            for place, host in enumerate(alive):
                for port in self._ports:
                    for flow in range(FLOWS_OF_A_PORT):
                        further = 0 if flow < FLOWS_OF_A_PORT // 2 else int(shift[flow])
                        source.append((host, port))
                        target.append((alive[(place + 1 + further) % len(alive)], port))
                        job.append(number)
        self.source: Ints = np.array(source, int).reshape(-1, 2)
        self.target: Ints = np.array(target, int).reshape(-1, 2)
        self.job: Ints = np.array(job, int)
        self.spine: Ints = self._rng.integers(0, self._spines, len(job))
        self.leg: Ints = self._rng.integers(0, 2, len(job))
        """Leg of its bond that a flow leaves by while both are up."""

    def activity(self, time: float) -> Floats:
        """Share of the links' rate that each job wants to use: computing and exchange take turns."""
        turn = 0.28 * np.sin(2 * np.pi * (time / self._iteration) + self._phase)
        noise = self._rng.normal(0, 0.05, len(self.hosts))
        return (self._level + turn + noise).clip(0.05, 0.95) * self.running

    def turn(self, number: int, running: bool) -> None:
        """Start or stop a job as its user does."""
        if self.running[number] != running:
            self.running[number] = running
            self.speed[number], self.stalled[number], self._restart[number] = 1, 0, np.inf

    def drain(self) -> None:
        """End all jobs for good."""
        self.hosts = []
        self.of_host[:] = -1
        self.source = self.target = np.zeros((0, 2), int)
        self.job = self.spine = self.leg = np.zeros(0, int)

    def wait(self, cut: Flags, step: float) -> Flags:
        """Note which jobs have a cut flow; returns those that give up now."""
        waiting = np.bincount(self.job[cut], minlength=len(self.stalled)) > 0
        self.stalled = np.where(waiting, self.stalled + step, 0)
        return (self.stalled > GIVE_UP_S) & self.running

    def proceed(self, slowest: Floats) -> None:
        """Approach the speed of the slowest flow; a job that has stalled stands."""
        self.speed = 0.4 * self.speed + 0.6 * np.where(self.stalled > 5, 0, slowest)

    def end(self, given_up: Flags, time: float) -> None:
        self.running[given_up] = False
        self._restart[given_up] = time + RESTART_S

    def restart(self, time: float, state: State, links: Flags) -> None:
        """Start one job that is due, without hosts that are dead, hang or have a port without link."""
        for number in np.flatnonzero(~self.running & (time >= self._restart)):
            members = self.hosts[number]
            unfit = {
                host
                for host in members
                if state.dead[host] or (not self._bonded and not links[host].all()) or state.hangs[host].any()
            }
            if len(members) - len(unfit) >= 2:
                self.hosts[number] = [host for host in members if host not in unfit]
                self.of_host[list(unfit)] = -1
                self.running[number] = True
                self.stalled[number], self.speed[number], self._restart[number] = 0, 1, np.inf
                self._connect()
                return
