"""One simulated node as a Host, for a real agent: the files below /sys/class/infiniband, read from the world.

Netlink is Unsupported, so collectors read files; while the node is switched off every read fails with ENODEV.
"""

from __future__ import annotations

import builtins
import errno
import math
from array import array
from collections.abc import Callable, Sequence

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.port import PHYS_STATES, PORT_STATES
from fabricmon.host.protocol import HostError, Link, RdmaDevice, RdmaPort, Unsupported
from fabricmon.host.protocol.gpus import Gpus
from fabricmon.host.protocol.interfaces import Interfaces
from fabricmon.host.protocol.not_asked import NoEvents, not_asked
from fabricmon.model import Kind
from fabricmon.sim.columns import counting
from fabricmon.sim.world import World

CLASS = "/sys/class/infiniband"
_PHYS_WORDS = {"link_up": "LinkUp", "error_recovery": "LinkErrorRecovery", "training": "PortConfigurationTraining"}
_SPEEDS = {25: "EDR", 50: "HDR", 100: "NDR", 200: "XDR"}

Text = Callable[[], str]


class SimulatedHost(NoEvents):
    """Host `number` of a world. `name` is the node's own name."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self._number = world, number
        self.name = world.layout.hosts[number]
        self._why = "a simulated host has files only"
        self.interfaces: Interfaces = not_asked("a simulated host has no ethtool")
        self.gpus: Gpus = not_asked("a simulated host has no NVML")
        self._files: dict[str, Text] = {}
        self._raw: dict[str, tuple[str, int]] = {}
        self._links: dict[str, str] = {}
        for row in world.layout.host_rows(number).tolist():
            self._add_port(row)
        self._directories: dict[str, set[str]] = {}
        for path in (*self._files, *self._raw, *self._links):
            while path != "/":
                parent, _, name = path.rpartition("/")
                self._directories.setdefault(parent or "/", set()).add(name)
                path = parent or "/"

    def _add_port(self, row: int) -> None:
        world, labels = self._world, self._world.layout.labels(row)
        device = f"{CLASS}/{labels['device']}"
        port = f"{device}/ports/{labels['port']}"
        static = {
            "node_guid": labels["node_guid"],
            "sys_image_guid": labels["sys_image_guid"],
            "fw_ver": labels["firmware"],
            "board_id": labels["board"],
            "hca_type": labels["hca_type"],
            "device/uevent": f"DRIVER={labels['driver']}\nPCI_SLOT_NAME={labels['pci']}",
            f"ports/{labels['port']}/link_layer": labels["link_layer"],
            f"ports/{labels['port']}/gids/0": f"fe80:0000:0000:0000:{labels['port_guid']}",
        }
        for name, text in static.items():
            self._files[f"{device}/{name}"] = lambda text=text: text  # type: ignore[misc]
        self._links[f"{device}/device"] = f"/sys/devices/pci0000:00/{labels['pci']}"
        self._links[f"{device}/device/driver"] = f"/sys/bus/pci/drivers/{labels['driver']}"
        self._files |= {
            f"{port}/state": lambda: _numbered(world.links.state[row], PORT_STATES),
            f"{port}/phys_state": lambda: _numbered(world.links.phys_state[row], PHYS_STATES),
            f"{port}/rate": lambda: _rate(world, row),
            f"{port}/lid": lambda: f"0x{int(world.column(Kind.PORT, 'lid')[row]):x}",
            f"{port}/sm_lid": lambda: f"0x{int(world.column(Kind.PORT, 'sm_lid')[row]):x}",
        }
        for column in counting(Kind.PORT, world.layout.link_layer):
            counter = CATALOGUE[column]
            self._raw[f"{port}/{counter.source}/{counter.keys[0]}"] = (column, row)

    # --- the machine

    def boot_id(self) -> str:
        return f"{self.name}-boot-{self._world.hosts.boots[self._number]}"

    def machine_id(self) -> str:
        return f"simulated-{self.name}"

    def monotonic(self) -> float:
        return float(self._world.hosts.monotonic(self._world.now)[self._number])

    def list(self, path: str) -> builtins.list[str]:
        self._on(path)
        names = self._directories.get(path)
        if names is None:
            raise HostError(path, errno.ENOENT, "No such file or directory")
        return sorted(names)

    def read(self, path: str, limit: int = 65536) -> bytes:
        self._on(path)
        if path in self._raw:
            return f"{self._count(path)}\n".encode()[:limit]
        if path not in self._files:
            raise HostError(path, errno.ENOENT, "No such file or directory")
        return f"{self._files[path]()}\n".encode()[:limit]

    def realpath(self, path: str) -> str:
        self._on(path)
        if path in self._links:
            return self._links[path]
        if path not in self._files and path not in self._raw and path not in self._directories:
            raise HostError(path, errno.ENOENT, "No such file or directory")
        return path

    def bulk(self, paths: Sequence[str]) -> SimulatedBulk:
        return SimulatedBulk(self, paths)

    def close(self) -> None:
        """Nothing is open."""

    def _on(self, path: str) -> None:
        if self._world.hosts.silent[self._number]:
            raise HostError(path, errno.ENODEV, "No such device")

    def _count(self, path: str) -> int:
        column, row = self._raw[path]
        return int(self._world.ports.raw[column][row])

    # --- netlink: collectors fall back to files

    def rdma_devices(self) -> builtins.list[RdmaDevice]:
        raise Unsupported("RDMA GET", 0, "a simulated host has no netlink")

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        raise Unsupported("RDMA PORT_GET", 0, "a simulated host has no netlink")

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        raise Unsupported("RDMA STAT_GET", 0, "a simulated host has no netlink")

    def links(self) -> builtins.list[Link]:
        raise Unsupported("rtnetlink RTM_GETLINK", 0, "a simulated host has no netlink")


class SimulatedBulk:
    """BulkReader over counters of a simulated host."""

    def __init__(self, host: SimulatedHost, paths: Sequence[str]) -> None:
        self._host, self._paths = host, tuple(paths)

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        bad: list[tuple[int, HostError]] = []
        for i, path in enumerate(self._paths):
            try:
                out[base + i] = float(self._host.read(path))
            except HostError as error:
                out[base + i] = math.nan
                bad.append((i, error))
        return bad

    def close(self) -> None:
        """Nothing is open."""


def _numbered(value: float, words: dict[int, str]) -> str:
    word = words[int(value)]
    return f"{int(value)}: {_PHYS_WORDS.get(word) or (word.upper() if words is PORT_STATES else word.capitalize())}"


def _rate(world: World, row: int) -> str:
    gbps, lanes = world.links.rate[row] * 8 / 1e9, int(world.links.width[row])
    return f"{gbps:g} Gb/sec ({lanes}X {_SPEEDS.get(round(gbps / lanes), 'SDR')})"
