"""The counters of all adapter ports of a simulated fabric, moving as real ones do. Pure: seeded, told the time.

One array a counter over all ports. Widths, saturation and wrap come from the catalogue, so a 16-bit error counter
stops at 65,535 and a rebooted node starts from zero, as on hardware. Values that nothing could read are NaN.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Growth
from fabricmon.sim.fabric import Fabric

DOWN, INIT, ACTIVE = 1.0, 2.0, 4.0  # PORT_STATES of catalogue/port.py
POLLING, LINK_UP = 2.0, 5.0  # PHYS_STATES

STATE_COLUMNS = ("state", "phys_state", "lid", "sm_lid", "rate", "width", "link_downed")
"""What a port's state collector reads every second."""

COUNTER_COLUMNS = (
    "supported", "symbol_errors", "link_error_recoveries", "rcv_errors", "rcv_remote_physical_errors",
    "xmit_discards", "xmit_constraint_errors", "rcv_constraint_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "vl15_dropped", "xmit_wait_ticks", "xmit", "rcv", "xmit_packets", "rcv_packets",
    "unicast_xmit_packets", "unicast_rcv_packets", "rdma_rx_write_requests", "rdma_rx_read_requests", "ack_timeout",
    "out_of_buffer",
)  # fmt: skip
"""What a port's counter collector reads every ten seconds."""

LEVELS = frozenset({"state", "phys_state", "lid", "sm_lid", "rate", "width", "supported"})
COUNTING = tuple(column for column in (*STATE_COLUMNS, *COUNTER_COLUMNS) if column not in LEVELS)

PACKET = 4096 + 26
"""Bytes of a full packet: the usual InfiniBand MTU and its headers, which port_xmit_data counts too."""
BRING_UP = 0.5
"""Seconds between LinkUp and ACTIVE: the subnet manager sees the trap, gives a LID and routes."""
QUIET_BER = 1e-17
"""Error ratio after correction of a good link: no error in hours at 400 Gb/s."""
SWELL, SWELL_PERIOD = 0.3, 30.0
"""Traffic of a port swells by this share around its mean in this many seconds, each port in its own phase."""
STEP = 1.0
"""Longest stretch integrated at once, seconds; traffic and error ratio are taken as constant within it."""


class Plant:
    """All ports and hosts at one moment `now` (seconds since the start of the simulation).

    raw    column -> uint64[ports], as the device counts (4-byte words where the catalogue's scale says so)
    held   int[ports]: how many reasons keep a link down at the moment; 0 means it is up
    """

    def __init__(self, fabric: Fabric, seed: int = 1, traffic: float = 0.45) -> None:
        ports, nodes = fabric.shape.ports, fabric.shape.nodes
        self.fabric, self.now = fabric, 0.0
        self._random = np.random.default_rng(seed)
        self._load = np.clip(self._random.normal(traffic, 0.05, ports), 0.02, 0.95)
        self.raw: dict[str, NDArray[np.uint64]] = {column: np.zeros(ports, np.uint64) for column in COUNTING}
        self.held = np.zeros(ports, np.int64)
        self.state = np.full(ports, ACTIVE)
        self.phys_state = np.full(ports, LINK_UP)
        self.rate = np.full(ports, fabric.shape.rate)
        self.width = np.full(ports, 4.0)
        self._active_at = np.full(ports, math.inf)
        self._ber_from, self._ber_to = np.full(ports, QUIET_BER), np.full(ports, QUIET_BER)
        self._ramp_from, self._ramp_to = np.zeros(ports), np.zeros(ports)
        self.silent = np.zeros(nodes, np.bool_)
        self.boots = np.zeros(nodes, np.int64)
        self.booted_at = -self._random.uniform(2 * 86400, 40 * 86400, nodes)
        for column in ("xmit", "rcv"):
            self._add(column, self._random.uniform(1e12, 4e13, ports))
        for column in ("xmit_packets", "rcv_packets", "unicast_xmit_packets", "unicast_rcv_packets"):
            self._add(column, self._random.uniform(1e9, 4e10, ports))
        self._add("link_downed", self._random.poisson(0.3, ports).astype(float))
        self._add("xmit_wait_ticks", self._random.uniform(0, 1e6, ports))

    # --- reading

    def column(self, name: str) -> NDArray[np.float64]:
        """float64[ports] in the exported unit (bytes where the source counts words); NaN unknown."""
        if name in ("state", "phys_state"):
            return self.state if name == "state" else self.phys_state
        if name == "supported":
            return np.ones(self.fabric.shape.ports)
        if name == "lid":
            return np.arange(self.fabric.shape.ports, dtype=float) + self.fabric.lid(0)
        if name == "sm_lid":
            return np.where(self.state == DOWN, 0.0, 1.0)
        if name in ("rate", "width"):
            return np.where(self.state == DOWN, math.nan, self.rate if name == "rate" else self.width)
        return self.raw[name].astype(np.float64) * CATALOGUE[name].scale

    def monotonic(self, host: int) -> float:
        """The clock of a host since its boot, seconds."""
        return float(self.now - self.booted_at[host])

    def ber(self) -> NDArray[np.float64]:
        """Error ratio of each link's receive direction now; a ramp is a straight line in log10."""
        span = self._ramp_to - self._ramp_from
        share = np.clip(np.divide(self.now - self._ramp_from, span, out=np.ones_like(span), where=span > 0), 0, 1)
        exponent = np.log10(self._ber_from) * (1 - share) + np.log10(self._ber_to) * share
        return np.asarray(10.0**exponent)

    # --- time

    def advance(self, until: float) -> None:
        """Let time pass; calls with an earlier time do nothing."""
        while self.now < until:
            dt = min(STEP, until - self.now)
            self.now += dt
            self._come_up()
            self._count(dt)

    def _come_up(self) -> None:
        up = self._active_at <= self.now
        self.state[up] = ACTIVE
        self._active_at[up] = math.inf

    def _count(self, dt: float) -> None:
        active = self.state == ACTIVE
        trained = self.phys_state == LINK_UP
        wave = 1 + SWELL * np.sin(2 * math.pi * (self.now / SWELL_PERIOD + self._load))
        sent = self._load * wave * self.rate * dt * active
        got = sent * self._random.uniform(0.97, 1.03, sent.size)
        for column, amount in (("xmit", sent), ("rcv", got)):
            self._add(column, amount / CATALOGUE[column].scale)
            packets = amount / PACKET
            self._add(f"{column}_packets", packets)
            self._add(f"unicast_{column}_packets", packets)
        self._add("rdma_rx_write_requests", got / (1 << 20))
        self._add("xmit_wait_ticks", self._random.uniform(0, 2000, sent.size) * dt * active)
        bits = self.rate * 8 * dt * trained
        self._add("symbol_errors", self._random.poisson(bits * self.ber()).astype(float))

    def _add(self, column: str, amount: NDArray[np.float64]) -> None:
        counter = CATALOGUE[column]
        raw, grown = self.raw[column], amount.astype(np.uint64)
        if counter.growth is Growth.WRAPS and counter.bits < 64:
            self.raw[column] = (raw + grown) % np.uint64(1 << counter.bits)
        elif counter.growth is Growth.WRAPS:
            self.raw[column] = raw + grown
        else:
            self.raw[column] = np.minimum(raw + grown, np.uint64((1 << counter.bits) - 1))

    # --- what faults do

    def add(self, row: int, column: str, amount: float) -> None:
        """Count `amount` more on one port, in the device's unit; the counter wraps or saturates as its width says."""
        more = np.zeros(self.fabric.shape.ports)
        more[row] = amount
        self._add(column, more)

    def hold_down(self, rows: tuple[int, ...]) -> None:
        """One more reason for these links to be down; those that were up go down and count it."""
        at = list(rows)
        self.held[at] += 1
        fell = np.zeros(self.held.size, np.bool_)
        fell[at] = self.held[at] == 1
        self.state[fell], self.phys_state[fell], self._active_at[fell] = DOWN, POLLING, math.inf
        self._add("link_downed", fell.astype(float))

    def let_up(self, rows: tuple[int, ...]) -> None:
        """One reason less; links without any train, and are ACTIVE after BRING_UP seconds."""
        at = list(rows)
        self.held[at] = np.maximum(self.held[at] - 1, 0)
        rose = np.zeros(self.held.size, np.bool_)
        rose[at] = self.held[at] == 0
        rose &= self.phys_state != LINK_UP
        self.state[rose], self.phys_state[rose] = INIT, LINK_UP
        self._active_at[rose] = self.now + BRING_UP

    def set_ber(self, row: int, first: float, last: float, seconds: float) -> None:
        """Error ratio of a link from `first` to `last` over that time, then constant."""
        self._ber_from[row], self._ber_to[row] = first, last
        self._ramp_from[row], self._ramp_to[row] = self.now, self.now + seconds

    def set_rate(self, row: int, rate: float, width: int = 4) -> None:
        """What the link trains to from now on."""
        self.rate[row], self.width[row] = rate, width

    def clear_counters(self, rows: tuple[int, ...]) -> None:
        """What an operator does after a repair, and what a power cycle does."""
        for raw in self.raw.values():
            raw[list(rows)] = 0

    def switch_off(self, host: int) -> None:
        """The host goes: its agent is silent, its links are down at both ends."""
        self.silent[host] = True
        self.hold_down(self.fabric.host_rows(host))

    def switch_on(self, host: int) -> None:
        """The host is back from a boot: counters from zero, another boot id, its own clock from zero."""
        rows = self.fabric.host_rows(host)
        self.clear_counters(rows)
        self.boots[host] += 1
        self.booted_at[host] = self.now
        self.silent[host] = False
        self.let_up(rows)
