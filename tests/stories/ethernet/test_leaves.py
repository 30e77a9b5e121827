"""Stories of leaves that die, start anew or lose all their server ports at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fabricmon.model import Presence
from tests.stories.ethernet.clusters import clos, dual_tor, leaf_pair, rail_optimised
from tests.stories.ethernet.scene import Scene
from tests.stories.ethernet.wiring import cable_plan
from tests.stories.sent import Inbox


def test_a_leaf_of_a_pair_that_starts_anew_is_named_and_resolved() -> None:
    """Alibaba HPN: the hosts go on with their other leg while one leaf is down for four minutes."""
    scene = Scene(dual_tor(seed=21))
    leaf = scene.world.wiring.number("pod0-nic1-tora")

    @scene.each_step
    def down_for_four_minutes(after: float) -> None:
        scene.world.state.leaf_up[leaf] = after >= 240

    inbox = scene.play(lasts=300)
    assert inbox.firing(r"leaf\(pod0-nic1-tora\).* is down: 32 of 32", by=20), str(inbox)
    assert not inbox.besides("pod0-nic1-tora"), str(inbox)
    assert inbox.messages <= 2, str(inbox)
    assert not inbox.unresolved, str(inbox)


def test_leaves_that_are_maintained_in_turn_are_each_named_and_resolved() -> None:
    """Planned work that nobody has entered: every two minutes another leaf is down for one."""
    scene = Scene(dual_tor(seed=23))
    leaves = [f"pod0-nic{adapter}-tora" for adapter in range(4)]

    @scene.each_step
    def one_minute_in_two(after: float) -> None:
        for turn, leaf in enumerate(leaves):
            down = turn * 120 <= after < turn * 120 + 60
            scene.world.state.leaf_up[scene.world.wiring.number(leaf)] = not down

    inbox = scene.play(lasts=600)
    for turn, leaf in enumerate(leaves):
        assert inbox.firing(rf"leaf\({leaf}\)", by=turn * 120 + 20), str(inbox)
    assert not inbox.besides("|".join(leaves)), str(inbox)
    assert inbox.messages <= 8, str(inbox)
    assert not inbox.unresolved, str(inbox)


def test_a_dead_leaf_is_named_by_a_plan_with_wrong_cables(tmp_path: Path) -> None:
    """8 % of the cables are filed at each other's switch port, and no agent reports LLDP."""
    cluster = clos(seed=49, lldp=False)
    scene = Scene(cluster, cable_plan(cluster, tmp_path, wrong=0.08))

    @scene.at(0)
    def leaf_dies() -> None:
        scene.world.state.leaf_up[scene.world.wiring.number("tor-02")] = False

    inbox = scene.play(lasts=120)
    assert inbox.firing(r"leaf\(tor-02\).* is down", by=30), str(inbox)
    assert inbox.messages <= 2, str(inbox)


def test_a_dead_leaf_is_named_while_a_tenth_of_the_agents_are_silent() -> None:
    scene = Scene(rail_optimised(seed=43, hosts=96), quiet=300)
    silent = np.random.default_rng(4).choice(96, 10, replace=False)

    @scene.at(-120)
    def agents_stop() -> None:
        scene.world.state.agent_silent[silent] = True
        for host in silent:
            scene.presence(int(host), Presence.REFUSED, "connection refused")

    @scene.at(0)
    def leaf_dies() -> None:
        scene.world.state.leaf_up[scene.world.wiring.number("su0-leaf5")] = False

    inbox = scene.play(lasts=120)
    assert inbox.firing(r"leaf\(su0-leaf5\).* is down", by=30), str(inbox)
    assert inbox.messages <= 3, str(inbox)  # one of them for the silent agents


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="two incidents in one message, one for each rail on the leaf: no leaf is known",
)
def test_half_of_all_ports_that_go_down_are_one_incident() -> None:
    """One of two leaves dies, and neither LLDP nor a plan names the leaves: two rails of each host are on it."""
    scene = Scene(leaf_pair(seed=50))

    @scene.at(0)
    def leaf_dies() -> None:
        scene.world.state.leaf_up[0] = False

    inbox = scene.play(lasts=60)
    down = inbox.firing("down", by=30)
    assert [str(one.incident.members) for one in down] == ["64 of 128"], str(inbox)
    assert inbox.messages <= 2, str(inbox)


def _all_ports_of_a_leaf_flap() -> Inbox:
    """Active cables of a batch restart: all server ports of a leaf are down for 12 s, and 200 s later again."""
    scene = Scene(rail_optimised(seed=46))
    legs = scene.world.wiring.leaf == scene.world.wiring.number("su0-leaf3")

    @scene.each_step
    def down_twice(after: float) -> None:
        scene.world.state.up[legs] = not (after < 12 or 200 <= after < 212)

    return scene.play(lasts=360)


def test_a_leaf_whose_server_ports_all_flap_is_named() -> None:
    inbox = _all_ports_of_a_leaf_flap()
    assert inbox.firing(r"leaf\(su0-leaf3\)", by=60), str(inbox)
    assert not inbox.besides("su0-leaf3"), str(inbox)
    assert not inbox.unresolved, str(inbox)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="four messages: each time that the leaf is down, and that it is resolved",
)
def test_a_leaf_whose_server_ports_flap_twice_is_at_most_two_messages() -> None:
    inbox = _all_ports_of_a_leaf_flap()
    assert inbox.messages <= 2, str(inbox)
