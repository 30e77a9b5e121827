"""A node's sysfs as a folder: InfiniBand adapters whose links a test takes down and up."""

from __future__ import annotations

from pathlib import Path

COUNTERS = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_wait", "port_rcv_data")


class Node:
    """`count` single-port adapters mlx5_0, mlx5_1, ... below `root`, all links up."""

    def __init__(self, root: Path, count: int) -> None:
        self.root = root
        self.devices = [f"mlx5_{n}" for n in range(count)]
        for n, device in enumerate(self.devices):
            base = self._base(device)
            (base / "ports/1/counters").mkdir(parents=True)
            guid = f"0002:c903:00{n:02x}:0001"
            words = {"node_guid": guid, "sys_image_guid": guid, "fw_ver": "28.39.1002", "node_type": "1: CA"}
            for name, text in {**words, "board_id": "MT_0000000838", "hca_type": "MT4129"}.items():
                (base / name).write_text(f"{text}\n")
            for name, text in {"rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand", "sm_lid": "0x1"}.items():
                (base / "ports/1" / name).write_text(f"{text}\n")
            (base / "ports/1/lid").write_text(f"{n + 2:#x}\n")
            for name in COUNTERS:
                (base / "ports/1/counters" / name).write_text("0\n")
            self.up(device)

    def up(self, device: str) -> None:
        self._put(device, "state", "4: ACTIVE")
        self._put(device, "phys_state", "5: LinkUp")

    def down(self, device: str) -> None:
        """The counter first, as a device has counted by the time its state can be read."""
        downs = int((self._base(device) / "ports/1/counters/link_downed").read_text())
        self._put(device, "counters/link_downed", str(downs + 1))
        self._put(device, "phys_state", "2: Polling")
        self._put(device, "state", "1: DOWN")

    def _base(self, device: str) -> Path:
        return self.root / "class/infiniband" / device

    def _put(self, device: str, name: str, text: str) -> None:
        # In place and of one length: agents keep files open, and nobody may see half a value.
        with (self._base(device) / "ports/1" / name).open("w") as file:
            file.write(f"{text}\n")
