"""One step of the world: what jobs send, where it passes, what is counted, how warm and bright it is."""

from __future__ import annotations

import numpy as np

from tests.stories.infiniband.columns import STOPS_AT
from tests.stories.infiniband.parts import HostPort, Job
from tests.stories.infiniband.world import ACTIVE, STEP, Rows, Values, World

TICKS_A_SECOND = 3e6
"""Of xmit_wait."""
PACKET, MESSAGE = 4096, 65536
"""Bytes."""
OUT_OF_ORDER = 1e-5
"""Share of packets that adaptive routing delivers out of sequence."""


def advance(world: World) -> None:
    """Let one step pass. The order of the draws is part of a story."""
    sent, received = _traffic(world)
    _count(world, sent, received)
    for counter, counts in world.whole():
        world.port[counter][:] += counts
        if counter in STOPS_AT:
            np.minimum(world.port[counter], STOPS_AT[counter], out=world.port[counter])
    _sensors(world)
    _nvlinks(world)
    world.now = round(world.now + STEP, 4)


def _traffic(world: World) -> tuple[Values, Values]:
    """Bytes that each port sends and receives in this step."""
    rng, adapters = world.rng, world.adapters
    use = np.zeros(world.size)
    for job in world.jobs:
        if job.runs(world.now):
            load = _share_of_sending(job) * job.load
            rows = _rows(world, job)
            use[rows] = np.maximum(use[rows], load * rng.normal(1, 0.03, len(rows)))
    idle = rng.exponential(2e-5, len(adapters))
    use[adapters] = np.clip(np.maximum(use[adapters], idle), 0, 0.97) * world.capacity[adapters]
    by_host = use * world.rate * (world.port["state"] == ACTIVE) * STEP
    to_host = np.zeros(world.size)
    to_host[adapters] = by_host[adapters] * rng.normal(1, 0.01, len(adapters))
    sent, received = by_host.copy(), to_host.copy()
    leaf_ends = world.peer[adapters]
    sent[leaf_ends], received[leaf_ends] = to_host[adapters], by_host[adapters]
    _cross(world, by_host, sent, received)
    return sent, received


def _share_of_sending(job: Job) -> float:
    """Share of this step in which the job communicates."""
    moments = job.position + np.linspace(0, STEP * job.speed, 9)[:-1]
    job.position += STEP * job.speed
    return float(np.mean((moments % job.period) < job.share * job.period))


def _rows(world: World, job: Job) -> Rows:
    if job.rows is None:
        ports = [world.plant.ports[row] for row in world.rows_of(job.hosts)]
        job.rows = np.array([port.row for port in ports if isinstance(port, HostPort) and job.uses(port)])
    return job.rows


def _cross(world: World, by_host: Values, sent: Values, received: Values) -> None:
    """Traffic between leaves is spread evenly over the uplinks that are active."""
    for leaf, uplinks in world.uplinks.items():
        active = np.array([row for row in uplinks if world.port["state"][row] == ACTIVE], int)
        if not len(active):
            continue
        total = by_host[world.of_leaf[leaf]].sum() * world.crossing
        each = total / len(active) * world.rng.normal(1, 0.02, len(active))
        for rows in (active, world.peer[active]):
            sent[rows] += each
            received[rows] += each


def _count(world: World, sent: Values, received: Values) -> None:
    rng, port = world.rng, world.port
    moves = ~world.frozen
    port["xmit"][moves] += np.floor(sent[moves])
    port["rcv"][moves] += np.floor(received[moves])
    world.use = sent / (world.rate * STEP)
    waits = 0.004 * world.use + 0.05 * world.use**3 + world.waiting * np.where(world.use > 0.001, 1, 0.02)
    ticks = np.clip(waits, 0, 1) * STEP * TICKS_A_SECOND * np.exp(rng.normal(0, 0.25, world.size))
    world.add("xmit_wait_ticks", moves, ticks[moves])
    world.add("rdma_rx_write_requests", moves, received[moves] / MESSAGE)
    world.add("out_of_sequence_rx", moves, received[moves] / PACKET * OUT_OF_ORDER)
    everywhere = slice(None)
    world.add("ack_timeout", everywhere, rng.poisson(world.stray_timeouts * STEP))
    world.add("symbol_errors", everywhere, rng.poisson(world.stray_symbol_errors * STEP))
    world.add("out_of_buffer", everywhere, rng.poisson(world.stray_out_of_buffer * STEP))
    world.add("xmit_packets", moves, sent[moves] / PACKET)
    world.add("rcv_packets", moves, received[moves] / PACKET)
    for (counter, row), rate in world.rates.items():
        world.add(counter, row, rng.poisson(max(rate(world.now), 0) * STEP))


def _sensors(world: World) -> None:
    rng, port, size = world.rng, world.port, world.size
    warm = world.usual_temperature + world.heat + 6 * world.use + rng.normal(0, 0.3, size)
    port["module_temperature"][:] = np.round(warm, 1)
    for lane in range(4):
        light = world.usual_light[lane] * world.light * rng.normal(1, 0.01, size)
        port[f"module_rx_power_lane{lane}"][:] = light
    port["nic_temperature"][:] = np.round(58 + 10 * world.use + world.heat * 0.3 + rng.normal(0, 0.5, size))


def _nvlinks(world: World) -> None:
    """NVLinks carry as a share of 450 GB/s what the ports of the host do on average."""
    by_host = np.array([world.use[host.ports].mean() for host in world.hosts])
    use = by_host[[gpu.host.row for gpu in world.plant.gpus]]
    for counter in ("gpu_nvlink_tx", "gpu_nvlink_rx"):
        sent = use * 450e9 * 0.6 * STEP * world.rng.normal(1, 0.02, len(use))
        world.gpu[counter][:] += np.floor(sent)
