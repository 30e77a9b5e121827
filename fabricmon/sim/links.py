"""The links of all ports: states, rates, error ratios. Pure.

A link may be held down for several reasons at once (its cable, its leaf, its host) and trains when none is left. It
is then LinkUp and INIT, and ACTIVE when the subnet manager has configured it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DOWN, INIT, ACTIVE = 1.0, 2.0, 4.0  # PORT_STATES of catalogue/port.py
POLLING, DISABLED, LINK_UP = 2.0, 3.0, 5.0  # PHYS_STATES

BRING_UP = 0.5
"""Seconds between LinkUp and ACTIVE, for the subnet manager."""
QUIET_BER = 1e-20
"""Error ratio after correction of a good link: no error in years at 400 Gb/s. Stray ones are the background's."""


class Links:
    """held: int[ports], number of reasons that keep a link down; rate in bytes per second, width in lanes."""

    def __init__(self, rate: Floats) -> None:
        n = len(rate)
        self.held = np.zeros(n, np.int64)
        self.state = np.full(n, ACTIVE)
        self.phys_state = np.full(n, LINK_UP)
        self.rate = rate.copy()
        self.width = np.full(n, 4.0)
        self._active_at = np.full(n, math.inf)
        self._from, self._to = np.full(n, QUIET_BER), np.full(n, QUIET_BER)
        self._since, self._until = np.zeros(n), np.zeros(n)

    @property
    def active(self) -> NDArray[np.bool_]:
        return self.state == ACTIVE

    @property
    def trained(self) -> NDArray[np.bool_]:
        return self.phys_state == LINK_UP

    def hold(self, rows: NDArray[np.integer]) -> NDArray[np.intp]:
        """Add a reason for these links to be down. Returns those that went down by it."""
        self.held[rows] += 1
        fell = np.asarray(rows, np.intp)[self.held[rows] == 1]
        self.state[fell], self.phys_state[fell], self._active_at[fell] = DOWN, POLLING, math.inf
        return fell

    def let(self, rows: NDArray[np.integer], now: float) -> NDArray[np.intp]:
        """Remove a reason. Returns links that begin to train by it; they are ACTIVE after BRING_UP seconds."""
        self.held[rows] = np.maximum(self.held[rows] - 1, 0)
        at = np.asarray(rows, np.intp)
        rose = at[(self.held[at] == 0) & (self.phys_state[at] != LINK_UP)]
        self.state[rose], self.phys_state[rose] = INIT, LINK_UP
        self._active_at[rose] = now + BRING_UP
        return rose

    def reconfigure(self, rows: NDArray[np.integer], until: float) -> None:
        """Set ACTIVE links to INIT until the subnet manager has configured them: no link goes down."""
        at = np.asarray(rows, np.intp)[self.state[rows] == ACTIVE]
        self.state[at], self._active_at[at] = INIT, until

    @property
    def next(self) -> float:
        """When the next link becomes ACTIVE."""
        return float(self._active_at.min(initial=math.inf))

    def come_up(self, now: float) -> None:
        up = self._active_at <= now
        if up.any():
            self.state[up] = ACTIVE
            self._active_at[up] = math.inf

    def ramp(self, rows: NDArray[np.integer], first: float, last: float, seconds: float, now: float) -> None:
        """Change the error ratio from `first` to `last` in `seconds`, log-linearly; then it is constant."""
        self._from[rows], self._to[rows] = first, last
        self._since[rows], self._until[rows] = now, now + seconds

    def ber(self, now: float) -> Floats:
        """Error ratio after correction of each link's receive direction."""
        span = self._until - self._since
        share = np.clip(np.divide(now - self._since, span, out=np.ones_like(span), where=span > 0), 0, 1)
        return np.asarray(10.0 ** (np.log10(self._from) * (1 - share) + np.log10(self._to) * share))

    @property
    def noisy(self) -> NDArray[np.intp]:
        """Links whose error ratio is not that of a good one."""
        return np.flatnonzero((self._from != QUIET_BER) | (self._to != QUIET_BER))
