"""GET /api/v1/targets: a Prometheus that asks it knows every agent by its node's name."""

from fabricmon.central.api.targets import document
from fabricmon.central.streams.presence import Peer
from fabricmon.central.targets.discovery import Target


def test_each_target_carries_its_nodes_name_and_what_its_source_says():
    peers = [
        Peer(Target("10.0.0.2:9790", {"rack": "r7"}), "node-2"),
        Peer(Target("proxy:80/agents/1", scheme="https"), "node-1"),
    ]
    first, second = document(peers, lambda peer: peer.target.scheme == "https")
    assert first == {
        "targets": ["proxy:80"],
        "labels": {
            "instance": "node-1",
            "__meta_fabricmon_node": "node-1",
            "__metrics_path__": "/agents/1/metrics",
            "__scheme__": "https",
        },
    }
    assert second["targets"] == ["10.0.0.2:9790"]
    assert second["labels"] == {
        "instance": "node-2", "__meta_fabricmon_node": "node-2", "__meta_fabricmon_rack": "r7"
    }  # fmt: skip


def test_a_node_of_two_addresses_is_one_target_by_the_one_that_is_heard():
    peers = [Peer(Target("10.0.0.1:9790"), "node-1"), Peer(Target("10.0.0.9:9790"), "node-1", feeds=True)]
    (group,) = document(peers, lambda peer: False)
    assert group["targets"] == ["10.0.0.9:9790"]
