"""Stories of two faults that have nothing to do with each other."""

from __future__ import annotations

from tests.stories.ethernet.clusters import clos, rail_optimised
from tests.stories.ethernet.scene import Scene


def test_a_bad_optic_and_a_narrow_slot_are_both_named() -> None:
    scene = Scene(clos(seed=42))
    state = scene.world.state

    @scene.at(0)
    def optic_fails_and_slot_narrows() -> None:
        state.fec_corrected[8, 0], state.fec_uncorrectable[8, 0], state.fcs_errors[8, 0] = 3e7, 20, 5
        state.loss_from_switch[8, 0] = 2e-5
        state.rx_power[8, 0, 1] = 1.2e-4
        state.capacity[69, 3] = 0.25
        state.pcie_width[69, 3] = 8

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"link_errors .*gpu-009/bnxt_re0"), str(inbox)
    assert inbox.firing("gpu-070/bnxt_re3"), str(inbox)
    assert not inbox.besides("gpu-009/bnxt_re0|gpu-070/bnxt_re3"), str(inbox)
    assert inbox.messages <= 3, str(inbox)


def test_a_slow_host_is_named_while_a_leaf_is_down() -> None:
    scene = Scene(rail_optimised(seed=44, hosts=96, jobs=(32, 24, 24)))
    state = scene.world.state

    @scene.at(0)
    def leaf_dies() -> None:
        state.leaf_up[scene.world.wiring.number("su0-leaf5")] = False

    @scene.at(60)
    def host_slows() -> None:
        state.capacity[78, 1] = 0.2
        state.pcie_width[78, 1] = 4

    inbox = scene.play(lasts=240)
    assert inbox.firing("su0-leaf5", by=60), str(inbox)
    assert inbox.firing("gpu-079/mlx5_1", by=60 + 180), str(inbox)
    assert not inbox.besides("su0-leaf5|gpu-079/mlx5_1"), str(inbox)
