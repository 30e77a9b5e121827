"""State of the simulated hosts and their agents: running, answering, clocks. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import Presence

REACHED, REFUSED, UNREACHABLE = 0, 1, 2
PRESENCE = (Presence.LIVE, Presence.REFUSED, Presence.UNREACHABLE)
"""By `Hosts.answer`."""


class Hosts:
    """Per host.

    off        the host does not run
    answer     result of a connection to its agent: REACHED, REFUSED (no agent), UNREACHABLE (no answer)
    boots      number of boots since the start
    booted_at  simulation time of the last boot; its monotonic clock counts from there
    started    simulation time of the agent's last start
    skew       seconds by which its wall clock is ahead
    shape      number of its present inventory: rises when the agent finds other devices, and with each boot
    """

    def __init__(self, n: int, random: np.random.Generator) -> None:
        self.off = np.zeros(n, np.bool_)
        self.answer = np.zeros(n, np.int8)
        self.boots = np.zeros(n, np.int64)
        self.booted_at = -random.uniform(2 * 86400, 40 * 86400, n)
        self.started = self.booted_at + 60.0
        self.skew = np.zeros(n)
        self.shape = np.ones(n, np.int64)

    @property
    def silent(self) -> NDArray[np.bool_]:
        return self.answer != REACHED

    def monotonic(self, now: float) -> NDArray[np.float64]:
        """Each host's clock since its boot, seconds."""
        return now - self.booted_at

    def go(self, host: int) -> None:
        self.off[host] = True
        self.answer[host] = UNREACHABLE

    def boot(self, host: int, now: float) -> None:
        self.off[host] = False
        self.boots[host] += 1
        self.booted_at[host] = now
        self.started[host] = now
        self.shape[host] += 1
        self.answer[host] = REACHED

    def stop_agents(self, hosts: NDArray[np.integer], reachable: bool = True) -> None:
        """Stop agents. `reachable`: the host answers and refuses the connection."""
        self.answer[hosts] = REFUSED if reachable else UNREACHABLE

    def start_agents(self, hosts: NDArray[np.integer], now: float, anew: bool = True) -> None:
        """Let agents answer again; `anew`: as new processes."""
        at = hosts[~self.off[hosts]]
        self.answer[at] = REACHED
        if anew:
            self.started[at] = now
            self.shape[at] += 1

    def reshape(self, hosts: NDArray[np.integer]) -> None:
        """Raise the inventory number of these hosts."""
        self.shape[hosts] += 1
