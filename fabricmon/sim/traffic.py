"""Jobs as load on ports over time. Pure.

Training goes in iterations: communication at a high rate, then computing with little or none. The load of a port is a
train of pulses, and its bytes between two moments are that train's integral, independent of the polling interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fabricmon.sim.layout import Layout

Floats = NDArray[np.float64]

ITERATION = 8.0
"""Seconds of one training step, as in the scenario catalogue."""
SWELL, SWELL_PERIOD = 0.3, 30.0
"""Amplitude of steady traffic around its mean, as a share, and its period in seconds; each port in its own phase."""


@dataclass(frozen=True)
class Load:
    """A train of pulses on one class of ports.

    period  seconds from pulse to pulse
    busy    seconds of a pulse
    peak    share of the line rate during a pulse, floor between them
    stall   seconds at the start of each pulse in which a port mostly waits (all ports send at once), and
    depth   the share of those seconds that it waits
    """

    period: float = ITERATION
    busy: float = ITERATION * 0.6
    peak: float = 0.8
    floor: float = 0.02
    stall: float = 0.0
    depth: float = 0.0


PATTERNS: dict[str, Load] = {
    "ring": Load(),
    "tree": Load(busy=ITERATION * 0.45, peak=0.7),
    "all_to_all": Load(busy=ITERATION * 0.5, peak=0.9, stall=0.6, depth=0.5),
    "bursts": Load(busy=ITERATION * 0.7, peak=0.85, stall=1.0, depth=0.97),
    "idle": Load(busy=0.0, peak=0.0, floor=0.0),
}
"""By the name of a job's pattern. "bursts": each step begins with a second in which every port waits."""


@dataclass(frozen=True)
class TrafficJob:
    """One job on some hosts.

    hosts             names
    pattern           key of PATTERNS
    starts, ends      seconds of the simulation
    scale             multiplies the pattern's rates
    checkpoint_every  seconds between two checkpoints, 0 for none: all hosts write to storage at line rate for
    checkpoint_lasts  seconds, and compute ports are idle meanwhile
    peers             ports that each port sends to; neighbours in a ring, strided ones in a tree, random for all_to_all
    together          a dead peer stalls all of the job, and ends it when its queue pairs fail; else the other transfers
                      go on
    """

    name: str
    hosts: tuple[str, ...]
    pattern: str = "ring"
    starts: float = 0.0
    ends: float = math.inf
    scale: float = 1.0
    checkpoint_every: float = 0.0
    checkpoint_lasts: float = 90.0
    peers: int = 2
    together: bool = False

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise ValueError(f"job {self.name}: pattern is one of {', '.join(PATTERNS)}, got {self.pattern!r}")
        if self.peers < 1:
            raise ValueError(f"job {self.name}: a port has at least one peer, got {self.peers}")
        if self.checkpoint_every and self.checkpoint_lasts >= self.checkpoint_every:
            raise ValueError(f"job {self.name}: a checkpoint ends before the next begins")

    def running(self, now: float) -> bool:
        return self.starts <= now < self.ends

    def saving(self, now: float) -> bool:
        """A checkpoint is being written; the first begins one interval after the start."""
        since = now - self.starts
        return bool(self.checkpoint_every) and since >= self.checkpoint_every and (
            since % self.checkpoint_every < self.checkpoint_lasts
        )

    def next(self, now: float) -> float:
        """Time of the job's next change after `now`."""
        if now < self.starts:
            return self.starts
        if now >= self.ends:
            return math.inf
        if not self.checkpoint_every:
            return self.ends
        since = now - self.starts
        turn = math.floor(since / self.checkpoint_every) * self.checkpoint_every
        begins = turn + self.checkpoint_every
        turns = (turn + self.checkpoint_lasts if turn else math.inf, begins, begins + self.checkpoint_lasts)
        changes = (self.starts + at for at in turns)  # rounded: the nearest may be `now` itself
        return min([self.ends, *(at for at in changes if at > now)])


def place(layout: Layout, sizes: Sequence[int], seed: int, spare: int = 0) -> list[tuple[str, ...]]:
    """Hosts for jobs of these sizes, drawn without overlap by the seed; the first `spare` hosts are left out.

    As with schedulers, a job takes consecutive free hosts from a random start. ValueError where the cluster is too
    small.
    """
    free = list(range(spare, len(layout.hosts)))
    if sum(sizes) > len(free):
        raise ValueError(f"jobs of {sum(sizes)} hosts do not fit {len(free)} hosts")
    random = np.random.default_rng(seed)
    placed: list[tuple[str, ...]] = []
    for size in sizes:
        start = int(random.integers(0, len(free)))
        picked = [free[(start + at) % len(free)] for at in range(size)]
        free = [host for host in free if host not in set(picked)]
        placed.append(tuple(layout.hosts[host] for host in sorted(picked)))
    return placed


@dataclass
class Traffic:
    """The load of every port at one time, and its integrals.

    jobs     all of them; those that run set the load of their hosts' ports
    steady   mean share of the line rate on ports that no job uses, 0 for idle
    started  rows of compute ports whose job began at the last `update`
    version  raised whenever any load changed
    """

    layout: Layout
    seed: int = 1
    steady: float = 0.45
    jobs: tuple[TrafficJob, ...] = ()
    started: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    version: int = 0

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        ports = self.layout.ports
        draw = random.normal(self.steady, 0.05, ports) if self.steady else np.zeros(ports)
        self._own: Floats = np.clip(draw, 0.02 if self.steady else 0.0, 0.95)
        self._own[self.layout.storage] *= 0.1
        self._swell = random.uniform(0, 1, ports)
        self._unlike = random.normal(1.0, 0.01, ports)
        self._rows = {job.name: self._rows_of(job) for job in self.jobs}
        self._running: dict[str, tuple[bool, bool]] = {}
        self._steady = np.ones(ports, np.bool_)
        self._period, self._busy, self._phase = np.ones(ports), np.zeros(ports), np.zeros(ports)
        self._peak, self._floor = np.zeros(ports), np.zeros(ports)
        self._stall, self._depth = np.zeros(ports), np.zeros(ports)
        self.job_of = np.full(ports, -1, np.int32)
        self.update(0.0, first=True)

    def _rows_of(self, job: TrafficJob) -> NDArray[np.intp]:
        hosts = [self.layout.host(name) for name in job.hosts]
        return np.flatnonzero(np.isin(self.layout.host_of, hosts))

    def stop(self, name: str, now: float) -> None:
        """End a job now: crashed or cancelled."""
        self.jobs = tuple(
            replace(job, ends=min(job.ends, now)) if job.name == name else job for job in self.jobs
        )
        self.update(now)

    def next(self, now: float) -> float:
        return min((job.next(now) for job in self.jobs), default=math.inf)

    def update(self, now: float, first: bool = False) -> None:
        """Set the loads by the jobs that run at `now`."""
        began: list[NDArray[np.intp]] = []
        # those that ended first: another job may begin on their hosts at the same moment
        for number, job in sorted(enumerate(self.jobs), key=lambda item: item[1].running(now)):
            state = job.running(now), job.running(now) and job.saving(now)
            if self._running.get(job.name, (False, False)) == state:
                continue
            rows = self._rows[job.name]
            compute = rows[~self.layout.storage[rows]]
            store = rows[self.layout.storage[rows]]
            self.version += 1
            if state[0] and not self._running.get(job.name, (False, False))[0]:
                began.append(compute)
            self._running[job.name] = state
            if not state[0]:
                self._set(rows, None, now)
                self.job_of[rows] = -1
                continue
            self.job_of[rows] = number
            load = PATTERNS["idle"] if state[1] else PATTERNS[job.pattern]
            self._set(compute, load, job.starts, job.scale)
            writing = Load(1.0, 1.0, 0.98, 0.98) if state[1] else Load(1.0, 1.0, 0.01, 0.01)
            self._set(store, writing, job.starts)
        self.started = np.concatenate(began) if began and not first else np.zeros(0, np.intp)

    def _set(self, rows: NDArray[np.intp], load: Load | None, phase: float, scale: float = 1.0) -> None:
        self._steady[rows] = load is None
        if load is None:
            return
        self._period[rows], self._busy[rows], self._phase[rows] = load.period, load.busy, phase
        self._peak[rows], self._floor[rows] = min(1.0, load.peak * scale), load.floor * scale
        self._stall[rows], self._depth[rows] = load.stall, load.depth

    def carried(self, start: float, end: float) -> tuple[Floats, Floats]:
        """Per port: seconds of line rate that it sends between two moments, and seconds that it waits."""
        dt = end - start
        pulses = self._pulse(end, self._busy) - self._pulse(start, self._busy)
        sent = (self._floor * dt + (self._peak - self._floor) * pulses) * self._unlike
        if self._steady.any():
            turn = 2 * math.pi / SWELL_PERIOD
            at = 2 * math.pi * self._swell
            wave = SWELL / turn * (np.cos(turn * start + at) - np.cos(turn * end + at))
            sent = np.where(self._steady, self._own * (dt + wave), sent)
        waits = np.zeros(len(sent))
        if self._stall.any():
            waits = self._depth * (self._pulse(end, self._stall) - self._pulse(start, self._stall))
            waits[self._steady] = 0.0
        return np.minimum(sent, dt), waits

    def _pulse(self, now: float, length: Floats) -> Floats:
        """Seconds of pulses from the phase's second 0 until `now`."""
        turns, within = np.divmod(now - self._phase, self._period)
        return np.asarray(turns * length + np.minimum(within, length))

    def peak(self) -> Floats:
        """The highest share of the line rate that each port sends at."""
        return np.where(self._steady, self._own * (1 + SWELL), np.maximum(self._peak, self._floor))

    def mean(self) -> Floats:
        """The share of the line rate that each port sends at, over time."""
        mean = self._floor + (self._peak - self._floor) * self._busy / self._period
        return np.where(self._steady, self._own, mean)

    def active(self) -> NDArray[np.bool_]:
        """Ports that carry collective traffic of a job, or steady traffic above idling."""
        return self.mean() > 0.05
