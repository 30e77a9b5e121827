"""Slow receivers, storms, and packets that are lost without a link that counts errors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from tests.stories.infiniband.clusters import dgx
from tests.stories.infiniband.expected import assert_named, assert_one_incident, assert_only, assert_silent
from tests.stories.infiniband.parts import HostPort, Job
from tests.stories.infiniband.play import FAULT, play
from tests.stories.infiniband.world import World


def _slow_down(world: World, speed: float) -> None:
    """The first job runs at that speed from the fault on."""

    def slow() -> None:
        world.jobs[0].speed = speed

    world.at(FAULT, slow)


def test_a_job_runs_slower_and_no_part_is_at_fault(tmp_path: Path) -> None:
    """One of its hosts throttles: all its ports send a third less. Nothing."""
    world = dgx(25)
    _slow_down(world, 0.7)
    assert_silent(play(world, world.plant.plan(tmp_path), until=240))


def test_a_checkpoint_goes_to_the_storage_at_once(tmp_path: Path) -> None:
    """56 hosts write for 90 s: waits, RNR NAKs, some timeouts. Nothing."""
    world = dgx(26, storage=True)
    ports = [row for host in world.hosts[:56] for row in host.ports[8:]]

    def for_storage(port: HostPort) -> bool:
        return port.role == "storage"

    world.jobs.append(Job(world.hosts[:56], 3, 0.9, 0.5, start=FAULT, end=FAULT + 90, uses=for_storage))
    for row in ports:
        world.count("rnr_nak_rx", row, 5, FAULT, FAULT + 90)
        world.count("ack_timeout", row, 0.02, FAULT, FAULT + 90)
    world.change(FAULT, world.waiting, ports, 0.4)
    world.change(FAULT + 90, world.waiting, ports, 0)
    for job in world.jobs[:2]:
        job.halt(FAULT, FAULT + 90)
    assert_silent(play(world, world.plant.plan(tmp_path), until=180))


@pytest.mark.xfail(strict=True, reason="nothing comes: ports that wait a part of the time, with a job that slows down")
def test_a_host_receives_slowly_on_all_adapters(tmp_path: Path) -> None:
    """Its leaf ports wait 85 % of the time, and so does the host that sends to it. That host within 3 min."""
    world = dgx(38, sweep=True)
    world.port["xmit_wait_ticks"][:] = np.minimum(world.port["xmit_wait_ticks"], 5e8)
    host, sender = world.host("dgx-019"), world.host("dgx-018")
    world.change(FAULT, world.waiting, world.peer[host.ports], 0.85)
    world.change(FAULT, world.waiting, sender.ports, 0.8)
    for row in sender.ports:
        world.count("rnr_nak_rx", row, 2, FAULT)
    _slow_down(world, 0.6)
    inbox = play(world, world.plant.plan(tmp_path), until=180)
    assert_named(inbox, "dgx-019", by=180)
    assert_only(inbox, "dgx-019", most=1)


@pytest.mark.xfail(strict=True, reason="nothing comes: ended connections of two peers could be a crashed process")
def test_an_adapter_hangs_and_its_peers_time_out(tmp_path: Path) -> None:
    """Active, its counters stand still; no log. The adapter, or loss on rail 7; not one of the two peers alone."""
    world = dgx(37, kernel_log=False)
    world.change(FAULT, world.frozen, world.row("dgx-025", 7), True)
    world.jobs[0].halt(FAULT + 2)
    peers = [world.row(host, 7) for host in ("dgx-024", "dgx-026")]
    for row in peers:
        world.count("ack_timeout", row, 4, FAULT + 2, FAULT + 300)
        for counter in ("retries_exceeded", "req_cqe_error"):
            world.count(counter, row, 0.2, FAULT + 20, FAULT + 300)
    inbox = play(world, world.plant.plan(tmp_path), until=200)
    assert_named(inbox, r"dgx-025/mlx5_7|rail\(7\)|rail7|leaf-su1-r7", by=200)


def _lossy(world: World, rows: Iterable[int], nak: float, timeouts: float) -> None:
    """Packets to these ports are lost: NAKs and timeouts per second."""
    for row in rows:
        world.count("seq_nak_rx", row, nak, FAULT)
        world.count("out_of_sequence_rx", row, nak, FAULT)
        world.count("ack_timeout", row, timeouts, FAULT)
    _slow_down(world, 0.6)


_THIN = pytest.mark.xfail(strict=True, reason="nothing comes: 4e-6 is below the loss that is reported")


@pytest.mark.parametrize("factor", [pytest.param(1, marks=_THIN), 10])
def test_all_ports_of_a_leaf_lose_packets(tmp_path: Path, factor: float) -> None:
    """No symbol errors, no sweep. That leaf, or an uplink of it, within 3 min; 1 message."""
    world = dgx(57)
    _lossy(world, world.of_leaf["leaf-su1-r4"], 30 * factor, 2 * factor**0.5)
    inbox = play(world, world.plant.plan(tmp_path), until=180)
    leaf = "su0/rail4|leaf-su1-r4"
    assert_named(inbox, leaf, by=180)
    assert inbox.messages == 1, str(inbox)
    assert_one_incident(inbox)
