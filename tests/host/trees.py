"""Machines made of files: trees shaped as sysfs is, with values a test knows.

`build_hca_tree(root)` makes what `--path.sysfs` may point at: 8 adapters of one port with 51 counter files each (408 in
all) in /sys/devices, links to them in /sys/class/infiniband and /sys/class/net as the kernel lays them, one IPoIB
interface each.
"""

from __future__ import annotations

import os
from pathlib import Path

PMA = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_discards", "port_xmit_constraint_errors", "port_rcv_constraint_errors",
    "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped", "port_xmit_wait",
    "port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "unicast_xmit_packets",
    "unicast_rcv_packets", "multicast_xmit_packets", "multicast_rcv_packets",
)  # fmt: skip
HW = (
    "rx_write_requests", "rx_read_requests", "rx_atomic_requests", "rx_dct_connect", "out_of_buffer",
    "out_of_sequence", "duplicate_request", "rnr_nak_retry_err", "packet_seq_err", "implied_nak_seq_err",
    "local_ack_timeout_err", "resp_local_length_error", "resp_cqe_error", "req_cqe_error",
    "req_remote_invalid_request", "req_remote_access_errors", "resp_remote_access_errors", "resp_cqe_flush_error",
    "req_cqe_flush_error", "req_transport_retries_exceeded", "req_rnr_retries_exceeded", "roce_adp_retrans",
    "roce_adp_retrans_to", "roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans",
    "rp_cnp_ignored", "rp_cnp_handled", "np_ecn_marked_roce_packets", "np_cnp_sent",
)  # fmt: skip
NARROW = {"local_link_integrity_errors": 15, "excessive_buffer_overrun_errors": 15, "link_downed": 255}


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(at: Path, target: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(os.path.relpath(target, at.parent))


def counter_value(device: int, file: int, name: str) -> int:
    """What a counter file of a built tree holds: known, different for each file, within the counter's width."""
    return (1000 * device + 7 * file + 3) % (NARROW.get(name, 250) + 1)


def build_hca_tree(root: Path, devices: int = 8, netdevs: bool = True) -> dict[str, int]:
    """Make the tree below `root` (the sysfs root). Returns {path as on the machine: value} of every counter file."""
    root.mkdir(parents=True, exist_ok=True)
    driver = root / "bus/pci/drivers/mlx5_core"
    driver.mkdir(parents=True)
    (root / "class/infiniband").mkdir(parents=True)
    values: dict[str, int] = {}
    for n in range(devices):
        bus = 0x10 + 8 * n
        function = root / f"devices/pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        device = function / f"infiniband/mlx5_{n}"
        guid = f"{0x0200000000000000 + n:016x}"
        quads = ":".join(guid[i : i + 4] for i in range(0, 16, 4))
        for name, text in {
            "node_guid": quads,
            "sys_image_guid": quads,
            "fw_ver": "28.41.1000",
            "board_id": "FAB_0000000001",
            "hca_type": "MT4129",
            "node_desc": f"host-007 mlx5_{n}",
        }.items():
            put(device / name, f"{text}\n")
        port = device / "ports/1"
        for name, text in {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "400 Gb/sec (4X NDR)",
            "link_layer": "InfiniBand",
            "lid": f"{0x10 + n:#x}",
            "sm_lid": "0x1",
            "gids/0": f"fe80:0000:0000:0000:{quads}",
            "hw_counters/lifespan": "10",
        }.items():
            put(port / name, f"{text}\n")
        for i, (directory, name) in enumerate([("counters", c) for c in PMA] + [("hw_counters", c) for c in HW]):
            value = counter_value(n, i, name)
            put(port / directory / name, f"{value}\n")
            values[f"/sys/class/infiniband/mlx5_{n}/ports/1/{directory}/{name}"] = value
        link(device / "device", function)
        link(function / "driver", driver)
        link(root / f"class/infiniband/mlx5_{n}", device)
        if netdevs:
            build_netdev(root, function, f"ib{n}", index=10 + n, mbps=400000)
    return values


def build_netdev(root: Path, function: Path | None, name: str, index: int, mbps: int = 100000, up: bool = True) -> Path:
    """A network interface of a PCI function, or a virtual one. Returns its directory."""
    netdev = (function or root / "devices/virtual") / f"net/{name}"
    for file, text in {
        "ifindex": str(index),
        "operstate": "up" if up else "down",
        "carrier": "1" if up else "0",
        "carrier_up_count": "2",
        "carrier_down_count": "1",
        "flags": "0x1003",
        "mtu": "4092",
        "address": "02:00:00:00:00:01",
        "dev_port": "0",
        "speed": str(mbps),
        "phys_port_name": "",
        "statistics/rx_bytes": "1000",
        "statistics/tx_bytes": "2000",
        "statistics/rx_packets": "10",
        "statistics/tx_packets": "20",
        "statistics/rx_errors": "1",
        "statistics/tx_errors": "2",
        "statistics/rx_dropped": "3",
        "statistics/tx_dropped": "4",
        "statistics/rx_crc_errors": "5",
    }.items():
        put(netdev / file, f"{text}\n")
    if function is not None:
        link(netdev / "device", function)
    link(root / f"class/net/{name}", netdev)
    return netdev
