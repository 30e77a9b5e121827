"""One Ethernet fabric in steps of STEP_S: what its hosts send, lose, mark and pause, and what is counted of it.

The physics and its coefficients are those of the tester who wrote the stories: an oracle that knows nothing of the
engine, so neither is ever fitted to the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.stories.ethernet.clusters import Cluster
from tests.stories.ethernet.counters import Counters
from tests.stories.ethernet.jobs import FLOWS_OF_A_PORT, Jobs
from tests.stories.ethernet.routes import Routes, routes
from tests.stories.ethernet.state import Flags, Floats, State
from tests.stories.ethernet.wiring import Wiring

STEP_S = 2.5
PACKET = 4150  # bytes on the wire of a packet with 4 KiB
EFA_PACKET = 8900
PAUSE_S = 45e-6  # of a pause frame
MOST_CNPS = 25e3  # per second and port


@dataclass(frozen=True)
class Load:
    """What the flows carry, and who is too slow for them.

    carried    bytes per second of each flow [flows]
    loss       share of its packets that are lost [flows]
    offered    what the target's flows want, as a share of its rate [hosts, ports]
    over       share of that which the target's adapter cannot pass on to its host [hosts, ports]
    link_over  share of that which its link is too slow for [hosts, ports]
    """

    carried: Floats
    loss: Floats
    offered: Floats
    over: Floats
    link_over: Floats


@dataclass(frozen=True)
class Losses:
    """Events of one step [hosts, ports]: what receivers and senders see of lost packets."""

    out_of_sequence: Floats
    naks: Floats
    timeouts: Floats
    retries_exceeded: Floats


@dataclass(frozen=True)
class Congestion:
    """Packets of one step [hosts, ports]."""

    marked: Floats
    cnps_sent: Floats
    cnps_handled: Floats


class World:
    """The fabric of a cluster. `step` moves it on; stories change `state` between two steps.

    links       legs with a link [hosts, legs]
    lost_link   legs that lost it in the last step
    rx_share    received, as a share of the leg's rate [hosts, legs]
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rng = np.random.default_rng(cluster.seed)
        self.wiring = Wiring(cluster)
        self.state = State(cluster, self.wiring, self.rng)
        self.jobs = Jobs(cluster, self.state.dead, self.rng)
        self.counters = Counters(self.rng)
        self.storage_saturated = False
        self.links: Flags = self._links()
        self.lost_link: Flags = np.zeros_like(self.links)
        self.rx_share: Floats = np.zeros(self.links.shape)

    def of_ports(self, legs: Floats | Flags) -> Floats:
        """Sum over the legs of each port."""
        return legs.reshape(self.cluster.hosts, self.cluster.ports, -1).sum(2)

    def of_legs(self, ports: Floats | Flags) -> Floats:
        """The value of each leg's port."""
        return np.repeat(ports, self.cluster.legs_of_port, 1)

    def step(self, time: float) -> None:
        state, jobs = self.state, self.jobs
        self.links = self._links()
        ways = routes(self.cluster, self.wiring, jobs, state, self.links, self.rng)
        activity = jobs.activity(time)
        given_up = jobs.wait(ways.cut, STEP_S)
        load = self._load(ways, activity)
        tx, rx = self._traffic(ways, load)
        self.rx_share = rx / state.rate
        lively = self.of_ports(rx) > 1e7
        losses = self._losses(ways, load, given_up, time, lively)
        congestion = self._congestion(ways, load, rx)
        pausing = self._pause_sent(load)
        paused = self._pause_received(ways, load, tx)
        self._count_rdma(tx, rx, losses, congestion, lively)
        self._count_efa(tx, rx, losses)
        self._count_legs(tx, rx, paused, self.of_legs(pausing))
        self.lost_link = self.counters.carrier(self.links)

    def _links(self) -> Flags:
        return self.state.up & self.state.leaf_up[self.wiring.leaf] & ~self.state.dead[:, None]

    # What the flows carry

    def _load(self, ways: Routes, activity: Floats) -> Load:
        state, jobs = self.state, self.jobs
        at = (ways.target, ways.target_port)
        wanted = state.rate[ways.source, ways.source_leg] / FLOWS_OF_A_PORT * activity[ways.job]
        loss = ways.loss(state, activity)
        offered = np.zeros(state.capacity.shape)
        np.add.at(offered, at, np.where(ways.alive, wanted, 0))
        offered /= self.of_ports(state.rate)
        capacity = state.capacity * (1 - state.storm)
        over = (1 - capacity / np.clip(offered, 1e-9, 1)).clip(0, 0.995) * (offered > 0)
        link_over = (1 - 1 / np.maximum(offered, 1e-9)).clip(0, 0.9) * (offered > 1)
        passed = np.minimum(1, capacity / np.maximum(offered, 1e-9))
        share = 1 / (1 + np.minimum(loss, 0.5) * 120) * passed[at]
        share = share * (1 - 0.5 * state.congestion[ways.target_leaf])
        share *= (1 - link_over)[at]
        jobs.proceed(self._slowest(ways, share))
        carried = np.where(ways.alive, wanted * np.minimum(jobs.speed[ways.job], 1), 0)
        carried = np.minimum(carried, np.where(ways.alive, wanted * share * 1.05, 0))
        return Load(carried, loss, offered, over, link_over)

    def _slowest(self, ways: Routes, share: Floats) -> Floats:
        """Share of what it wants that the slowest flow of each job gets; of a large job, nearly the slowest."""
        slowest = np.ones(len(self.jobs.running))
        for job in range(len(slowest)):
            flows = share[ways.running & (ways.job == job)]
            if len(flows):
                slowest[job] = max(0.02, np.quantile(flows, 0.002) if len(flows) > 500 else flows.min())
        return slowest

    def _traffic(self, ways: Routes, load: Load) -> tuple[Floats, Floats]:
        """Bytes per second that each leg sends and receives."""
        state = self.state
        tx, rx = np.zeros(state.rate.shape), np.zeros(state.rate.shape)
        np.add.at(tx, (ways.source, ways.source_leg), load.carried)
        np.add.at(rx, (ways.target, ways.target_leg), load.carried)
        for port in self.cluster.storage:
            tx[:, port], rx[:, port] = state.rate[:, port] * 0.05, state.rate[:, port] * 0.08
            if self.storage_saturated:
                tx[:16, port], rx[:16, port] = state.rate[:16, port] * 0.4, state.rate[:16, port] * 0.97
        return self._jitter(tx), np.minimum(self._jitter(rx), state.rate)

    def _jitter(self, rates: Floats) -> Floats:
        return rates * self.rng.normal(1, 0.02, rates.shape).clip(0.8, 1.2)

    # What is lost, marked and paused

    def _losses(self, ways: Routes, load: Load, given_up: Flags, time: float, lively: Flags) -> Losses:
        rng, jobs, shape = self.rng, self.jobs, lively.shape
        sources, targets = (ways.source, ways.source_port), (ways.target, ways.target_port)
        events = rng.poisson((load.carried / PACKET * load.loss * STEP_S).clip(0, 2e5) * 0.2)
        timeouts = rng.poisson(events * 0.03)
        unanswered = np.where(ways.cut, rng.poisson(1.2 * STEP_S * 0.5, len(ways.job)), 0)
        timeouts = timeouts + unanswered * (jobs.stalled[ways.job] < 40)
        late, naks, waited, ended = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape)
        np.add.at(late, targets, events * 6)
        np.add.at(naks, sources, events)
        np.add.at(waited, sources, timeouts)
        if given_up.any():
            ends = ways.cut & given_up[ways.job] & ~self.state.dead[ways.source]
            np.add.at(ended, (ways.source[ends], ways.source_port[ends]), 1)
            jobs.end(given_up, time)
        jobs.restart(time, self.state, self.links)
        # Now and then a packet is late, and a few are lost, on every fabric.
        stray = rng.random(shape) < 0.002
        late += stray * rng.integers(1, 4, shape) * lively
        naks += (rng.random(shape) < 0.001) * lively
        return Losses(late, naks, waited, ended)

    def _congestion(self, ways: Routes, load: Load, rx: Floats) -> Congestion:
        usual = 0.0006 * self.rx_share.clip(0, 1) ** 2 * self.rng.exponential(1, rx.shape)
        storage = np.isin(np.arange(rx.shape[1]), list(self.cluster.storage)) * (self.rx_share > 0.9)
        full = (
            0.03 * storage
            + 0.12 * self.of_legs(load.over)
            + 0.2 * self.of_legs(load.link_over)
            + 0.08 * self.state.congestion[self.wiring.leaf]
        )
        share = (usual + full).clip(0, 0.6)
        marked = self.of_ports(self.rng.poisson((rx / PACKET * share * STEP_S).clip(0, 1e9))).astype(float)
        cnps = np.floor(np.minimum(marked * 0.5, MOST_CNPS * STEP_S))
        at = (ways.target, ways.target_port)
        received, handled = np.zeros(marked.shape), np.zeros(marked.shape)
        np.add.at(received, at, load.carried)
        np.add.at(handled, (ways.source, ways.source_port), load.carried / np.maximum(received[at], 1) * cnps[at])
        return Congestion(marked, cnps, np.floor(handled))

    def _pause_sent(self, load: Load) -> Floats:
        """Share of time that each port pauses its switch [hosts, ports]."""
        runs = self.jobs.running[np.maximum(self.jobs.of_host, 0)][:, None]
        busy = load.offered * runs > 0.02
        share = np.maximum(load.over * 0.85 * busy, self.state.storm * 0.98)
        noise = self.rng.normal(1, 0.04, share.shape)
        return np.where(share > 0, (share * noise).clip(0, 0.995), 0)

    def _pause_received(self, ways: Routes, load: Load, tx: Floats) -> Floats:
        """Share of time that each leg is paused by its switch [hosts, legs]."""
        state, rng, leaf = self.state, self.rng, self.wiring.leaf
        usual = 0.0006 * (tx / state.rate) * rng.exponential(1, tx.shape) * (rng.random(tx.shape) < 0.3)
        at, senders = (ways.target, ways.target_port), np.zeros(tx.shape)
        slow = 0.25 * load.over[at] + 0.15 * load.link_over[at]
        np.maximum.at(senders, (ways.source, ways.source_leg), np.where(ways.running, slow, 0))
        leaves = np.zeros(len(state.leaf_up))
        np.maximum.at(leaves, leaf.ravel(), (self.of_legs(load.over) * 0.06).ravel())
        share = usual + np.where(tx > 1e6, senders + leaves[leaf], 0)
        share = share + state.paused + 0.3 * state.congestion[leaf] * (tx > 1e6)
        return (share * rng.normal(1, 0.08, tx.shape)).clip(0, 0.97) * self.links

    # What is counted

    def _count_rdma(self, tx: Floats, rx: Floats, losses: Losses, congestion: Congestion, lively: Flags) -> None:
        rng, add = self.rng, self.counters.add
        counts = ~self.state.counters_stand
        sent, received = self.of_ports(tx), self.of_ports(rx)
        packet = EFA_PACKET if self.cluster.driver(0) == "efa" else PACKET
        add("tx_bytes", np.floor(sent * STEP_S) * counts)
        add("rx_bytes", np.floor(received * STEP_S) * counts)
        add("tx_packets", np.floor(sent / packet * STEP_S + losses.timeouts * 10) * counts)
        add("rx_packets", np.floor(received / PACKET * STEP_S) * counts)
        add("out_of_sequence", losses.out_of_sequence * counts)
        add("naks", losses.naks * counts)
        add("timeouts", (losses.timeouts + (rng.random(lively.shape) < 0.0006) * lively) * counts)
        add("retries_exceeded", losses.retries_exceeded * counts)
        add("ecn_marked", congestion.marked * counts)
        add("cnps_sent", congestion.cnps_sent * counts)
        add("cnps_handled", congestion.cnps_handled * counts)
        add("adaptive_retransmissions", rng.poisson(losses.naks * 0.8) * counts)
        add("rnr_naks", rng.poisson(self.state.rnr_naks * STEP_S) * counts)
        add("duplicates", rng.poisson(losses.out_of_sequence * 0.1) * counts)
        add("implied_naks", rng.poisson(losses.naks * 0.02) * counts)
        add("out_of_buffer", np.zeros(lively.shape))

    def _count_efa(self, tx: Floats, rx: Floats, losses: Losses) -> None:
        rng, state, add = self.rng, self.state, self.counters.add
        counts = ~state.counters_stand
        again = losses.naks * 25 + losses.timeouts * 10
        again = again + state.retransmits * self.of_ports(tx) / EFA_PACKET * STEP_S
        add("retransmitted_packets", again.round() * counts)
        add("retransmitted_bytes", again.round() * counts * EFA_PACKET)
        add("peers_unresponsive", rng.poisson(state.peers_unresponsive * STEP_S) * counts)
        add("peers_impaired", np.zeros(counts.shape))
        add("keep_alives", np.where(state.hangs & state.keep_alives_stop, 0, 1) * STEP_S)
        add("drops", np.zeros(counts.shape))

    def _count_legs(self, tx: Floats, rx: Floats, paused: Floats, pausing: Floats) -> None:
        """Counters of the physical ports; `paused` by the switch and `pausing` it are shares of time."""
        rng, state, add, links = self.rng, self.state, self.counters.add, self.links
        counts = self.of_legs(~state.counters_stand)
        add("pause_rx_frames", np.floor(paused * STEP_S / PAUSE_S) * counts)
        add("pause_tx_frames", np.floor(pausing * STEP_S / PAUSE_S) * counts)
        add("pause_rx_seconds", paused * STEP_S * counts)
        add("pause_tx_seconds", pausing * STEP_S * counts)
        add("pause_rx_transitions", np.floor(np.floor(paused * STEP_S / PAUSE_S) / 2) * counts)
        add("wire_rx_bytes", np.floor(rx * 1.03 * STEP_S + 2e4) * counts * links)
        add("wire_tx_bytes", np.floor(tx * 1.03 * STEP_S + 2e4) * counts * links)
        add("fcs_errors", rng.poisson(state.fcs_errors * STEP_S * (rx > 1e6)) * counts)
        add("fec_corrected", rng.poisson(state.fec_corrected * STEP_S) * links)
        add("fec_uncorrectable", rng.poisson(state.fec_uncorrectable * STEP_S) * links)
        add("discards", np.zeros(counts.shape))
        add("buffer_pressure", np.floor(pausing * 800 * STEP_S) * counts)
        add("kernel_rx_bytes", rng.integers(20_000, 80_000, links.shape) * links * 1.0)
        add("kernel_tx_bytes", rng.integers(20_000, 80_000, links.shape) * links * 1.0)
        add("firmware_faults", state.firmware_faults)
        state.firmware_faults = np.zeros_like(state.firmware_faults)
        add("pcie_fatal_logs", np.zeros_like(state.firmware_faults))
        add("pcie_corrected", rng.poisson(state.pcie_corrected * STEP_S) * 1.0)
