"""Whole nodes made of files: adapters, GPUs beside them, the machine's name. See tests/host/trees.py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fabricmon.host.live import LiveHost
from fabricmon.model import Kind, Reading
from tests.host.trees import build_hca_tree, link, put

EFA_PORT = (
    "tx_bytes", "tx_pkts", "rx_bytes", "rx_pkts", "rx_drops", "send_bytes", "send_wrs", "recv_bytes", "recv_wrs",
    "rdma_read_wrs", "rdma_read_bytes", "rdma_read_resp_bytes", "rdma_read_wr_err", "rdma_write_wrs",
    "rdma_write_bytes", "rdma_write_recv_bytes", "rdma_write_wr_err", "retrans_bytes", "retrans_pkts",
    "retrans_timeout_events", "unresponsive_remote_events", "impaired_remote_conn_events",
)  # fmt: skip
EFA_DEVICE = (
    "submitted_cmds", "completed_cmds", "cmds_err", "no_completion_cmds", "keep_alive_rcvd", "alloc_pd_err",
    "create_qp_err", "create_cq_err", "reg_mr_err", "alloc_ucontext_err", "create_ah_err", "mmap_err", "alloc_mr_err",
    "get_dma_mr_err",
)  # fmt: skip


def name_machine(root: Path, vendor: str, product: str, board: str = "") -> None:
    for name, text in (("sys_vendor", vendor), ("product_name", product), ("board_name", board)):
        put(root / "class/dmi/id" / name, f"{text}\n")


def build_dgx(root: Path, adapters: int = 8, gpus: int = 8, product: str = "DGXH100") -> None:
    """Adapter n and GPU n below one PCI switch each, on the processor n // 4."""
    build_hca_tree(root, devices=adapters)
    name_machine(root, "NVIDIA", product, "board-1")
    for n in range(max(adapters, gpus)):
        bus = 0x10 + 8 * n
        below = root / f"devices/pci0000:{bus:02x}/0000:{bus:02x}:01.0"
        if n < adapters:
            put(below / f"0000:{bus + 1:02x}:00.0/numa_node", f"{n // 4}\n")
        if n < gpus:
            add_gpu(root, below / f"0000:{bus + 2:02x}:00.0", numa=n // 4)


def add_gpu(root: Path, function: Path, numa: int = 0, device: str = "0x2330") -> None:
    put(function / "numa_node", f"{numa}\n")
    put(function / "device", f"{device}\n")
    link(root / f"bus/pci/drivers/nvidia/{function.name}", function)


def add_adapter(
    root: Path, name: str, bus: int, numa: int, layer: str = "InfiniBand", rate: str = "400 Gb/sec (4X NDR)",
    state: str = "4: ACTIVE",
) -> None:  # fmt: skip
    """One more adapter, below a root port of its own."""
    function = root / f"devices/pci0000:{bus:02x}/0000:{bus:02x}:02.0/0000:{bus + 1:02x}:00.0"
    device = function / f"infiniband/{name}"
    for file, text in {"state": state, "phys_state": "5: LinkUp", "rate": rate, "link_layer": layer}.items():
        put(device / "ports/1" / file, f"{text}\n")
    put(function / "numa_node", f"{numa}\n")
    (root / "bus/pci/drivers/mlx5_core").mkdir(parents=True, exist_ok=True)
    link(device / "device", function)
    link(function / "driver", root / "bus/pci/drivers/mlx5_core")
    link(root / f"class/infiniband/{name}", device)


def build_efa(root: Path, packets: dict[str, int], product: str = "p5.48xlarge") -> dict[tuple[str, str], int]:
    """An EC2 instance with these EFA devices, each having sent so many packets. {(device, file): value} of all else."""
    name_machine(root, "Amazon EC2", product)
    (root / "bus/pci/drivers/efa").mkdir(parents=True)
    values = {}
    for n, (name, sent) in enumerate(packets.items()):
        function = root / f"devices/pci0000:{0x40 + n // 4:02x}/0000:{0x40 + n // 4:02x}:01.0/0000:{0x80 + n:02x}:00.0"
        device = function / f"infiniband/{name}"
        for file, text in {
            "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)", "link_layer": "Unspecified",
        }.items():  # fmt: skip
            put(device / "ports/1" / file, f"{text}\n")
        for place, files in (("ports/1/hw_counters", EFA_PORT), ("hw_counters", EFA_DEVICE)):
            for i, file in enumerate(files):
                value = sent if file == "tx_pkts" else 1000 * n + 10 * i + 1
                values[name, file] = value
                put(device / place / file, f"{value}\n")
        link(device / "device", function)
        link(function / "driver", root / "bus/pci/drivers/efa")
        link(root / f"class/infiniband/{name}", device)
    return values


def host(root: Path) -> LiveHost:
    return LiveHost(str(root), str(root / "proc"))


def cells(readings: Iterable[Reading]) -> dict[tuple[Kind, str], dict[str, float]]:
    """(kind, row) -> column -> value."""
    found: dict[tuple[Kind, str], dict[str, float]] = {}
    for reading in readings:
        at = 0
        for part in reading.parts:
            for component in part.components:
                row = found.setdefault((part.kind, component.name), {})
                for column in part.columns:
                    row[column] = reading.values[at]
                    at += 1
        assert at == len(reading.values)
    return found


def labels(reading: Reading, kind: Kind) -> dict[str, dict[str, str]]:
    return {c.name: c.labels for part in reading.parts if part.kind is kind for c in part.components}
