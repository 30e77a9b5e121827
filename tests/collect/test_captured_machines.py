"""Captured machines: every counter file that is there comes out, with its value and unit.

The raw files are read here by other means than the collectors', and turned into units by a table of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from fabricmon.catalogue import metric_of
from fabricmon.collect import COLLECTORS
from fabricmon.host.live import LiveHost
from fabricmon.model import Reading
from tests.conftest import shared
from tests.host.trees import put

# what a file is called on /metrics, written down from the facts and not from the catalogue
EXPECTED = {
    "symbol_error": "fabricmon_port_symbol_errors_total",
    "link_error_recovery": "fabricmon_port_link_error_recoveries_total",
    "link_downed": "fabricmon_port_link_downed_total",
    "port_rcv_errors": "fabricmon_port_rcv_errors_total",
    "port_rcv_remote_physical_errors": "fabricmon_port_rcv_remote_physical_errors_total",
    "port_rcv_switch_relay_errors": "fabricmon_port_rcv_switch_relay_errors_total",
    "port_xmit_discards": "fabricmon_port_xmit_discards_total",
    "port_xmit_constraint_errors": "fabricmon_port_xmit_constraint_errors_total",
    "port_rcv_constraint_errors": "fabricmon_port_rcv_constraint_errors_total",
    "local_link_integrity_errors": "fabricmon_port_local_link_integrity_errors_total",
    "excessive_buffer_overrun_errors": "fabricmon_port_excessive_buffer_overrun_errors_total",
    "VL15_dropped": "fabricmon_port_vl15_dropped_total",
    "port_xmit_wait": "fabricmon_port_xmit_wait_ticks_total",
    "port_xmit_data": "fabricmon_port_xmit_bytes_total",
    "port_rcv_data": "fabricmon_port_rcv_bytes_total",
    "port_xmit_packets": "fabricmon_port_xmit_packets_total",
    "port_rcv_packets": "fabricmon_port_rcv_packets_total",
    "unicast_xmit_packets": "fabricmon_port_unicast_xmit_packets_total",
    "unicast_rcv_packets": "fabricmon_port_unicast_rcv_packets_total",
    "multicast_xmit_packets": "fabricmon_port_multicast_xmit_packets_total",
    "multicast_rcv_packets": "fabricmon_port_multicast_rcv_packets_total",
    "out_of_buffer": "fabricmon_port_out_of_buffer_total",
    "packet_seq_err": "fabricmon_port_seq_nak_rx_total",
    "local_ack_timeout_err": "fabricmon_port_ack_timeout_total",
    "rx_icrc_encapsulated": "fabricmon_port_icrc_error_total",
    "out_of_sequence": "fabricmon_port_out_of_sequence_rx_total",
}
WORDS = {"port_xmit_data", "port_rcv_data"}  # 4 bytes each


def readings(host: LiveHost) -> Iterator[Reading]:
    for module in COLLECTORS.values():
        if not module.config().enabled:
            continue
        for session in module.open(host, module.config()).sessions().values():
            yield session.read()


def exported(host: LiveHost) -> dict[tuple[str, str], list[float]]:
    """{(row, metric): every value under that name}"""
    found: dict[tuple[str, str], list[float]] = {}
    for reading in readings(host):
        # some captures have the word "lid" in place of the number
        assert [f for f in reading.faults if not f.source.endswith(("/lid", "/sm_lid"))] == []
        at = 0
        for part in reading.parts:
            for component in part.components:
                for column in part.columns:
                    metric = metric_of(column)
                    found.setdefault((component.name, metric.name), []).append(reading.values[at])
                    at += 1
        assert at == len(reading.values)
    return found


def tree(name: str, tmp_path: Path) -> Path:
    captures = shared() / "captures"
    if not captures.is_dir():
        pytest.skip("no captured machines: point FABRICMON_SHARED at the folder that holds captures/")
    if name == "ib-h100-ndr":
        (tmp_path / "class").mkdir()
        (tmp_path / "class/infiniband").symlink_to(captures / name / "sys-class-infiniband")
        return tmp_path
    if name.endswith(".json"):
        for path, text in json.loads((captures / "inventory" / name).read_text()).items():
            if path.startswith("/sys/"):
                put(tmp_path / path.removeprefix("/sys/"), text)
        for kind in ("infiniband", "net"):
            for at in sorted(tmp_path.glob(f"bus/pci/devices/*/{kind}/*")):
                (tmp_path / "class" / kind).mkdir(parents=True, exist_ok=True)
                (tmp_path / "class" / kind / at.name).symlink_to(at)
                (at / "device").symlink_to(at.parent.parent)
        return tmp_path
    return captures / name / "sys"


@pytest.mark.parametrize("name", ["ib-h100-ndr", "ib-connectx3-dual-port", "pci-aer", "sysfs-good.json"])
def test_every_counter_file_comes_out(name: str, tmp_path: Path) -> None:
    root = tree(name, tmp_path)
    found = exported(LiveHost(str(root), str(tmp_path / "proc")))
    files = 0
    for device in sorted(p for p in root.glob("class/infiniband/*")):
        for port in sorted((device / "ports").iterdir()):
            row = f"{device.name}/{port.name}"
            for directory in ("counters", "counters_ext", "hw_counters"):
                for file in sorted((port / directory).glob("*")):
                    if file.name == "lifespan":
                        continue
                    files += 1
                    want = int(file.read_text().split()[0]) * (4 if file.name in WORDS else 1)
                    if file.name in EXPECTED:
                        assert found[row, EXPECTED[file.name]] == [float(want)], file
                    else:
                        values = [v for (r, _), vs in found.items() if r == row for v in vs]
                        assert float(want) in values, file
            counted = sum(len(v) for (r, m), v in found.items() if r == row and _is_counter(m))
            assert counted == sum(
                1 for d in ("counters", "counters_ext", "hw_counters")
                for f in (port / d).glob("*") if f.name != "lifespan"
            )  # fmt: skip
            _state(row, port, found)
    assert files == {"ib-h100-ndr": 9 * 46, "ib-connectx3-dual-port": 34}.get(name, 0)


def _is_counter(metric: str) -> bool:
    """Metrics that come from counter files of the tree; the rest are state and the network interface's."""
    return (metric.endswith("_total") and "netdev" not in metric and "carrier" not in metric) or metric.endswith("_raw")


def _state(row: str, port: Path, found: dict[tuple[str, str], list[float]]) -> None:
    state = int((port / "state").read_text().split(":")[0])
    assert found[row, "fabricmon_port_state"] == [state]
    assert found[row, "fabricmon_port_phys_state"] == [int((port / "phys_state").read_text().split(":")[0])]
    (rate,) = found[row, "fabricmon_port_rate_bytes_per_second"]
    if state == 1:
        assert math.isnan(rate)
    else:
        assert rate == float((port / "rate").read_text().split()[0]) * 125_000_000


def test_a_captured_node_with_a_dead_link(tmp_path: Path) -> None:
    """sysfs-ib-operstate-down: the IPoIB interface of mlx5_6 is down and flapped 49 times."""
    root = tree("sysfs-ib-operstate-down.json", tmp_path)
    rows: dict[str, dict[str, float]] = {}
    host = LiveHost(str(root), str(tmp_path / "proc"))
    for module in COLLECTORS.values():
        if not module.config().enabled:
            continue
        for session in module.open(host, module.config()).sessions().values():
            reading = session.read()
            at = 0
            for part in reading.parts:
                for component in part.components:
                    row = rows.setdefault(component.name, {})
                    for column in part.columns:
                        row[column] = reading.values[at]
                        at += 1
    down = {name for name, row in rows.items() if row.get("operstate") == 2}
    raw = {
        f"{next((p.parent.parent / 'infiniband').iterdir()).name}/1"
        for p in root.glob("bus/pci/devices/*/net/*")
        if (p / "operstate").read_text().strip() == "down" and (p.parent.parent / "infiniband").is_dir()
    }
    assert raw
    assert raw <= down
    for name in raw:
        assert math.isnan(rows[name]["netdev_rate"])
