"""Effects of a cause on other ports: loss on a path, a dead peer, a slow receiver. Pure.

Loss: the receiver sees a gap and sends a NAK to the sender; where the last packets of a message are lost, the sender's
timer fires. A dead peer does not answer: timers fire until the queue pair fails. Back-pressure: traffic that is faster
than its host is paused, and the pause reaches the senders and, weaker, the neighbours below the same leaf. Traffic that
is faster than its link is ECN-marked, and senders slow down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricmon.sim.components import Components
from fabricmon.sim.flows import Flows, Gray
from fabricmon.sim.ports import CNP_EVERY, PACKET
from fabricmon.sim.registers import Floats, Registers

QUEUE_PAIRS = 4
"""Queue pairs of one flow, each with its own timer."""
ACK_TIMEOUT = 4.3
"""Seconds until a queue pair's timer fires: 4.096 us x 2^20, the default of NCCL."""
RETRIES = 7  # timeouts after which a queue pair fails
WINDOW = 16  # packets that a queue pair retransmits after a timeout
TAIL, READS = 0.02, 0.03
"""Shares of losses that only a timer finds, and that a read's requester infers from a later answer."""
DISORDER = 8
"""Packets that arrive out of sequence behind a lost one, until the sender has gone back."""
TAKEN = 0.95
"""Share of its PCIe link's payload rate that an adapter can deliver to its host."""
FULL = 0.97
"""Share of the line rate that arrives where more is sent: gaps and acknowledgements are the rest."""
MARKED_MOST = 0.11
"""Share of marked packets that rate control settles at in a full queue."""
PAUSED_SENDERS = (0.35, 0.7)
"""Share of a slow host's pausing that reaches its senders, least and most."""
PAUSED_NEIGHBOURS, NEIGHBOURS = 0.12, 4
"""The same for neighbours below its leaf, and their number."""
START_RETRANSMITS = (10, 50)
"""Retransmits of a port while a job sets up its connections, least and most (scenario S24)."""


@dataclass(frozen=True)
class Burst:
    """Some ports send to one port beside their other traffic; `rate`: bytes per second that each offers."""

    sources: tuple[int, ...]
    target: int
    rate: float


class Effects:
    """Changes a world's counters at each stretch of time. `settle` after each change of a cause, a job or a rate."""

    def __init__(self, cluster: Components, flows: Flows, named: bool) -> None:
        self._cluster, self.flows, self._named = cluster, flows, named
        self.registers = Registers(len(flows), ("flow_packets", "flow_lost"))
        self.grays: dict[str, tuple[Gray, ...]] = {}
        self.cables: dict[str, dict[int, float]] = {}
        self.ports: dict[str, dict[int, float]] = {}
        self.bursts: dict[str, Burst] = {}
        self.choked: dict[str, tuple[int, float]] = {}
        self.dead_switches: set[int] = set()
        self.dead_cables: set[int] = set()
        self._waited = np.zeros(len(flows))
        self._taken = np.ones(cluster.layout.ports)
        self._extra = np.zeros(cluster.layout.ports)
        self._into = np.zeros(cluster.layout.ports)
        self._fed = np.bincount(flows.target, minlength=cluster.layout.ports) > 0
        self._stale = self._unrouted = True

    # --- what changes

    def changed(self, routes: bool = False) -> None:
        """Note a change of a cause; `routes`: a switch or cable was added or removed."""
        self._stale = True
        self._unrouted |= routes

    def settle(self) -> None:
        """Bring losses and pressure in line with their causes. Called before time passes."""
        if not self._stale:
            return
        self._stale, cluster, flows = False, self._cluster, self.flows
        lossy = any(self.grays.values()) or any(self.cables.values())
        rerouted = flows.routed and self._unrouted
        wanted = self._named or lossy or self.dead_switches or self.dead_cables or rerouted
        if wanted and (self._unrouted or not flows.routed):
            self._unrouted = False
            before = list(flows.words)
            moves = flows.route(self.dead_switches, self.dead_cables, self._named)
            if moves and self._named and before:
                moved = np.array([old != new for old, new in zip(before, flows.words, strict=True)], np.bool_)
                cluster.hosts.reshape(np.unique(cluster.layout.host_of[flows.source[moved]]))
        merged: list[dict[int, float]] = [{}, {}]
        for into, causes in zip(merged, (self.cables, self.ports), strict=True):
            for ratios in causes.values():
                for at, ratio in ratios.items():
                    into[at] = 1 - (1 - into.get(at, 0.0)) * (1 - ratio)
        if flows.routed or self.ports:
            flows.lose([gray for grays in self.grays.values() for gray in grays], *merged)
        self._press()

    def _press(self) -> None:
        """Find ports that are sent more than their host or link can take, and the effects on other ports."""
        cluster, flows, ports = self._cluster, self.flows, self._cluster.layout.ports
        running = self._running()
        offered = cluster.traffic.peak() * cluster.links.rate
        wanted = offered[flows.source] * flows.weight * running
        demand: Floats = np.bincount(flows.target, wanted, ports).astype(float)
        self._extra, self._into = np.zeros(ports), np.zeros(ports)
        for burst in self.bursts.values():
            at = np.array(burst.sources, np.intp)
            self._extra[at] += burst.rate
            self._into[burst.target] += burst.rate * len(at)
        demand += self._into
        host = TAKEN * cluster.inside.pcie_rate()[cluster.layout.pcie_of]
        for row, share in self.choked.values():
            host[row] = min(host[row], share * cluster.links.rate[row])
        link = FULL * cluster.links.rate
        takes = np.minimum(host, link)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._taken = np.where(demand > takes, takes / demand, 1.0)
        slow = np.flatnonzero((demand > host) & (host < link))
        crowded = np.flatnonzero((demand > link) & (host >= link))
        for overlay in (cluster.stall, cluster.pausing, cluster.speed, cluster.marked, cluster.notified):
            overlay.take("pressure")
        if len(slow) or len(crowded):
            self._spread(slow, crowded, running)

    def _spread(self, slow: NDArray[np.intp], crowded: NDArray[np.intp], running: NDArray[np.bool_]) -> None:
        cluster, flows, layout = self._cluster, self.flows, self._cluster.layout
        stall, speed, notified = np.zeros(layout.ports), np.ones(layout.ports), np.zeros(layout.ports)
        pausing = 1 - self._taken
        least, most = PAUSED_SENDERS
        for target in slow.tolist():
            mine = np.flatnonzero((flows.target == target) & running)
            senders = np.concatenate([flows.source[mine], self._senders(target)]).astype(np.intp)
            felt = least + (most - least) * np.random.default_rng((cluster.seed, target)).uniform(0, 1, len(senders))
            stall[senders] = np.maximum(stall[senders], felt * pausing[target])
            speed[flows.source[mine]] *= 1 - flows.weight[mine] * pausing[target]
            below = np.flatnonzero((layout.leaf == layout.leaf[target]) & (layout.leaf >= 0))
            near = [row for row in below.tolist() if row != target and row not in set(senders.tolist())]
            near = near[: NEIGHBOURS] if len(near) <= NEIGHBOURS else near[target % len(near) :][:NEIGHBOURS]
            stall[near] = np.maximum(stall[near], PAUSED_NEIGHBOURS * pausing[target])
        for target in crowded.tolist():
            senders = np.concatenate([flows.source[(flows.target == target) & running], self._senders(target)])
            packets = FULL * cluster.links.rate[target] / PACKET
            share = MARKED_MOST * pausing[target]
            notified[senders.astype(np.intp)] += packets * share / CNP_EVERY / max(1, len(senders))
            if not cluster.ethernet:  # credits take the place of marks: senders wait
                stall[senders.astype(np.intp)] = np.maximum(stall[senders.astype(np.intp)], pausing[target] / 2)
        every = np.arange(layout.ports)
        cluster.stall.put("pressure", every, stall)
        cluster.speed.put("pressure", every, speed)
        cluster.notified.put("pressure", every, notified)
        cluster.pausing.put("pressure", slow, pausing[slow])
        cluster.marked.put("pressure", crowded, MARKED_MOST * pausing[crowded])

    def _senders(self, target: int) -> NDArray[np.intp]:
        """Ports that send to it in bursts."""
        found = [row for burst in self.bursts.values() if burst.target == target for row in burst.sources]
        return np.array(found, np.intp)

    def _running(self) -> NDArray[np.bool_]:
        """Flows whose job is at work, except those to a port that is the target of a burst."""
        running = self._cluster.traffic.job_of[self.flows.source] == self.flows.job
        if self.bursts:
            running &= ~np.isin(self.flows.target, [burst.target for burst in self.bursts.values()])
        return np.asarray(running)

    # --- as time passes

    def move(self, sent: Floats, on: NDArray[np.bool_], dt: float) -> tuple[Floats, Floats]:
        """Bytes that ports send and receive in `dt` seconds, given what they offer; counts the losses."""
        cluster, flows = self._cluster, self.flows
        running = self._running()
        reached = on[flows.target] & ~flows.broken
        wanted = running & (cluster.traffic.peak()[flows.source] > 0)
        waits = wanted & ~(reached & on[flows.source])
        waits &= ~cluster.hosts.off[cluster.layout.host_of[flows.source]] & cluster.present[flows.source]
        sent = np.where(self._stalled(waits), 0.0, sent)
        weight = flows.weight * running
        blocked = np.bincount(flows.source, weight * ~reached, cluster.layout.ports)
        sent = sent * (1 - np.minimum(1.0, blocked))
        lines = cluster.links.rate * dt
        extra = np.minimum(self._extra * dt * on, np.maximum(0.0, lines - sent))
        way = sent[flows.source] * weight * reached / np.maximum(1e-9, 1 - blocked[flows.source])
        arrives = np.bincount(flows.target, way * (1 - flows.loss), cluster.layout.ports)
        got = np.where(self._fed & ~cluster.layout.storage, arrives, sent) + self._into * dt
        self._lose(way, waits, dt)
        return sent + extra, np.minimum(got * self._taken, lines) * on

    def _stalled(self, waits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Ports of synchronous jobs of which some transfer waits for a dead peer."""
        cluster = self._cluster
        jobs = [at for at in np.unique(self.flows.job[waits]).tolist() if at >= 0 and cluster.traffic.jobs[at].together]
        for at in jobs:
            mine = waits & (self.flows.job == at)
            if (self._waited[mine] >= RETRIES * ACK_TIMEOUT).any():
                cluster.traffic.stop(cluster.traffic.jobs[at].name, cluster.now)
        return np.isin(cluster.traffic.job_of, jobs) & ~cluster.layout.storage

    def _lose(self, way: Floats, waits: NDArray[np.bool_], dt: float) -> None:
        flows, chance, now = self.flows, self._cluster.chance, self._cluster.now
        packets = way / PACKET
        self.registers.grow("flow_packets", packets)
        lossy = np.flatnonzero((flows.loss > 0) & (way > 0))
        if len(lossy):
            lost = chance.binomial("loss", now, lossy, np.floor(packets[lossy]), flows.loss[lossy])
            self.registers.count("flow_lost", lost, lossy)
            self._retransmit(flows.source[lossy], flows.target[lossy], lost, lossy)
        self._waited = np.where(waits, self._waited + dt, 0.0)
        dead = np.flatnonzero(waits)
        if not len(dead):
            return
        timeouts = chance.poisson("dead", now, dead, np.full(len(dead), QUEUE_PAIRS * dt / ACK_TIMEOUT))
        self._at_ports("ack_timeout", flows.source[dead], timeouts)
        self.registers.count("flow_packets", timeouts * WINDOW, dead)
        self.registers.count("flow_lost", timeouts * WINDOW, dead)
        gave_up = (self._waited[dead] >= RETRIES * ACK_TIMEOUT) & (self._waited[dead] - dt < RETRIES * ACK_TIMEOUT)
        self._at_ports("retries_exceeded", flows.source[dead], np.where(gave_up, float(QUEUE_PAIRS), 0.0))

    def _retransmit(
        self, source: NDArray[np.intp], target: NDArray[np.intp], lost: Floats, key: NDArray[np.intp]
    ) -> None:
        chance, now = self._cluster.chance, self._cluster.now
        tail = chance.binomial("tail", now, key, lost, TAIL)
        reads = chance.binomial("reads", now, key, lost - tail, READS)
        self._at_ports("ack_timeout", source, tail)
        self._at_ports("implied_nak", source, reads)
        self._at_ports("seq_nak_rx", source, lost - tail - reads)
        self._at_ports("retrans_packets", source, lost)
        self._at_ports("retrans_bytes", source, lost * PACKET)
        self._at_ports("out_of_sequence_rx", target, (lost - tail) * DISORDER)
        self._at_ports("duplicate_request", target, tail)

    def _at_ports(self, column: str, rows: NDArray[np.intp], amounts: Floats) -> None:
        """Count on ports that may be in `rows` more than once."""
        if amounts.any() and column in self._cluster.ports.raw:
            self._cluster.ports.count(column, np.bincount(rows, amounts, self._cluster.layout.ports).astype(float))

    def begin(self, rows: NDArray[np.intp]) -> None:
        """Set up a job's connections on these ports: the first transfers make some retransmissions."""
        if not len(rows):
            return
        least, most = START_RETRANSMITS
        again = np.floor(self._cluster.chance.uniform("start", self._cluster.now, rows, least, most + 1))
        mine = np.flatnonzero(np.isin(self.flows.source, rows))
        if len(mine):
            per = np.zeros(self._cluster.layout.ports)
            per[rows] = again
            each = per[self.flows.source[mine]] * self.flows.weight[mine]
            self.registers.count("flow_lost", np.floor(each), mine)
        self._retransmit(rows, rows, again, rows)
