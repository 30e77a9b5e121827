"""Stories of one cable, module or port."""

from __future__ import annotations

import numpy as np

from tests.stories.ethernet.clusters import dual_tor, rail_optimised
from tests.stories.ethernet.scene import Scene


def test_a_leg_of_a_bond_that_loses_its_link_is_named() -> None:
    """A cable of a dual-ToR host fails, as at Alibaba (HPN, SIGCOMM 2024): the bond goes on with one leg."""
    scene = Scene(dual_tor(seed=22))

    @scene.at(0)
    def cable_fails() -> None:
        scene.world.state.up[19, 3] = False

    inbox = scene.play(lasts=120)
    named = inbox.firing(r"link_down .*gpu-020/ens2f1np1", by=30)
    assert named, str(inbox)
    assert "leg of bond1" in named[0].text, named[0].text
    assert not inbox.besides("gpu-020/ens2f1np1"), str(inbox)
    assert inbox.messages == 1, str(inbox)


def test_a_cable_that_flaps_under_load_is_named() -> None:
    """MegaScale (NSDI 2024): the link fails for one poll whenever it carries much, every 12 to 35 s."""
    scene = Scene(rail_optimised(seed=25))
    host, leg = 50, 0
    rng = np.random.default_rng(5)
    next_flap = 8.0

    @scene.each_step
    def flap(after: float) -> None:
        nonlocal next_flap
        scene.world.state.up[host, leg] = True
        if after > next_flap and scene.world.rx_share[host, leg] > 0.35:
            scene.world.state.up[host, leg] = False
            next_flap = after + rng.uniform(12, 35)

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"link_flapping .*gpu-051/mlx5_0", by=120), str(inbox)
    assert not inbox.besides("gpu-051/mlx5_0"), str(inbox)
    assert inbox.messages <= 2, str(inbox)


ERRORS_BEGIN = 97.5
"""Seconds after its light begins to fade, an optic damages packets."""


def test_an_optic_that_fades_is_named_with_its_errors_and_its_light() -> None:
    """MegaScale and Meta: one lane receives less and less light over four minutes, then packets are damaged."""
    scene = Scene(rail_optimised(seed=24))
    state = scene.world.state
    host, leg = 27, 6

    @scene.each_step
    def fade(after: float) -> None:
        faded = min(1, after / 240)
        damaged = max(0, faded - 0.4)
        state.rx_power[host, leg, 2] = 1e-3 * 10 ** (-1.1 * faded)
        state.fec_corrected[host, leg] = 3e3 * 10 ** (4 * faded)
        state.fec_uncorrectable[host, leg] = 30 * damaged
        state.fcs_errors[host, leg] = 8 * damaged
        state.loss_from_switch[host, leg] = 2e-5 * damaged

    inbox = scene.play(lasts=ERRORS_BEGIN + 180)
    (named,) = inbox.firing("gpu-028/mlx5_6", by=ERRORS_BEGIN + 180)
    evidence = "\n".join(item.text for item in named.incident.evidence)
    assert "errors" in evidence, named.text
    assert "Rx power" in evidence, named.text
    assert not inbox.besides("gpu-028/mlx5_6"), str(inbox)
    assert inbox.messages <= 2, str(inbox)


def test_a_port_at_a_quarter_of_its_rate_after_a_boot_is_named() -> None:
    scene = Scene(rail_optimised(seed=45))
    host, booted = 13, 150

    @scene.at(0)
    def stop() -> None:
        scene.world.state.dead[host] = True

    @scene.at(5)
    def no_answer() -> None:
        scene.unreachable(host)

    @scene.at(booted)
    def boot_with_a_slow_link() -> None:
        scene.world.state.rate[host, 7] = 100e9 / 8
        scene.boot(host)

    inbox = scene.play(lasts=booted + 150)
    slow = inbox.firing("gpu-014/mlx5_7", by=booted + 120)
    assert [one.incident.kind for one in slow] == ["link_degraded"], str(inbox)
    assert not inbox.besides(r"gpu-014\b"), str(inbox)
    assert inbox.unresolved == {slow[0].incident.component}, str(inbox)
