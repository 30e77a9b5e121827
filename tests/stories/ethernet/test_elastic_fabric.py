"""Stories of an EFA cluster: nothing is known of its switches, and devices report retransmissions only."""

from __future__ import annotations

import pytest

from tests.stories.ethernet.clusters import elastic_fabric
from tests.stories.ethernet.scene import Scene


def test_a_device_that_retransmits_is_named() -> None:
    scene = Scene(elastic_fabric(seed=29), stray=False)

    @scene.at(0)
    def packets_are_lost() -> None:
        scene.world.state.retransmits[11, 5] = 0.03
        scene.world.state.loss_to_switch[11, 5] = 5e-4

    inbox = scene.play(lasts=180)
    assert inbox.firing("ip-10-1-12-7/rdmap31s27", by=180), str(inbox)
    assert not inbox.besides("ip-10-1-12-7/rdmap31s27"), str(inbox)
    assert inbox.messages == 1, str(inbox)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="the ports of its peers that lose packets are sent, not the host",
)
def test_a_host_that_hangs_while_its_agent_answers_is_named() -> None:
    """Its devices send no keep-alives, and its peers give it up for a minute."""
    scene = Scene(elastic_fabric(seed=30), stray=False)
    state, host = scene.world.state, 8

    @scene.at(0)
    def hang() -> None:
        state.hangs[host] = state.keep_alives_stop[host] = True
        peers = [other for other in scene.world.jobs.hosts[0] if other != host]
        state.peers_unresponsive[peers] = 0.1

    @scene.at(60)
    def peers_end() -> None:
        state.peers_unresponsive[:] = 0

    inbox = scene.play(lasts=180)
    assert inbox.firing(r"ip-10-1-9-7\b", by=180), str(inbox)
    assert not inbox.besides(r"ip-10-1-9-7\b"), str(inbox)
    assert inbox.messages <= 2, str(inbox)
