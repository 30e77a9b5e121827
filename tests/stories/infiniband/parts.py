"""The parts of a cluster: hosts, ports, GPUs, switches, jobs. `row` is a part's row in the tables."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import Event, Presence

GBIT = 1e9 / 8
"""Bytes per second of 1 Gb/s."""


def checksum(text: str) -> str:
    """Eight hexadecimal digits that stand for a name: the GUIDs of this world."""
    return f"{zlib.crc32(text.encode()):08x}"


@dataclass(frozen=True)
class HostType:
    """What hosts of one sort have. Rates in Gb/s; `pcie_speed` of an adapter in bytes per second; `machine`: model."""

    adapters: int
    gpus: int = 8
    rate: float = 400
    width: int = 4
    storage: tuple[int, ...] = ()  # numbers of the adapters that are for storage, 200 Gb/s
    ports_a_card: int = 1  # 2: two devices in one card, with one system image GUID
    hca: str = "MT4129"
    board: str = "MT_0000000838"
    machine: float = 7.0
    nvlinks: int = 18
    pcie_speed: float = 64e9
    gpu_generation: int = 5


@dataclass(eq=False)
class Host:
    name: str
    row: int
    type: HostType
    rack: str
    domain: str  # name of the NVLink domain that several hosts share; "" where there is none
    slot: int
    reads_kernel_log: bool
    ports: list[int] = field(default_factory=list)  # rows
    gpus: list[int] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)  # of the adapters' PCIe functions, one a port
    up: bool = True
    answers: bool = True  # its agent
    lost: tuple[float, Presence, str] | None = None  # from that second on, what the server sees of its agent
    boot: int = 1
    booted: float = -86400.0 * 3  # second
    firmware: str = "28.39.1002"
    hidden: set[int] = field(default_factory=set)  # ports without a driver
    lost_gpus: set[int] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)  # device -> its new name
    sweeps: bool = False  # its agent sweeps the subnet
    events: list[Event] = field(default_factory=list)  # of its kernel, not sent yet


@dataclass(eq=False)
class HostPort:
    """A port of an adapter. `rate` in bytes per second, `width` in lanes."""

    row: int
    host: Host
    device: str
    rate: float
    width: int
    role: str
    guid: str
    system_guid: str
    leaf: str = ""
    number: int = 1

    @property
    def name(self) -> str:
        return f"{self.host.name}/{self.device}"

    @property
    def pci(self) -> str:
        return f"0000:{0x18 + int(self.device.removeprefix('mlx5_')) * 8:02x}:00.0"


@dataclass(eq=False)
class SwitchPort:
    row: int
    switch: Switch
    number: int
    rate: float
    width: int

    @property
    def name(self) -> str:
        return f"{self.switch.name}/{self.number}"


Port = HostPort | SwitchPort


@dataclass(eq=False)
class Switch:
    name: str
    level: int  # 0: leaf
    size: int  # ports that it has
    ports: list[int] = field(default_factory=list)  # rows of those that are cabled
    up: bool = True

    @property
    def guid(self) -> str:
        return f"0x{zlib.crc32(self.name.encode()):016x}"


@dataclass(eq=False)
class Gpu:
    host: Host
    number: int
    generation: int
    nvlinks: int

    @property
    def name(self) -> str:
        return f"gpu{self.number}"

    def labels(self) -> dict[str, str]:
        domain, slot = self.host.domain, str(self.host.slot)
        found = {
            "gpu": str(self.number),
            "uuid": f"GPU-{checksum(self.host.name + str(self.number))}",
            "pci": f"0000:{0x1A + self.number * 8:02x}:00.0",
            "model": "NVIDIA GB200" if domain else "NVIDIA H100 80GB HBM3",
            "driver": "570.124",
        }
        if domain:
            found |= {"cluster": domain, "clique": "32766", "chassis": domain, "slot": slot, "tray": slot}
        return found


@dataclass(eq=False)
class Job:
    """Hosts that communicate in the first `share` of each `period` seconds, with that load of their ports.

    halted  pairs of seconds between which it does not send
    speed   1: as usual; .7: its periods take 1/.7 as long
    uses    which ports it sends through: those that are not for storage
    """

    hosts: list[Host]
    period: float = 8.0
    share: float = 0.4
    load: float = 0.7
    start: float = -math.inf
    end: float = math.inf
    speed: float = 1.0
    uses: Callable[[HostPort], bool] = lambda port: port.role != "storage"
    halted: list[tuple[float, float]] = field(default_factory=list)
    position: float = 0.0  # seconds of its own course that have passed
    rows: NDArray[np.int64] | None = None

    def runs(self, now: float) -> bool:
        return self.start <= now < self.end and not any(begin <= now < end for begin, end in self.halted)

    def halt(self, begin: float, end: float = math.inf) -> None:
        self.halted.append((begin, end))


Rate = float | Callable[[float], float]
"""Counts per second, or that as a function of the second."""
Action = Callable[[], Any]
