"""Management networks, reboots, reloads, subnet managers, and days on which nothing is wrong."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.stories.infiniband.clusters import dgx, hdr, mixed
from tests.stories.infiniband.expected import (
    assert_named,
    assert_not_critical,
    assert_one_incident,
    assert_only,
    assert_resolved,
    assert_silent,
)
from tests.stories.infiniband.faults import reboot, reload_driver, restart_counters, silence
from tests.stories.infiniband.parts import Host
from tests.stories.infiniband.play import FAULT, play
from tests.stories.infiniband.world import ACTIVE, INIT, World


def test_a_management_switch_dies_while_the_fabric_is_fine(tmp_path: Path) -> None:
    """Agents of six racks are silent, a sweep sees their links up. One message, a warning; no host or rack is dead."""
    world = dgx(32, sweep=True)
    for host in world.hosts[8:32]:
        world.at(FAULT + world.rng.uniform(0, 4), partial(silence, world, host))
    inbox = play(world, world.plant.plan(tmp_path), until=180)
    assert_named(inbox, "agent_silent.*24", by=60)
    assert_one_incident(inbox)
    assert_not_critical(inbox, most=1)


def test_a_management_switch_dies_and_nothing_else_is_known() -> None:
    """24 agents of an HDR cluster, no sweep, no topology. One message, a warning."""
    world = hdr(33, sweep=False)
    for host in world.hosts[40:64]:
        world.at(FAULT + world.rng.uniform(0, 4), partial(silence, world, host))
    inbox = play(world, None, until=180)
    assert_named(inbox, "24 hosts", by=60)
    assert_not_critical(inbox, most=1)


def test_hosts_reboot_in_batches_with_new_firmware(tmp_path: Path) -> None:
    """Four a minute, not announced; each is back after 150 s. At most 3 messages, nothing critical, all resolved."""
    world = dgx(15)
    for batch in range(8):
        for host in world.hosts[32 + 4 * batch : 36 + 4 * batch]:
            begin = FAULT + batch * 60 + world.rng.uniform(0, 8)
            reboot(world, host, begin, begin + 150 + world.rng.uniform(0, 20), firmware="28.41.1000")
    for job in world.jobs[1:]:
        job.halt(FAULT - 30)
    inbox = play(world, world.plant.plan(tmp_path), until=660)
    assert_not_critical(inbox, most=3)
    assert_resolved(inbox, most=3)


def test_all_hosts_reboot_after_an_upgrade(tmp_path: Path) -> None:
    """64 hosts within 50 s, not announced; back after 4 min. At most 2 firing messages, no leaf or rack; resolved."""
    world = dgx(29)
    for host in world.hosts:
        begin = FAULT + world.rng.uniform(0, 50)
        reboot(world, host, begin, begin + 235 + world.rng.uniform(0, 40))
    for job in world.jobs:
        job.end = FAULT - 5
    inbox = play(world, world.plant.plan(tmp_path), until=450)
    assert len(inbox.firing()) <= 2, str(inbox)
    assert_resolved(inbox, most=4)
    assert not inbox.firing(r"leaf|spine|rack"), str(inbox)


def test_the_subnet_manager_changes_over_twice(tmp_path: Path) -> None:
    """All ports are in INIT for 8 s. One message at most, of the subnet manager."""
    world = dgx(16)

    def lost() -> None:
        world.port["state"][world.adapters] = INIT
        world.port["sm_lid"][:] = 77

    for begin in (FAULT, FAULT + 60):
        world.at(begin, lost)
        world.change(begin + 8, world.port["state"], world.adapters, ACTIVE)
        for job in world.jobs:
            job.halt(begin, begin + 12)
    inbox = play(world, world.plant.plan(tmp_path), until=200)
    assert_only(inbox, "subnet", most=1)


def test_the_subnet_manager_is_dead_and_six_hosts_reboot(tmp_path: Path) -> None:
    """Their ports stay in INIT. The subnet manager within 4 min after the boots, with 2 messages of the reboots."""
    world = dgx(17)
    for number, place in enumerate((3, 14, 27, 38, 45, 58)):
        begin = FAULT - 90 + 10 * number
        reboot(world, world.hosts[place], begin, begin + 160, configured=False)
    for job in world.jobs:
        job.halt(FAULT - 100)
    inbox = play(world, world.plant.plan(tmp_path), until=310)
    assert_named(inbox, "subnet", by=310)
    assert_only(inbox, r"subnet|host\(dgx-0(04|15|28|39|46|59)\)|network", most=3)
    assert len(inbox.firing("subnet")) == 1, str(inbox)
    assert not inbox.firing("link_down"), str(inbox)


def test_drivers_are_reloaded_one_host_after_the_other() -> None:
    """Ten hosts, 35 s each: their adapters vanish and return with new counters. Nothing."""
    world = dgx(27)
    for number in range(10):
        begin = FAULT + 40 * number
        reload_driver(world, world.hosts[20 + 3 * number], begin, begin + 35)
    for job in world.jobs:
        job.halt(FAULT - 20)
    assert_silent(play(world, None, until=480))


@pytest.mark.xfail(strict=True, reason="Link down by a sweep, then NIC is dead, critical: it may be a reload")
def test_the_driver_of_a_host_with_one_adapter_is_reloaded() -> None:
    """40 s. Nothing."""
    world = hdr(34)
    reload_driver(world, world.hosts[33], FAULT, FAULT + 40)
    assert_silent(play(world, None, until=60))


def _rename_ports(world: World, host: Host) -> None:
    host.renamed = {f"mlx5_{adapter}": f"ibp{24 + adapter * 8}s0" for adapter in range(8)}
    restart_counters(world, host)


def test_ports_are_renamed_by_a_new_driver(tmp_path: Path) -> None:
    """Eight hosts; GUIDs stay, counters begin anew, links stay up. Nothing."""
    world = dgx(35)
    for number, host in enumerate(world.hosts[40:48]):
        world.at(FAULT + 20 * number, partial(_rename_ports, world, host))
    assert_silent(play(world, world.plant.plan(tmp_path), until=260))


def test_somebody_clears_all_counters(tmp_path: Path) -> None:
    """Twice. Nothing."""
    world = dgx(51)
    errors = ("symbol_errors", "link_error_recoveries", "link_downed", "rcv_errors", "xmit_discards")
    for second in (FAULT, FAULT + 180):
        for counter in (*errors, "xmit_wait_ticks", "xmit", "rcv"):
            world.change(second, world.port[counter], slice(None), 0)
    assert_silent(play(world, world.plant.plan(tmp_path), until=240))


def test_a_healthy_fabric_of_two_speeds_with_a_storage_switch(tmp_path: Path) -> None:
    """The storage switch has no uplinks, as planned. Nothing."""
    world = mixed(26)
    assert_silent(play(world, world.plant.plan(tmp_path), until=160))
