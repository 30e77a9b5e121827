"""What a cause makes others count: loss on a path, a dead peer, a host that does not take what arrives. Pure.

Loss: the receiver sees a hole and asks again (a negative acknowledgement at the sender); where the last packets of a
message are lost nobody asks, and the sender's timer fires. A dead peer answers nothing: timers fire until the queue
pair gives up. Back-pressure: what arrives faster than a host takes it is paused, and the pause reaches the senders
and, weaker, the neighbours below the same leaf. What arrives faster than a link takes it is marked, and senders slow
down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricmon.sim.flows import Flows, Gray
from fabricmon.sim.registers import Floats, Registers

if TYPE_CHECKING:
    from fabricmon.sim.world import World

PACKET = 4096 + 26
"""Bytes of a full packet: the usual InfiniBand MTU and its headers, which port_xmit_data counts too."""
QUEUE_PAIRS = 4
"""Queue pairs of one flow, each with its own timer."""
ACK_TIMEOUT = 4.3
"""Seconds until a queue pair's timer fires: 4.096 us x 2^20, the default of the usual collective library."""
RETRIES = 7
"""Timeouts after which a queue pair gives up."""
WINDOW = 16
"""Packets that a queue pair sends again after a timeout."""
TAIL, READS = 0.02, 0.03
"""Shares of losses that only a timer finds, and that a read's requester infers from a later answer."""
DISORDER = 8
"""Packets that arrive out of sequence behind a lost one, until the sender has gone back."""
TAKEN = 0.95
"""Share of its PCIe link's payload rate that an adapter can hand to its host."""
FULL = 0.97
"""Share of the line rate that arrives where more is sent: gaps and acknowledgements are the rest."""
MARKED_MOST = 0.11
"""Share of marked packets that rate control settles at in a very crowded queue."""
PAUSED_SENDERS = (0.35, 0.7)
"""Share of a slow host's pausing that its senders feel, least and most; its neighbours below the leaf feel"""
PAUSED_NEIGHBOURS = 0.12
NEIGHBOURS = 4
CNP_EVERY = 8.0
"""Marked packets for one congestion notification: the receiver answers a flow at most every 50 microseconds."""
START_RETRANSMITS = (10, 50)
"""Retransmits of a port while a job sets up its connections, least and most (scenario S24)."""


@dataclass(frozen=True)
class Burst:
    """Some ports send to one port beside their other traffic; `rate`: bytes per second each would like to send."""

    sources: tuple[int, ...]
    target: int
    rate: float


class Effects:
    """Works on a world's counters at each stretch of time. `settle` anew whenever a cause, a job or a rate changed."""

    def __init__(self, world: World, flows: Flows) -> None:
        self._world, self.flows = world, flows
        self.registers = Registers(len(flows), ("flow_packets", "flow_lost"))
        self.grays: dict[str, tuple[Gray, ...]] = {}
        self.cables: dict[str, dict[int, float]] = {}
        self.ports: dict[str, dict[int, float]] = {}
        self.bursts: dict[str, Burst] = {}
        self.choked: dict[str, tuple[int, float]] = {}
        self.dead_switches: set[int] = set()
        self.dead_cables: set[int] = set()
        self._waited = np.zeros(len(flows))
        self._taken = np.ones(world.layout.ports)
        self._extra = np.zeros(world.layout.ports)
        self._into = np.zeros(world.layout.ports)
        self._fed = np.bincount(flows.target, minlength=world.layout.ports) > 0
        self._stale = self._unrouted = True

    # --- what changes

    def changed(self, routes: bool = False) -> None:
        """Something that effects follow from has changed; `routes`: a switch or cable came or went."""
        self._stale = True
        self._unrouted |= routes

    def settle(self) -> None:
        """Bring losses and pressure in line with their causes. Called before time passes."""
        if not self._stale:
            return
        self._stale, world, flows = False, self._world, self.flows
        lossy = any(self.grays.values()) or any(self.cables.values())
        rerouted = flows.routed and self._unrouted
        wanted = world.show_flows or lossy or self.dead_switches or self.dead_cables or rerouted
        if wanted and (self._unrouted or not flows.routed):
            self._unrouted = False
            before = list(flows.words)
            moves = flows.route(self.dead_switches, self.dead_cables, world.show_flows)
            if moves and world.show_flows and before:
                moved = np.array([old != new for old, new in zip(before, flows.words, strict=True)], np.bool_)
                world.hosts.reshape(np.unique(world.layout.host_of[flows.source[moved]]))
        merged: list[dict[int, float]] = [{}, {}]
        for into, causes in zip(merged, (self.cables, self.ports), strict=True):
            for ratios in causes.values():
                for at, ratio in ratios.items():
                    into[at] = 1 - (1 - into.get(at, 0.0)) * (1 - ratio)
        if flows.routed or self.ports:
            flows.lose([gray for grays in self.grays.values() for gray in grays], *merged)
        self._press()

    def _press(self) -> None:
        """Who is sent more than it, or its link, can take; and what that does to others."""
        world, flows, ports = self._world, self.flows, self._world.layout.ports
        running = self._running()
        offered = world.traffic.peak() * world.links.rate
        wanted = offered[flows.source] * flows.weight * running
        demand: Floats = np.bincount(flows.target, wanted, ports).astype(float)
        self._extra, self._into = np.zeros(ports), np.zeros(ports)
        for burst in self.bursts.values():
            at = np.array(burst.sources, np.intp)
            self._extra[at] += burst.rate
            self._into[burst.target] += burst.rate * len(at)
        demand += self._into
        host = TAKEN * world.inside.pcie_rate()[world.layout.pcie_of]
        for row, share in self.choked.values():
            host[row] = min(host[row], share * world.links.rate[row])
        link = FULL * world.links.rate
        takes = np.minimum(host, link)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._taken = np.where(demand > takes, takes / demand, 1.0)
        slow = np.flatnonzero((demand > host) & (host < link))
        crowded = np.flatnonzero((demand > link) & (host >= link))
        for overlay in (world.stall, world.pausing, world.speed, world.marked, world.notified):
            overlay.take("pressure")
        if len(slow) or len(crowded):
            self._spread(slow, crowded, running)

    def _spread(self, slow: NDArray[np.intp], crowded: NDArray[np.intp], running: NDArray[np.bool_]) -> None:
        world, flows, layout = self._world, self.flows, self._world.layout
        stall, speed, notified = np.zeros(layout.ports), np.ones(layout.ports), np.zeros(layout.ports)
        pausing = 1 - self._taken
        least, most = PAUSED_SENDERS
        for target in slow.tolist():
            mine = np.flatnonzero((flows.target == target) & running)
            senders = np.concatenate([flows.source[mine], self._senders(target)]).astype(np.intp)
            felt = least + (most - least) * np.random.default_rng((world.seed, target)).uniform(0, 1, len(senders))
            stall[senders] = np.maximum(stall[senders], felt * pausing[target])
            speed[flows.source[mine]] *= 1 - flows.weight[mine] * pausing[target]
            below = np.flatnonzero((layout.leaf == layout.leaf[target]) & (layout.leaf >= 0))
            near = [row for row in below.tolist() if row != target and row not in set(senders.tolist())]
            near = near[: NEIGHBOURS] if len(near) <= NEIGHBOURS else near[target % len(near) :][:NEIGHBOURS]
            stall[near] = np.maximum(stall[near], PAUSED_NEIGHBOURS * pausing[target])
        for target in crowded.tolist():
            senders = np.concatenate([flows.source[(flows.target == target) & running], self._senders(target)])
            packets = FULL * world.links.rate[target] / PACKET
            share = MARKED_MOST * pausing[target]
            notified[senders.astype(np.intp)] += packets * share / CNP_EVERY / max(1, len(senders))
            if not world.ethernet:  # credits take the place of marks: senders wait
                stall[senders.astype(np.intp)] = np.maximum(stall[senders.astype(np.intp)], pausing[target] / 2)
        every = np.arange(layout.ports)
        world.stall.put("pressure", every, stall)
        world.speed.put("pressure", every, speed)
        world.notified.put("pressure", every, notified)
        world.pausing.put("pressure", slow, pausing[slow])
        world.marked.put("pressure", crowded, MARKED_MOST * pausing[crowded])

    def _senders(self, target: int) -> NDArray[np.intp]:
        """Ports that send to it in bursts."""
        found = [row for burst in self.bursts.values() if burst.target == target for row in burst.sources]
        return np.array(found, np.intp)

    def _running(self) -> NDArray[np.bool_]:
        """Flows whose job is at work; those to a port that a burst keeps busy rest meanwhile."""
        running = self._world.traffic.job_of[self.flows.source] == self.flows.job
        if self.bursts:
            running &= ~np.isin(self.flows.target, [burst.target for burst in self.bursts.values()])
        return np.asarray(running)

    # --- as time passes

    def move(self, sent: Floats, on: NDArray[np.bool_], dt: float) -> tuple[Floats, Floats]:
        """What ports send and receive in `dt` seconds, bytes, given what they would send; counts what is lost."""
        world, flows = self._world, self.flows
        running = self._running()
        reached = on[flows.target] & ~flows.broken
        wanted = running & (world.traffic.peak()[flows.source] > 0)
        waits = wanted & ~(reached & on[flows.source])
        waits &= ~world.hosts.off[world.layout.host_of[flows.source]] & world.present[flows.source]
        sent = np.where(self._stalled(waits), 0.0, sent)
        weight = flows.weight * running
        blocked = np.bincount(flows.source, weight * ~reached, world.layout.ports)
        sent = sent * (1 - np.minimum(1.0, blocked))
        lines = world.links.rate * dt
        extra = np.minimum(self._extra * dt * on, np.maximum(0.0, lines - sent))
        way = sent[flows.source] * weight * reached / np.maximum(1e-9, 1 - blocked[flows.source])
        arrives = np.bincount(flows.target, way * (1 - flows.loss), world.layout.ports)
        got = np.where(self._fed & ~world.layout.storage, arrives, sent) + self._into * dt
        self._lose(way, waits, dt)
        return sent + extra, np.minimum(got * self._taken, lines) * on

    def _stalled(self, waits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Ports of jobs that go on together or not at all, and of which some transfer waits for a dead peer."""
        world = self._world
        jobs = [at for at in np.unique(self.flows.job[waits]).tolist() if at >= 0 and world.traffic.jobs[at].together]
        for at in jobs:
            mine = waits & (self.flows.job == at)
            if (self._waited[mine] >= RETRIES * ACK_TIMEOUT).any():
                world.traffic.stop(world.traffic.jobs[at].name, world.now)
        return np.isin(world.traffic.job_of, jobs) & ~world.layout.storage

    def _lose(self, way: Floats, waits: NDArray[np.bool_], dt: float) -> None:
        flows, random = self.flows, self._world.random
        packets = way / PACKET
        self.registers.grow("flow_packets", packets)
        lossy = np.flatnonzero((flows.loss > 0) & (way > 0))
        if len(lossy):
            lost = random.binomial(np.maximum(packets[lossy], 0).astype(np.int64), flows.loss[lossy]).astype(float)
            self.registers.count("flow_lost", lost, lossy)
            self._retransmit(flows.source[lossy], flows.target[lossy], lost)
        self._waited = np.where(waits, self._waited + dt, 0.0)
        dead = np.flatnonzero(waits)
        if not len(dead):
            return
        timeouts: Floats = random.poisson(QUEUE_PAIRS * dt / ACK_TIMEOUT, len(dead)).astype(float)
        self._at_ports("ack_timeout", flows.source[dead], timeouts)
        self.registers.count("flow_packets", timeouts * WINDOW, dead)
        self.registers.count("flow_lost", timeouts * WINDOW, dead)
        gave_up = (self._waited[dead] >= RETRIES * ACK_TIMEOUT) & (self._waited[dead] - dt < RETRIES * ACK_TIMEOUT)
        self._at_ports("retries_exceeded", flows.source[dead], np.where(gave_up, float(QUEUE_PAIRS), 0.0))

    def _retransmit(self, source: NDArray[np.intp], target: NDArray[np.intp], lost: Floats) -> None:
        tail = self._world.random.binomial(lost.astype(np.int64), TAIL).astype(float)
        reads = self._world.random.binomial((lost - tail).astype(np.int64), READS).astype(float)
        self._at_ports("ack_timeout", source, tail)
        self._at_ports("implied_nak", source, reads)
        self._at_ports("seq_nak_rx", source, lost - tail - reads)
        self._at_ports("out_of_sequence_rx", target, (lost - tail) * DISORDER)
        self._at_ports("duplicate_request", target, tail)

    def _at_ports(self, column: str, rows: NDArray[np.intp], amounts: Floats) -> None:
        """Count on ports that may stand in `rows` more than once."""
        if amounts.any():
            self._world.ports.count(column, np.bincount(rows, amounts, self._world.layout.ports).astype(float))

    def begin(self, rows: NDArray[np.intp]) -> None:
        """A job sets up its connections on these ports: first transfers bring some retransmits."""
        if not len(rows):
            return
        most = START_RETRANSMITS[1] + 1
        again = self._world.random.integers(START_RETRANSMITS[0], most, len(rows)).astype(float)
        mine = np.flatnonzero(np.isin(self.flows.source, rows))
        if len(mine):
            per = np.zeros(self._world.layout.ports)
            per[rows] = again
            each = per[self.flows.source[mine]] * self.flows.weight[mine]
            self.registers.count("flow_lost", np.floor(each), mine)
        self._retransmit(rows, rows, again)
