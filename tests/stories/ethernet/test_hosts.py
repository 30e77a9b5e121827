"""Stories of hosts and agents that fall silent, boot, or come back otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricmon.model import Presence
from tests.stories.ethernet.clusters import clos, rail_optimised
from tests.stories.ethernet.scene import Scene
from tests.stories.ethernet.wiring import cable_plan


@pytest.mark.parametrize(
    ("seed", "planned", "named"),
    [(37, True, r"rack\(rack3\)"), (38, False, "8 hosts")],
    ids=["plan", "lldp"],
)
def test_a_rack_without_power_is_one_incident(seed: int, planned: bool, named: str, tmp_path: Path) -> None:
    """Eight hosts die in one moment; their peers' timeouts are no incidents of their own."""
    cluster = rail_optimised(seed)
    scene = Scene(cluster, cable_plan(cluster, tmp_path, hosts_of_rack=8) if planned else None)
    rack = range(16, 24)

    @scene.at(0)
    def power_fails() -> None:
        scene.world.state.dead[16:24] = True

    @scene.at(10)
    def no_answer() -> None:
        for host in rack:
            scene.unreachable(host)

    inbox = scene.play(lasts=180)
    assert inbox.firing(named, by=90), str(inbox)
    assert len({one.incident.id for one in inbox.firing()}) == 1, str(inbox)
    assert inbox.messages <= 2, str(inbox)


def test_agents_that_a_management_switch_cuts_off_are_one_incident_and_no_deaths() -> None:
    """Half of the agents are out of reach for five minutes while their hosts' traffic goes on."""
    scene = Scene(rail_optimised(seed=39))
    cut_off = range(32, 64)

    @scene.at(0)
    def management_network_fails() -> None:
        scene.world.state.agent_silent[32:] = True

    @scene.at(10)
    def no_answer() -> None:
        for host in cut_off:
            scene.unreachable(host)

    @scene.at(300)
    def management_network_is_back() -> None:
        scene.world.state.agent_silent[32:] = False
        for host in cut_off:
            scene.presence(host, Presence.LIVE)

    inbox = scene.play(lasts=360)
    assert inbox.firing("agent_silent .*32 hosts"), str(inbox)
    assert not inbox.besides("agent_silent"), str(inbox)
    assert not any(word in one.incident.title for one in inbox for word in ("dead", "died", "down")), str(inbox)
    assert inbox.messages <= 2, str(inbox)
    assert not inbox.unresolved, str(inbox)


def test_a_driver_that_is_loaded_anew_is_at_most_a_short_message() -> None:
    """All ports of one idle host are down for 12.5 s, and their counters begin at zero."""
    scene = Scene(rail_optimised(seed=40, jobs=(8, 16, 20)))
    host = 50

    @scene.at(0)
    def driver_is_removed() -> None:
        scene.world.state.up[host] = False

    @scene.at(12.5)
    def driver_is_loaded() -> None:
        scene.world.state.up[host] = True
        scene.reload_driver(host)

    inbox = scene.play(lasts=240)
    assert not inbox.besides(r"gpu-051\b"), str(inbox)
    assert len(inbox.firing()) <= 1, str(inbox)
    assert not inbox.unresolved, str(inbox)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="three messages: when half of the hosts are back, those that are not yet become an incident of their own",
)
def test_hosts_that_all_boot_at_once_are_one_incident_and_resolved() -> None:
    """64 hosts without jobs go away within 10 s and are back two to three minutes later."""
    scene = Scene(clos(seed=62, hosts=64, jobs=(16,)), quiet=200)
    scene.world.jobs.drain()
    dead = scene.world.state.dead

    @scene.each_step
    def boot(after: float) -> None:
        for host in range(64):
            stops = host % 4 * 2.5
            if after == stops:
                dead[host] = True
            if after == stops + 2.5:
                scene.presence(host, Presence.UNREACHABLE, "no route to host")
            if after == stops + 130 + host % 7 * 10:
                scene.boot(host)

    inbox = scene.play(lasts=500)
    assert inbox.firing("agent_silent"), str(inbox)
    assert inbox.messages <= 2, str(inbox)
    assert not inbox.unresolved, str(inbox)
