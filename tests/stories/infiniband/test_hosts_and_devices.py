"""Adapters, GPUs, NVLinks, PCIe, heat, and power of hosts and racks."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

from fabricmon.model import Event, Kind, Severity
from fabricmon.sim.scenarios.stage import START
from tests.stories.infiniband.clusters import dgx, nvl72
from tests.stories.infiniband.expected import assert_named, assert_one_incident, assert_only
from tests.stories.infiniband.faults import (
    lose_adapters,
    lose_gpus,
    power_off,
    power_on,
    unread_gpu,
)
from tests.stories.infiniband.play import FAULT, play
from tests.stories.infiniband.world import STEP, World


def test_an_adapter_has_half_its_lanes_after_a_reboot(tmp_path: Path) -> None:
    """The reboot is sent once at most. The adapter within 2 min and a grace period after the boot; 3 messages."""
    world, boot = dgx(14), 250
    host = world.host("dgx-022")
    row = host.ports[2]

    def back() -> None:
        power_on(world, host)
        world.function["pcie_width"][host.functions[2]] = 8
        world.function["pcie_path_width"][host.functions[2]] = 0.5
        world.capacity[row] = 0.62
        world.jobs[0].speed = 0.8
        world.waiting[world.peer[row]] = 0.3

    world.at(100, lambda: power_off(world, host))
    world.at(boot, back)
    inbox = play(world, world.plant.plan(tmp_path), until=330, fault=boot)
    assert_named(inbox, "pcie_degraded.*dgx-022/mlx5_2", by=180)
    assert_only(inbox, "dgx-022", most=3)
    assert len(inbox.firing("agent_silent|host_")) <= 1, str(inbox)


def test_the_firmware_of_an_adapter_dies(tmp_path: Path) -> None:
    """Logged at once, its link is down, the device is gone after 20 s. The adapter, critical, in 30 s; 2 messages."""
    world = dgx(53)
    host = world.host("dgx-008")
    row = host.ports[2]

    def die() -> None:
        world.port["log_firmware_faults"][row] += 1
        world.take_down(row)

    world.at(FAULT, die)
    world.at(FAULT + 20, lambda: lose_adapters(world, host, [2]))
    world.jobs[0].halt(FAULT + 1)
    inbox = play(world, world.plant.plan(tmp_path), until=150)
    assert_named(inbox, r"nic\(dgx-008/mlx5_2\)", by=30, severity=Severity.CRITICAL)
    assert_only(inbox, "dgx-008/mlx5_2", most=2)


def test_a_pcie_switch_dies_with_two_adapters_and_two_gpus(tmp_path: Path) -> None:
    """One message of the host within 2 min, critical."""
    world = dgx(54)
    host = world.host("dgx-015")

    def die() -> None:
        for row in host.ports[4:6]:
            world.take_down(row)
        lose_adapters(world, host, [4, 5])
        lose_gpus(world, host, [4, 5])

    world.at(FAULT, die)
    world.jobs[0].halt(FAULT + 1)
    inbox = play(world, world.plant.plan(tmp_path), until=150)
    assert_named(inbox, "dgx-015", by=120, severity=Severity.CRITICAL)
    assert_only(inbox, "dgx-015", most=1)


def test_the_pcie_link_of_an_adapter_has_errors(tmp_path: Path) -> None:
    """300 corrected errors per second. The adapter within 3 min, 1 message."""
    world = dgx(21)
    row = world.host("dgx-006").functions[5]

    def errors(now: float) -> None:
        if now >= FAULT:
            world.function["pcie_aer_correctable_errors"][row] += world.rng.poisson(300 * STEP)

    world.effects.append(errors)
    inbox = play(world, world.plant.plan(tmp_path), until=180)
    assert_named(inbox, r"nic\(dgx-006/mlx5_5\)", by=180)
    assert_only(inbox, "dgx-006/mlx5_5", most=1)


def _gpu_off_the_bus() -> World:
    """Xid 79 of a GPU, reported as an event; its job ends."""
    world = dgx(22)
    host = world.host("dgx-012")

    def event() -> None:
        text, fields = "Xid 79 on GPU 3 (0000:32:00.0)", {"xid": 79.0}
        host.events.append(Event(1, START + world.now, "xid", "gpu3", text, fields, of=Kind.GPU))

    world.at(FAULT, event)
    world.jobs[0].halt(FAULT + 1)
    return world


def test_a_gpu_falls_off_the_bus_and_is_not_read_any_more(tmp_path: Path) -> None:
    """Its values are unknown at once. That GPU, critical, within 1 min, 1 message."""
    world = _gpu_off_the_bus()
    world.at(FAULT, lambda: unread_gpu(world, world.host("dgx-012").gpus[3]))
    inbox = play(world, world.plant.plan(tmp_path), until=150)
    assert_named(inbox, r"gpu\(dgx-012/gpu3\)", by=60, severity=Severity.CRITICAL)
    assert_only(inbox, "dgx-012/gpu3", most=1)


def test_a_gpu_falls_off_the_bus_and_is_not_listed_any_more(tmp_path: Path) -> None:
    """That GPU, critical, within 1 min, 1 message."""
    world = _gpu_off_the_bus()
    world.at(FAULT, lambda: lose_gpus(world, world.host("dgx-012"), [3]))
    inbox = play(world, world.plant.plan(tmp_path), until=150)
    assert_named(inbox, r"gpu\(dgx-012/gpu3\)", by=60, severity=Severity.CRITICAL)
    assert_only(inbox, "dgx-012", most=1)


def test_an_nvswitch_tray_of_a_rack_dies(tmp_path: Path) -> None:
    """All 72 GPUs lose 2 of 18 NVLinks. That NVLink domain, critical, within 1 min, 1 message."""
    world = nvl72(23)
    rows = [row for host in world.hosts[18:36] for row in host.gpus]

    def die() -> None:
        world.gpu["gpu_nvlinks_active"][rows] = 16
        world.gpu["gpu_nvlinks_inactive_mask"][rows] = (1 << 4) | (1 << 5)
        world.gpu["gpu_fabric_health_verdict"][rows] = 3
        world.gpu["gpu_fabric_degraded_bandwidth"][rows] = 1
        world.gpu["gpu_nvlink_critical_errors"][rows] += 2

    world.at(FAULT, die)
    world.jobs[0].speed = 0.85
    inbox = play(world, world.plant.plan(tmp_path), until=120)
    assert_named(inbox, "nvl-02", by=60, severity=Severity.CRITICAL)
    assert_only(inbox, "nvl-02", most=1)


def test_the_nvlinks_of_one_gpu_degrade() -> None:
    """A link of it trains again now and then. That GPU, 1 message; no topology."""
    world = nvl72(24)
    row = world.host("gb-03-07").gpus[1]

    def train_again(now: float) -> None:
        if now >= FAULT:
            world.gpu["gpu_nvlink_recoveries"][row] += world.rng.poisson(0.2 * STEP)
            world.gpu["gpu_nvlink_critical_errors"][row] += world.rng.poisson(0.05 * STEP)
            world.gpu["gpu_nvlink_effective_ber"][row] = 3e-12
            world.gpu["gpu_nvlink_worst"][row] = 7

    world.effects.append(train_again)
    inbox = play(world, None, until=180)
    assert_named(inbox, r"gpu\(gb-03-07/gpu1\)", by=180)
    assert_only(inbox, "gb-03-07/gpu1", most=1)


def test_an_nvswitch_of_one_host_dies() -> None:
    """Its 8 GPUs lose 4 or 5 of 18 links each. The NVLink domain of that host, critical, 1 message; no topology."""
    world = dgx(52)

    def die() -> None:
        for number, row in enumerate(world.host("dgx-040").gpus):
            lost = 4 + number % 2
            world.gpu["gpu_nvlinks_active"][row] = 18 - lost
            world.gpu["gpu_nvlinks_inactive_mask"][row] = (1 << lost) - 1

    world.at(FAULT, die)
    inbox = play(world, None, until=100)
    assert_named(inbox, r"nvlink_domain\(dgx-040\)", by=60, severity=Severity.CRITICAL)
    assert_only(inbox, "dgx-040", most=1)


def test_a_fan_wall_fails_and_the_modules_of_a_rack_get_hot(tmp_path: Path) -> None:
    """53 to over 80 Celsius in six minutes; some links have bit errors. One message of the rack, which names heat."""
    world = dgx(13)
    rows = world.rows_of(world.hosts[12:16])
    for number in range(1, 25):
        world.change(FAULT + number * 15, world.heat, rows, number * 1.35)
    for row in rows[::7]:
        world.count("symbol_errors", row, lambda now: 0.01 * math.exp((now - FAULT - 200) / 60), FAULT + 200)
    inbox = play(world, world.plant.plan(tmp_path), until=480)
    rack = inbox.firing(r"rack\(rack-04\)", by=480)
    assert any(re.search("hot|warm", one.incident.title + one.incident.why) for one in rack), str(inbox)
    assert_only(inbox, "rack-04", most=1)


def test_a_rack_loses_power(tmp_path: Path) -> None:
    """A sweep sees the links dark. That rack, critical, within 90 s; not 32 links."""
    world = dgx(30, sweep=True)
    for host in world.hosts[16:20]:
        world.at(FAULT, partial(power_off, world, host))
    world.jobs[0].halt(FAULT + 1)
    inbox = play(world, world.plant.plan(tmp_path), until=150)
    assert_named(inbox, r"rack\(rack-05\)", by=90, severity=Severity.CRITICAL)
    assert_only(inbox, r"rack\(rack-05\)", most=2)
    assert_one_incident(inbox)


def test_a_rack_of_one_nvlink_domain_loses_power() -> None:
    """18 trays. One message within 1 min that names the rack or its NVLink domain; no topology."""
    world = nvl72(31)
    for host in world.hosts[36:54]:
        world.at(FAULT + world.rng.uniform(0, 1.5), partial(power_off, world, host))
    world.jobs[1].halt(FAULT + 1)
    for row in world.rows_of(world.hosts[54:68]):
        world.count("ack_timeout", row, 3, FAULT + 3, FAULT + 25)
    inbox = play(world, None, until=120)
    assert_named(inbox, "nvl(72)?-03", by=60)
    assert inbox.messages == 1, str(inbox)
