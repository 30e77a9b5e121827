"""Which readings a composite's faults change: it is played with and without them, and compared. Pure.

The same random numbers are drawn in both plays, so that a difference is an effect of a fault.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fabricmon.adversary.delivery import AgentDelivery
from fabricmon.adversary.scene import PlayedFabric
from fabricmon.catalogue import CATALOGUE
from fabricmon.model import Kind

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

EVENTS = 3.0
"""Events of a counter by which a reading must differ to show a fault."""
SECONDS = 2.0
"""Seconds of waiting or pausing by which it must differ."""
BYTES = 2e10
"""Bytes by which traffic must differ: half a second of a 400 Gb/s link."""
DEGREES, LIGHT = 6.0, 0.3
"""Degrees, and share of the light, by which a module must differ."""
TRAFFIC = ("xmit", "rcv", "rdma_tx_bytes", "rdma_rx_bytes", "phy_tx", "phy_rx")
TIMES = ("xmit_wait_ticks", "pfc_rx_pause_prio3", "pfc_tx_pause_prio3", "host_buffer_pressure", "pfc_storm_warning")
NO_SIGNS = ("packets", "requests", "frames", "transitions", "carrier_up_changes", "retrans_bytes")
"""Parts of the names of columns that follow traffic or another column."""
MARKS = 5000.0
"""ECN-marked packets and CNPs by which a reading must differ."""


def threshold(column: str) -> float:
    """By how much a counter must differ, in its unit; infinite for one that shows no fault."""
    if column in TRAFFIC:
        return BYTES
    if column in TIMES:
        return SECONDS
    if column in ("ecn_marked_rx", "cnp_sent", "cnp_handled"):
        return MARKS
    if column != "retrans_packets" and any(word in column for word in NO_SIGNS):
        return math.inf
    return EVENTS


class Shown:
    """When each part first showed a difference in a reading that was delivered, infinite for never.

    port     seconds, per port, in a reading other than traffic; rate: in traffic
    host     by the state of its agent
    gpu      by the readings of its NVLinks
    cable    of cables between switches, by a sweep
    """

    def __init__(self, delivery: AgentDelivery, without: PlayedFabric) -> None:
        self._delivery, self._with, self._without = delivery, delivery.scene, without
        layout = delivery.layout
        n, hosts = layout.ports, len(layout.hosts)
        self.port, self.rate = np.full(n, math.inf), np.full(n, math.inf)
        self.host, self.gpu = np.full(hosts, math.inf), np.full(layout.gpus, math.inf)
        self.cable = np.full(len(without.transit.cables), math.inf)
        self._columns = {name: threshold(name) / CATALOGUE[name].scale for name in without.world.ports.raw}
        self._lacks = {name: lack for (kind, name), lack in delivery.missing.items() if kind is Kind.PORT}

    def compare(self) -> None:
        """Note what differs at this moment, after the delivery of it."""
        delivery, now = self._delivery, self._with.world.now
        one, other = self._with.world, self._without.world
        host_of = delivery.layout.host_of
        changed = one.hosts.answer != other.hosts.answer
        self.host[changed] = np.minimum(self.host[changed], now)
        live, due = delivery.live[host_of], delivery.due[host_of]
        self._note(self.port, self._states() & live & one.present | ((one.present != other.present) & live), now)
        for name, least in self._columns.items():
            differ = np.flatnonzero(one.ports.raw[name] != other.ports.raw[name])
            if not len(differ) or not math.isfinite(least):
                continue
            apart = np.abs(one.ports.raw[name][differ].astype(float) - other.ports.raw[name][differ].astype(float))
            seen = differ[(apart >= least) & due[differ]]
            if name in self._lacks:
                seen = seen[~self._lacks[name][host_of[seen]]]
            into = self.rate if name in TRAFFIC else self.port
            into[seen] = np.minimum(into[seen], now)
        self._modules(due, now)
        self._inside(now)
        self._flows(now)
        if delivery.swept_now:
            self._switches(now)

    def _note(self, into: Floats, where: Bools, now: float) -> None:
        into[where] = np.minimum(into[where], now)

    def _states(self) -> Bools:
        one, other = self._with.world.links, self._without.world.links
        apart = (one.state != other.state) | (one.rate != other.rate) | (one.width != other.width)
        return np.asarray(apart)

    def _modules(self, due: Bools, now: float) -> None:
        one, other = self._with.world, self._without.world
        if "module_temperature" in self._lacks and self._lacks["module_temperature"].all():
            return
        if one.layout.link_layer == "EFA" or not one.optics.drifts:
            return
        here = due & ~self._lacks.get("module_temperature", np.zeros(len(self.host), np.bool_))[one.layout.host_of]
        warm = np.abs(one.optics.value("module_temperature", now) - other.optics.value("module_temperature", now))
        light, usual = (w.optics.value("module_rx_power_lane0", now) for w in (one, other))
        self._note(self.port, here & ((warm >= DEGREES) | (np.abs(light / usual - 1) >= LIGHT)), now)

    def _inside(self, now: float) -> None:
        one, other, layout = self._with.world.inside, self._without.world.inside, self._delivery.layout
        due = self._delivery.due
        if layout.gpus:
            apart = (one.linked != other.linked).any(axis=1)
            for name, raw in one.nvlinks.raw.items():
                more = raw.astype(float) - other.nvlinks.raw[name].astype(float)
                apart |= np.abs(more).reshape(layout.gpus, -1).sum(axis=1) >= EVENTS
            self._note(self.gpu, apart & due[layout.gpu_host], now)
        slower = (one.speed != other.speed) | (one.width != other.width)
        if slower.any():
            self._note(self.port, slower[layout.pcie_of] & due[layout.host_of], now)

    def _flows(self, now: float) -> None:
        world = self._with.world
        if not world.show_flows:
            return
        lost, usual = (w.effects.registers.raw["flow_lost"].astype(float) for w in (world, self._without.world))
        sources = world.flows.source[np.abs(lost - usual) >= EVENTS]
        seen = sources[self._delivery.due[world.layout.host_of[sources]]]
        self.port[seen] = np.minimum(self.port[seen], now)

    def _switches(self, now: float) -> None:
        one, other = self._with.transit, self._without.transit
        apart = ((one.held > 0) != (other.held > 0)) | (one.downs != other.downs)
        self._note(self.cable, apart | (np.abs(one.errors - other.errors) >= EVENTS), now)
        down = self._with.world.ports.raw.get("link_downed")
        usual = self._without.world.ports.raw.get("link_downed")
        if down is not None and usual is not None:  # the switch's end of a host's link
            cabled = self._delivery.layout.leaf >= 0
            self._note(self.port, cabled & (self._states() | (down != usual)), now)
