"""A simulated cluster at one moment: every counter of every component, moving as real ones do. Pure: told the time.

Time passes in stretches within which nothing changes state; what a port carries in one is the integral of its load, so
that the length of a stretch does not matter. Faults act on the world (a link is held down, a switch loses packets);
what that makes others count follows from here and `effects`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import Kind
from fabricmon.sim.columns import PRIORITY, columns_of, counting
from fabricmon.sim.effects import CNP_EVERY, PACKET, Effects
from fabricmon.sim.flows import Flows
from fabricmon.sim.hosts import Hosts
from fabricmon.sim.inside import Inside
from fabricmon.sim.layout import Layout
from fabricmon.sim.links import DOWN, QUIET_BER, Links
from fabricmon.sim.overlay import Overlay
from fabricmon.sim.registers import Floats, Registers
from fabricmon.sim.traffic import Job, Traffic

WAIT_TICK = 1e-6
"""Seconds of one tick of the simulated adapters' wait counter; a real one's is its own (link-health-criteria 6)."""
PAUSE_QUANTA = 65535 * 512
"""Bit times that one pause frame stops the other end at most (IEEE 802.1Qbb)."""
STORM = 0.8
"""Share of the time spent pausing the switch from which the adapter tells of a storm, once a second."""


class World:
    """All components of a layout.

    now        seconds since the start of the simulation
    poll       seconds between two looks of the agents at their counters; no stretch of time is longer
    hosts      which of them run, answer, and since when
    links      states, rates and error ratios of all ports' links
    ports      what the ports' devices count
    inside     GPUs, NVLinks, PCIe
    flows      who sends to whom; `show_flows`: nodes tell of each (evidence of level L2)
    effects    what loss, dead peers and slow hosts make others count
    present    bool[ports]: the device is there
    stall      share of the time in which a port may not send, on top of its own traffic's waiting
    pausing    share of the time in which a port keeps its switch from sending
    speed      share of its usual rate that a port reaches
    marked     share of received packets that carry a congestion mark
    notified   congestion notifications per second that a port acts on
    """

    def __init__(
        self, layout: Layout, seed: int = 1, poll: float = 10.0, *, steady: float = 0.45, jobs: Iterable[Job] = (),
        flows: bool = False, spray: bool = False,
    ) -> None:
        """
        seed    the same one makes the same counters, to the last bit
        steady  mean share of the line rate on ports of no job; 0 for idle
        flows   every port tells what it sent to each of its peers, and what of it was lost
        spray   packets of one flow take all paths in turn (adaptive routing), and no flow tells a path

        ValueError for a poll that takes no time.
        """
        if poll <= 0:
            raise ValueError(f"a poll takes some time, got {poll:g} s")
        n = layout.ports
        self.layout, self.seed, self.poll, self.now = layout, seed, poll, 0.0
        self.random = np.random.default_rng(seed)
        self.traffic = Traffic(layout, seed, steady, tuple(jobs))
        self.hosts = Hosts(len(layout.hosts), self.random)
        self.links = Links(layout.rate)
        self.ports = Registers(n, counting(Kind.PORT, layout.link_layer))
        self.inside = Inside(layout, self.random)
        self.present = np.ones(n, np.bool_)
        self.ethernet = layout.link_layer == "Ethernet"
        self.stall = Overlay(n, 0.0, np.maximum)
        self.pausing = Overlay(n, 0.0, np.maximum)
        self.speed = Overlay(n, 1.0, np.multiply)
        self.marked = Overlay(n, 0.0, np.maximum)
        self.notified = Overlay(n, 0.0, np.add)
        self.show_flows = flows
        self.flows = Flows(layout, self.traffic.jobs, seed, spray)
        self.effects = Effects(self, self.flows)
        self._load = -1
        self._lids = np.arange(n, dtype=float) + 1 + len(layout.switches)
        self._age()
        self.effects.settle()

    def _age(self) -> None:
        """What devices that have been up for weeks show."""
        n, random = self.layout.ports, self.random
        for column in self.ports.raw:
            if column in ("xmit", "rcv", "rdma_tx_bytes", "rdma_rx_bytes", "phy_tx", "phy_rx"):
                self.ports.grow(column, random.uniform(1e12, 4e13, n))
            elif column.endswith("packets"):
                self.ports.grow(column, random.uniform(1e9, 4e10, n))
            elif column in ("link_downed", "carrier_down_changes", "link_down_events"):
                self.ports.count(column, random.poisson(0.3, n).astype(float))
        if "carrier_up_changes" in self.ports.raw:
            self.ports.raw["carrier_up_changes"][:] = self.ports.raw["carrier_down_changes"] + np.uint64(1)

    # --- reading

    def column(self, kind: Kind, name: str) -> Floats:
        """One value a component of that kind, in the exported unit; NaN unknown. KeyError for a column it has not."""
        if kind is Kind.GPU:
            return self.inside.gpu(name)
        if kind is Kind.NVLINK:
            return self.inside.nvlink(name)
        if kind is Kind.PCIE:
            return self.inside.pcie(name)
        if kind is Kind.NODE:
            return self.inside.node(name, self.present)
        if kind is Kind.FLOW:
            return self.effects.registers.column(name)
        return self._port(name)

    def columns(self, kind: Kind) -> tuple[str, ...]:
        return columns_of(kind, self.layout.link_layer)

    def _port(self, name: str) -> Floats:
        links = self.links
        if name in self.ports.raw:
            return self.ports.column(name)
        if name in ("state", "phys_state"):
            return (links.state if name == "state" else links.phys_state).copy()
        if name in ("supported", "admin_up"):
            return np.ones(self.layout.ports)
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
            return np.full(self.layout.ports, 4200.0)
        raise KeyError(name)

    @property
    def hosts_silent(self) -> NDArray[np.bool_]:
        """Hosts whose agent does not answer."""
        return self.hosts.silent

    # --- time

    def advance(self, until: float) -> None:
        """Let time pass; calls with an earlier time do nothing."""
        while self.now < until:
            if self._load != self.traffic.version:
                self._load = self.traffic.version
                self.effects.changed()
            self.effects.settle()
            end = min(until, self.now + self.poll, max(self.links.next, self.now), self.traffic.next(self.now))
            if end > self.now:
                self._pass(self.now, end)
                self.now = end
            self.links.come_up(self.now)
            self.traffic.update(self.now)
            self.effects.begin(self.traffic.started)

    def _pass(self, start: float, end: float) -> None:
        dt, links, ports = end - start, self.links, self.ports
        on = links.active & self.present & ~self.hosts.off[self.layout.host_of]
        carried, waits = self.traffic.carried(start, end)
        carried = carried * self.speed.value * on
        sent, got = self.effects.move(carried * links.rate * self.random.uniform(0.99, 1.01, on.size), on, dt)
        self._moved(sent, got)
        busy = on & (carried > 0)
        stalled = np.minimum(dt, (waits + self.stall.value * dt) * busy)
        if self.ethernet:
            self._paused(stalled, self.pausing.value * dt * busy, dt)
            self._marks(got, busy, dt)
        else:
            noise = self.random.uniform(0, 2e-3, sent.size) * dt * on
            ports.grow("xmit_wait_ticks", (stalled + noise) / WAIT_TICK)
        self._errors(start, end)
        per_host = np.bincount(self.layout.host_of, carried, len(self.layout.hosts)) / dt
        share = per_host / np.maximum(1, np.bincount(self.layout.host_of, minlength=len(self.layout.hosts)))
        self.inside.advance(dt, share[self.layout.gpu_host], self.random)

    def _moved(self, sent: Floats, got: Floats) -> None:
        ports = self.ports
        for way, amount in (("xmit", sent), ("rcv", got)):
            packets = amount / PACKET
            ports.grow(way, amount)
            ports.grow(f"{way}_packets", packets)
            if not self.ethernet:
                ports.grow(f"unicast_{way}_packets", packets)
                continue
            word = "tx" if way == "xmit" else "rx"
            for column, value in ((f"rdma_{word}_bytes", amount), (f"rdma_{word}_packets", packets), (f"phy_{word}", amount)):
                ports.grow(column, value)
        ports.grow("rdma_rx_write_requests", got / (1 << 20))

    def _paused(self, stalled: Floats, pausing: Floats, dt: float) -> None:
        """Pause counters of the lossless priority, in both directions."""
        ports, frame = self.ports, PAUSE_QUANTA / (self.links.rate * 8)
        ports.grow(f"pfc_rx_pause_prio{PRIORITY}", stalled)
        ports.grow(f"pfc_rx_frames_prio{PRIORITY}", stalled / frame)
        ports.grow(f"pfc_rx_transitions_prio{PRIORITY}", stalled / frame / 2)
        ports.grow(f"pfc_tx_pause_prio{PRIORITY}", pausing)
        ports.grow(f"pfc_tx_frames_prio{PRIORITY}", pausing / frame)
        if self.pausing.acts:
            share = pausing / dt
            ports.grow("pfc_storm_warning", np.where(share >= STORM, dt, 0.0))
            ports.grow("host_buffer_pressure", np.where(share > 0, dt, 0.0))

    def _marks(self, got: Floats, busy: NDArray[np.bool_], dt: float) -> None:
        if self.marked.acts:
            marks = got / PACKET * self.marked.value
            self.ports.grow("ecn_marked_rx", marks)
            self.ports.grow("cnp_sent", marks / CNP_EVERY)
        if self.notified.acts:
            self.ports.grow("cnp_handled", self.notified.value * dt * busy)

    def _errors(self, start: float, end: float) -> None:
        """Errors after correction: Poisson in the bits that passed, line rate times the time the link was trained."""
        noisy = self.links.noisy
        ratio = np.full(self.layout.ports, QUIET_BER)
        if len(noisy):
            ratio[noisy] = self.links.ber((start + end) / 2)[noisy]
        bits = self.links.rate * 8 * (end - start) * self.links.trained
        errors = self.random.poisson(bits * ratio).astype(float)
        if not errors.any():
            return
        if not self.ethernet:
            self.ports.count("symbol_errors", errors)
            return
        self.ports.count("phy_uncorrected_symbols", errors)
        self.ports.count("fec_uncorrectable_blocks", errors)
        self.ports.count("eth_symbol_errors", errors)

    # --- what faults do

    def count(self, rows: Iterable[int] | NDArray[np.integer], column: str, amount: Floats | float) -> None:
        """Count `amount` more on some ports, in the device's unit; counters wrap or saturate as their width says."""
        at = np.asarray(list(rows), np.intp)
        self.ports.count(column, np.broadcast_to(np.asarray(amount, float), at.shape), at)

    def hold_down(self, rows: NDArray[np.integer] | Iterable[int]) -> None:
        """One more reason for these links to be down; those that were up go down and count it."""
        fell = self.links.hold(np.asarray(list(rows), np.intp))
        for column in ("link_downed", "carrier_down_changes", "link_down_events"):
            if column in self.ports.raw:
                self.ports.count(column, np.ones(len(fell)), fell)

    def let_up(self, rows: NDArray[np.integer] | Iterable[int]) -> None:
        """One reason less; links without any train, and are ACTIVE after BRING_UP seconds."""
        rose = self.links.let(np.asarray(list(rows), np.intp), self.now)
        if "carrier_up_changes" in self.ports.raw:
            self.ports.count("carrier_up_changes", np.ones(len(rose)), rose)

    def set_rate(self, rows: NDArray[np.integer], rate: float, width: int = 4) -> None:
        """What links train to from now on."""
        self.links.rate[rows], self.links.width[rows] = rate, width

    def switch_off(self, host: int) -> None:
        """The host goes: nothing answers, its links are down at both ends."""
        self.hosts.go(host)
        self.hold_down(self.layout.host_rows(host))

    def switch_on(self, host: int) -> None:
        """The host is back from a boot: counters from zero, another boot id, its own clock from zero."""
        rows = self.layout.host_rows(host)
        self.ports.clear(rows)
        self.inside.clear(host)
        self.hosts.boot(host, self.now)
        self.let_up(rows)

    def remove(self, rows: NDArray[np.integer]) -> None:
        """Devices vanish from their hosts: their ports are in no inventory any more."""
        self.present[rows] = False
        self.hold_down(rows)
        self.hosts.reshape(np.unique(self.layout.host_of[rows]))

    def bring_back(self, rows: NDArray[np.integer]) -> None:
        """Devices are there again, with the same GUIDs and counters from zero."""
        self.present[rows] = True
        self.ports.clear(rows)
        self.hosts.reshape(np.unique(self.layout.host_of[rows]))
        self.let_up(rows)
