"""EFA: every counter of every device of a p5 under its name, and a state that is always ACTIVE and proves nothing."""

from __future__ import annotations

import re
from pathlib import Path

from fabricmon.catalogue import RAW, column_of, counter_at
from fabricmon.collect import COLLECTORS
from fabricmon.model import Kind
from tests.collect.nodes import EFA_DEVICE, EFA_PORT, build_efa, cells, host

infiniband = COLLECTORS["infiniband"]
infiniband_state = COLLECTORS["infiniband_state"]

# concept of each counter as docs/methods.md#rdma-transport-counters has it, written down from there
NAMES = {
    "tx_bytes": "rdma_tx_bytes", "tx_pkts": "rdma_tx_packets", "rx_bytes": "rdma_rx_bytes",
    "rx_pkts": "rdma_rx_packets", "rx_drops": "rdma_rx_drops", "retrans_bytes": "retrans_bytes",
    "retrans_pkts": "retrans_packets", "retrans_timeout_events": "ack_timeout",
    "unresponsive_remote_events": "remote_unresponsive", "impaired_remote_conn_events": "remote_impaired",
}  # fmt: skip


def readings(root: Path) -> dict[str, dict[str, float]]:
    """Row -> column -> value, counters and state."""
    found: dict[str, dict[str, float]] = {}
    for module in (infiniband, infiniband_state):
        sessions = module.open(host(root), module.config()).sessions().values()
        for (kind, row), values in cells(session.read() for session in sessions).items():
            assert kind is Kind.PORT
            found.setdefault(row, {}).update(values)
    return found


def test_no_counter_of_efa_is_unknown() -> None:
    for name in EFA_PORT:
        assert not column_of("hw_counters", name).startswith(RAW), name
        counter = counter_at("hw_counters", name)
        assert counter is not None
        assert counter.growth.counts
    for name in EFA_DEVICE:
        assert column_of("device_hw_counters", name).startswith("device_"), name
    assert {file: column_of("hw_counters", file) for file in NAMES} == NAMES
    columns = [column_of("hw_counters", name) for name in EFA_PORT]
    assert len(set(columns)) == len(columns), "each counter has a column of its own"


def test_every_counter_of_32_devices_comes_out(tmp_path: Path) -> None:
    names = [f"rdmap{80 + n}s0" for n in range(32)]
    values = build_efa(tmp_path, {name: 10**15 + n for n, name in enumerate(names)})
    found = readings(tmp_path)
    assert sorted(found) == sorted(f"{name}/1" for name in names)
    for (device, file), value in values.items():
        source = "device_hw_counters" if file in EFA_DEVICE else "hw_counters"
        assert found[f"{device}/1"][column_of(source, file)] == value, (device, file)
    assert len(values) == 32 * (len(EFA_PORT) + len(EFA_DEVICE))
    assert {row["state"] for row in found.values()} == {4.0}


def test_a_p5_as_another_exporter_showed_it(tmp_path: Path, shared_dir: Path) -> None:
    """The captured page has 32 devices; a tree with its numbers gives the same numbers."""
    page = (shared_dir / "captures/efa/p5-32-nics-tx-pkts.prom").read_text()
    shown = {
        device: int(float(value))
        for device, value in re.findall(r'^node_amazonefa_tx_pkts\{device="([^"]+)",port="1"\} (\S+)$', page, re.M)
    }
    assert len(shown) == 32
    build_efa(tmp_path, shown)
    found = readings(tmp_path)
    assert {row.removesuffix("/1"): values["rdma_tx_packets"] for row, values in found.items()} == shown


def test_an_older_device_without_retransmission_counters_lacks_them_and_nothing_else(tmp_path: Path) -> None:
    build_efa(tmp_path, {"rdmap0s6": 5})
    (port,) = (tmp_path / "class/infiniband").glob("*/ports/1/hw_counters")
    gone = [port / name for name in EFA_PORT if name.startswith(("retrans", "unresponsive", "impaired"))]
    assert len(gone) == 5
    for file in gone:
        file.unlink()
    (row,) = readings(tmp_path).values()
    assert "retrans_packets" not in row
    assert row["rdma_rx_drops"] == EFA_PORT.index("rx_drops") * 10 + 1
