"""Stories of packets that are lost: at one port, in a part of a leaf, above the leaves."""

from __future__ import annotations

from pathlib import Path

from tests.stories.ethernet.clusters import clos, rail_optimised
from tests.stories.ethernet.scene import Scene
from tests.stories.ethernet.wiring import cable_plan


def test_a_switch_port_that_drops_what_it_sends_is_named() -> None:
    """The switch has the host's port in a lossy class: 0.2 % of what is sent to it is lost, its settings are right."""
    scene = Scene(clos(seed=17))

    @scene.at(0)
    def switch_drops() -> None:
        scene.world.state.loss_from_switch[32, 2] = 0.002

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"packet_loss .*gpu-033/bnxt_re2"), str(inbox)
    assert not inbox.besides("gpu-033/bnxt_re2"), str(inbox)
    assert inbox.messages == 1, str(inbox)


def test_a_port_that_loses_what_it_sends_is_named() -> None:
    scene = Scene(rail_optimised(seed=66))

    @scene.at(0)
    def packets_are_lost() -> None:
        scene.world.state.loss_to_switch[32, 2] = 0.002

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"packet_loss .*gpu-033/mlx5_2"), str(inbox)
    assert not inbox.besides("gpu-033/mlx5_2"), str(inbox)


def test_an_uplink_that_loses_one_packet_in_a_hundred_is_found_with_a_plan(tmp_path: Path) -> None:
    """A gray failure as in MegaScale and Azure's reports: the link is up and counts nothing."""
    cluster = clos(seed=19)
    scene = Scene(cluster, cable_plan(cluster, tmp_path))

    @scene.at(0)
    def uplink_drops() -> None:
        scene.world.state.loss_to_spine[scene.world.wiring.number("tor-02"), 3] = 0.01

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"\(.*tor-02.*\)", by=300), str(inbox)
    assert not inbox.firing("gpu-"), str(inbox)
    assert inbox.messages <= 2, str(inbox)


def test_a_part_of_a_leaf_that_damages_packets_is_found_with_a_plan(tmp_path: Path) -> None:
    """One quarter of the switch chip: 16 ports lose 0.1 % in both directions."""
    cluster = clos(seed=27)
    scene = Scene(cluster, cable_plan(cluster, tmp_path))
    world = scene.world

    @scene.at(0)
    def packets_are_damaged() -> None:
        on_leaf = world.wiring.leaf == world.wiring.number("tor-04")
        quarter = on_leaf & (world.wiring.port > 16) & (world.wiring.port <= 32)
        world.state.loss_from_switch[quarter] = world.state.loss_to_switch[quarter] = 1e-3

    inbox = scene.play(lasts=180)
    assert inbox.firing("tor-04", by=240), str(inbox)
    assert not inbox.firing("gpu-"), str(inbox)
    assert inbox.messages <= 2, str(inbox)
