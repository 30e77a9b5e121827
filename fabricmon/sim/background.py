"""The noise of a large healthy fabric, as in the scenario catalogue's default fabric. Pure, seeded."""

from __future__ import annotations

import numpy as np

from fabricmon.sim.components import Components
from fabricmon.sim.layout import Layout

CONGESTED_PORTS = 0.02
"""Share of ports that have one benign congested window in an hour."""
WINDOW = (10.0, 30.0)  # seconds of such a window, from and to
DEPTH = (0.3, 0.6)  # share of the time that a port waits in it, from and to
STRAY_ERRORS = 1e-4
"""Share of ports with one stray error in an hour."""
SILENT_AGENTS = 0.002
"""Share of agents that fall silent in an hour: upgrades, starved hosts."""
SILENCE = (40.0, 300.0)  # seconds, from and to
HOUR = 3600.0


class Background:
    """Draws random events in each stretch of time, and ends them when their time is over."""

    def __init__(self, layout: Layout, seed: int) -> None:
        self._layout = layout
        self._random = np.random.default_rng((seed, 0xBAC6))
        self._windows: list[tuple[float, int, float]] = []
        self._silent: list[tuple[float, int]] = []

    def step(self, cluster: Components, start: float, end: float) -> None:
        dt, random, layout = end - start, self._random, self._layout
        changed = False
        for _ in range(int(random.poisson(CONGESTED_PORTS * layout.ports * dt / HOUR))):
            until = end + float(random.uniform(*WINDOW))
            self._windows.append((until, int(random.integers(layout.ports)), float(random.uniform(*DEPTH))))
            changed = True
        kept = [window for window in self._windows if window[0] > start]
        if changed or len(kept) != len(self._windows):
            self._windows = kept
            cluster.stall.put("background", np.array([w[1] for w in kept], np.intp), np.array([w[2] for w in kept]))
        strays = int(random.poisson(STRAY_ERRORS * layout.ports * dt / HOUR))
        if strays:
            errors = np.zeros(layout.ports, np.int64)
            errors[random.integers(0, layout.ports, strays)] = 1
            cluster.ports.blemish(errors.astype(float))
        self._fall_silent(cluster, start, dt)

    def _fall_silent(self, cluster: Components, start: float, dt: float) -> None:
        random, hosts = self._random, len(self._layout.hosts)
        for _ in range(int(random.poisson(SILENT_AGENTS * hosts * dt / HOUR))):
            host = int(random.integers(hosts))
            until = start + float(random.uniform(*SILENCE))
            if not cluster.hosts.silent[host]:
                cluster.hosts.stop_agents(np.array([host]))
                self._silent.append((until, host))
        back = [host for until, host in self._silent if until <= start]
        if back:
            self._silent = [one for one in self._silent if one[0] > start]
            cluster.hosts.start_agents(np.array(back, np.intp), start)
