"""Stories in which nothing is broken: whatever is sent is a false alarm."""

from __future__ import annotations

import math

import numpy as np

from fabricmon.model import Severity
from tests.stories.ethernet.clusters import clos, rail_optimised, slow_rack, two_vendors, with_storage
from tests.stories.ethernet.scene import Scene


def test_flows_that_collide_for_three_minutes_are_at_most_congestion() -> None:
    """Meta (SIGCOMM 2024): hashing puts too many flows on the same links of one leaf."""
    scene = Scene(clos(seed=20))
    leaf = scene.world.wiring.number("tor-05")

    @scene.each_step
    def collide(after: float) -> None:
        scene.world.state.congestion[leaf] = 0.35 if after < 180 else 0

    inbox = scene.play(lasts=300)
    assert not inbox.besides("tor-05"), str(inbox)
    assert not inbox.of(Severity.CRITICAL), str(inbox)
    assert not inbox.unresolved, str(inbox)


def test_jobs_that_start_and_stop_are_nothing() -> None:
    scene = Scene(rail_optimised(seed=35, hosts=96, jobs=(32, 24, 16, 8, 8)))

    @scene.each_step
    def start_and_stop(after: float) -> None:
        for job in range(5):
            running = math.floor((after + 40 * job + 1000) / (90 + 25 * job)) % 2 == 0
            if after > 0:
                scene.world.jobs.turn(job, running)

    inbox = scene.play(lasts=400)
    assert inbox.messages == 0, str(inbox)


def test_adapters_of_two_vendors_and_two_speeds_are_nothing() -> None:
    inbox = Scene(two_vendors(seed=48)).play(lasts=240)
    assert inbox.messages == 0, str(inbox)


def test_fast_adapters_on_a_slow_leaf_are_at_most_a_warning() -> None:
    """They have run at 200 Gb/s since they were installed."""
    inbox = Scene(slow_rack(seed=69)).play(lasts=240)
    assert inbox.messages <= 1, str(inbox)
    assert not inbox.of(Severity.CRITICAL), str(inbox)


def test_a_spine_that_starts_anew_is_at_most_information() -> None:
    """It loses 5 % for one step; then all flows are hashed to the other five for three minutes."""
    scene = Scene(clos(seed=51))
    state, spine = scene.world.state, 2

    @scene.each_step
    def start_anew(after: float) -> None:
        state.spine_up[spine] = not 2.5 <= after < 200
        state.loss_from_spine[spine] = 0.05 if after < 2.5 else 0

    inbox = scene.play(lasts=300)
    assert not inbox.of(Severity.WARNING), str(inbox)


def test_a_rack_that_reads_from_storage_at_full_rate_is_nothing() -> None:
    scene = Scene(with_storage(seed=70))

    @scene.at(0)
    def read() -> None:
        scene.world.storage_saturated = True
        scene.world.state.paused[:16, 4] = 0.08

    inbox = scene.play(lasts=300)
    assert inbox.messages == 0, str(inbox)


def test_counters_that_stand_still_are_no_fault_of_links() -> None:
    """A firmware stops to count on a tenth of the hosts."""
    scene = Scene(rail_optimised(seed=28))
    state = scene.world.state
    hosts = np.random.default_rng(8).choice(64, 6, replace=False)
    for host in hosts:
        state.firmware[host] = "28.40.1000"

    @scene.at(0)
    def counters_stand() -> None:
        state.counters_stand[hosts] = True

    inbox = scene.play(lasts=300)
    assert not inbox.besides("telemetry"), str(inbox)
    assert inbox.messages <= 2, str(inbox)
