"""Stories of adapters: they pause their switch, are too slow for it, hang, or are set otherwise than their peers."""

from __future__ import annotations

import pytest

from tests.stories.ethernet.clusters import clos, intel, rail_optimised
from tests.stories.ethernet.scene import Scene


def test_an_adapter_that_pauses_its_switch_all_the_time_is_named() -> None:
    """A pause storm as in Guo et al. (SIGCOMM 2016, 6.2): its leaf and rail are paused, and no other is to blame."""
    scene = Scene(rail_optimised(seed=11))
    state, wiring = scene.world.state, scene.world.wiring
    host, port = 17, 2

    @scene.at(0)
    def storm() -> None:
        state.storm[host, port] = 1.0
        state.paused[:, port] = 0.3
        state.paused[wiring.leaf == wiring.leaf[host, port]] = 0.55
        state.paused[:, [leg for leg in range(8) if leg != port]] = 0.02
        state.paused[host, port] = 0

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"pfc_storm .*gpu-018/mlx5_2", by=90), str(inbox)
    assert not inbox.besides("gpu-018/mlx5_2"), str(inbox)
    assert inbox.messages <= 2, str(inbox)


def test_an_adapter_that_storms_behind_a_watchdog_is_named() -> None:
    """The switch drops what is sent to it in place of pausing others, so its peers' flows are cut, too."""
    scene = Scene(rail_optimised(seed=61))

    @scene.at(0)
    def storm() -> None:
        scene.world.state.storm[17, 2] = 1.0
        scene.world.state.hangs[17, 2] = True

    inbox = scene.play(lasts=180)
    assert inbox.firing("gpu-018/mlx5_2"), str(inbox)
    assert not inbox.besides("gpu-018/mlx5_2"), str(inbox)
    assert inbox.messages <= 2, str(inbox)


def test_a_slow_host_is_named_though_its_pcie_links_are_whole() -> None:
    """IOMMU or ACS set wrongly: the adapter waits for the host's memory."""
    scene = Scene(rail_optimised(seed=14))

    @scene.at(0)
    def memory_slows() -> None:
        scene.world.state.capacity[9, 5] = 0.3
        scene.world.state.pcie_stalled_writes[9, 5] = 0.65

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"slow_receiver .*gpu-010/mlx5_5", by=120), str(inbox)
    assert not inbox.besides("gpu-010/mlx5_5"), str(inbox)
    assert inbox.messages == 1, str(inbox)


def test_an_adapter_that_counts_pause_frames_without_their_time_is_named() -> None:
    """Intel E810 adapters count frames only; this one receives a fifth of its rate."""
    scene = Scene(intel(seed=47))

    @scene.at(0)
    def host_slows() -> None:
        scene.world.state.capacity[21, 1] = 0.2

    inbox = scene.play(lasts=180)
    assert inbox.firing("gpu-022/irdma1", by=180), str(inbox)
    assert not inbox.besides("gpu-022/irdma1"), str(inbox)
    assert inbox.messages == 1, str(inbox)


def test_an_adapter_that_hangs_is_named_by_its_kernel_event() -> None:
    scene = Scene(rail_optimised(seed=32))
    line = "mlx5_core 0000:30:00.0: poll_health: device's health compromised - reached miss count"

    @scene.at(0)
    def hang() -> None:
        scene.world.state.hangs[2, 4] = scene.world.state.counters_stand[2, 4] = True
        scene.world.state.firmware_faults[2, 4] = 1
        scene.kernel_event(2, "mlx5_health_lost", "mlx5_4/1", line)

    inbox = scene.play(lasts=180)
    assert inbox.firing("gpu-003/mlx5_4", by=60), str(inbox)
    assert inbox.messages <= 2, str(inbox)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="nothing is sent: a process of the job that crashes looks the same",
)
def test_an_adapter_that_hangs_without_a_kernel_event_is_named() -> None:
    scene = Scene(rail_optimised(seed=33))

    @scene.at(0)
    def hang() -> None:
        scene.world.state.hangs[2, 4] = scene.world.state.counters_stand[2, 4] = True

    inbox = scene.play(lasts=180)
    assert inbox.firing("gpu-003/mlx5_4", by=180), str(inbox)
    assert inbox.messages <= 2, str(inbox)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="sent after 352 s: a difference has to last, and settings are read once a minute",
)
def test_a_port_with_another_mtu_is_named_within_five_minutes() -> None:
    scene = Scene(clos(seed=26, qos_period=60))

    @scene.at(0)
    def mtu_changes() -> None:
        scene.world.state.mtu[6, 2] = 1500

    inbox = scene.play(lasts=300)
    assert inbox.firing("gpu-007", by=300), str(inbox)
    assert inbox.messages == 1, str(inbox)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="44 ports lose packets, peers among them; after 307 s the settings of the host are sent, too",
)
def test_a_host_whose_traffic_is_in_a_lossy_class_is_named_with_its_settings() -> None:
    """PFC is off and DSCP is not trusted on one host: it and what is sent to it lose packets with load."""
    scene = Scene(clos(seed=16, qos_period=30))
    host = 32

    @scene.at(0)
    def settings_change() -> None:
        scene.world.state.lossy_class[host] = 0.004
        scene.world.state.dscp_trusted[host] = scene.world.state.pfc_priorities[host] = 0
        scene.world.state.priority_map[host] = 5

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"config_drift host\(gpu-033\)", by=180), str(inbox)
    assert not inbox.besides("gpu-033"), str(inbox)
    assert inbox.messages <= 2, str(inbox)
