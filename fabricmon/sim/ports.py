"""Counters of the ports' devices over time: bytes, pauses, ECN marks, errors. Pure."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import Kind
from fabricmon.sim.chance import Chance
from fabricmon.sim.columns import PRIORITY, counting
from fabricmon.sim.layout import Layout
from fabricmon.sim.links import DOWN, Links
from fabricmon.sim.registers import Floats, Registers

Bools = NDArray[np.bool_]

PACKET = 4096 + 26
"""Bytes of a full packet: the usual InfiniBand MTU and its headers, which port_xmit_data counts too."""
CNP_EVERY = 8.0
"""ECN-marked packets for one CNP: the receiver answers a flow at most every 50 microseconds."""
WAIT_TICK = 1e-6
"""Seconds of one tick of the simulated adapters' wait counter (docs/methods.md#wait-ticks)."""
PAUSE_QUANTA = 65535 * 512
"""Bit times that one pause frame stops the other end at most (IEEE 802.1Qbb)."""
STORM = 0.8
"""Share of the time spent pausing the switch from which the adapter reports a storm, once a second."""
DOWNS = ("link_downed", "carrier_down_changes", "link_down_events")
"""Counters of a link that went down."""
_BYTES = ("xmit", "rcv", "rdma_tx_bytes", "rdma_rx_bytes", "phy_tx", "phy_rx")
_COLUMNS = {
    "xmit": ("xmit", "rdma_tx_bytes", "phy_tx"),
    "rcv": ("rcv", "rdma_rx_bytes", "phy_rx"),
}
_PACKETS = {
    "xmit": ("xmit_packets", "unicast_xmit_packets", "rdma_tx_packets"),
    "rcv": ("rcv_packets", "unicast_rcv_packets", "rdma_rx_packets"),
}
_TRAFFIC_PACKETS = tuple(column for columns in _PACKETS.values() for column in columns)


class PortRegisters(Registers):
    """Registers of all ports, and their states from `links`."""

    def __init__(self, layout: Layout, links: Links, random: np.random.Generator, chance: Chance) -> None:
        super().__init__(layout.ports, counting(Kind.PORT, layout.link_layer))
        self._layout, self._links, self._chance = layout, links, chance
        self._every = np.arange(layout.ports)
        self.ethernet = layout.link_layer == "Ethernet"
        self.credits = layout.link_layer == "InfiniBand"
        self._lids = np.arange(layout.ports, dtype=float) + 1 + len(layout.switches)
        for column in self.raw:  # what devices that have been up for weeks show
            if column in _BYTES:
                self.grow(column, random.uniform(1e12, 4e13, self.n))
            elif column in _TRAFFIC_PACKETS:
                self.grow(column, random.uniform(1e9, 4e10, self.n))
            elif column in DOWNS:
                self.count(column, random.poisson(0.3, self.n).astype(float))
        if "carrier_up_changes" in self.raw:
            self.raw["carrier_up_changes"][:] = self.raw["carrier_down_changes"] + np.uint64(1)

    def value(self, name: str) -> Floats:
        """A column of the ports' rows. KeyError for one they lack."""
        links = self._links
        if name in self.raw:
            return self.column(name)
        if name in ("state", "phys_state"):
            return (links.state if name == "state" else links.phys_state).copy()
        if name in ("supported", "admin_up"):
            return np.ones(self.n)
        if name == "lid":
            return self._lids.copy()
        if name == "sm_lid":
            return np.where(links.state == DOWN, 0.0, 1.0)
        if name in ("rate", "width", "netdev_rate"):
            return np.where(links.state == DOWN, math.nan, links.width if name == "width" else links.rate)
        if name == "carrier":
            return links.active.astype(float)
        if name == "operstate":
            return np.where(links.active, 6.0, 2.0)
        if name == "mtu":
            return np.full(self.n, 4200.0)
        raise KeyError(name)

    def went(self, columns: tuple[str, ...], rows: NDArray[np.intp]) -> None:
        """Count one on each of these counters that the ports have."""
        for column in columns:
            if column in self.raw:
                self.count(column, np.ones(len(rows)), rows)

    # --- while time passes

    def move(self, sent: Floats, got: Floats) -> None:
        """Count bytes, packets and requests."""
        for way, amount in (("xmit", sent), ("rcv", got)):
            for column in _COLUMNS[way]:
                if column in self.raw:
                    self.grow(column, amount)
            packets = amount / PACKET
            for column in _PACKETS[way]:
                if column in self.raw:
                    self.grow(column, packets)
        if "rdma_rx_write_requests" in self.raw:
            self.grow("rdma_rx_write_requests", got / (1 << 20))

    def wait(self, stalled: Floats, on: Bools, dt: float, window: float) -> None:
        """Count ticks in which InfiniBand ports had data and no credits."""
        noise = self._chance.uniform("wait", window, self._every, 0, 2e-3) * dt * on
        self.grow("xmit_wait_ticks", (stalled + noise) / WAIT_TICK)

    def pause(self, stalled: Floats, pausing: Floats, dt: float) -> None:
        """Count pauses of the lossless priority of Ethernet ports, in both directions; seconds in `dt`."""
        frame = PAUSE_QUANTA / (self._links.rate * 8)
        if stalled.any():
            self.grow(f"pfc_rx_pause_prio{PRIORITY}", stalled)
            self.grow(f"pfc_rx_frames_prio{PRIORITY}", stalled / frame)
            self.grow(f"pfc_rx_transitions_prio{PRIORITY}", stalled / frame / 2)
        if pausing.any():
            self.grow(f"pfc_tx_pause_prio{PRIORITY}", pausing)
            self.grow(f"pfc_tx_frames_prio{PRIORITY}", pausing / frame)
            self.grow("pfc_storm_warning", np.where(pausing >= STORM * dt, dt, 0.0))
            self.grow("host_buffer_pressure", np.where(pausing > 0, dt, 0.0))

    def mark(self, got: Floats, marked: Floats, notified: Floats) -> None:
        """Count ECN-marked packets, CNPs sent for them, and CNPs handled."""
        if marked.any():
            marks = got / PACKET * marked
            self.grow("ecn_marked_rx", marks)
            self.grow("cnp_sent", marks / CNP_EVERY)
        if notified.any():
            self.grow("cnp_handled", notified)

    def err(self, start: float, end: float) -> None:
        """Count errors after correction of links that are not good: Poisson in the bits, line rate times the time the
        link was trained."""
        noisy = self._links.noisy
        if not len(noisy):
            return
        bits = self._links.rate * 8 * (end - start) * self._links.trained * self._links.ber((start + end) / 2)
        errors = np.zeros(self.n)
        errors[noisy] = self._chance.poisson("errors", start, noisy, bits[noisy])
        self.blemish(errors)

    def blemish(self, errors: Floats) -> None:
        """Count errors after correction, by the link layer's counters."""
        if not errors.any():
            return
        columns = ("phy_uncorrected_symbols", "fec_uncorrectable_blocks", "eth_symbol_errors")
        for column in columns if self.ethernet else ("symbol_errors",):
            if column in self.raw:
                self.count(column, errors)
