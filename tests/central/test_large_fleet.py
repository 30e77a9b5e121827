"""The load generator, small: every fault of many nodes is notified, and no healthy node is called unreachable."""

from tests.bench import fleet


def test_every_fault_is_notified_and_no_healthy_node_is_called_unreachable():
    rows = {what.strip().partition(";")[0]: value for what, value, _ in fleet.main(
        ["--nodes", "60", "--seconds", "4", "--faults", "8"])}  # fmt: skip
    assert rows["healthy nodes called unreachable"] == 0
    assert rows["faults without a webhook, of 8"] == 0
    assert rows["descriptors"] > 60
    assert rows["age of the oldest last values of a node, as the API states it"] >= 0
