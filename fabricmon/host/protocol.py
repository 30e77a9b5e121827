"""How a machine is read. Collectors see only this; live, recorded and simulated hosts implement it.

Every method is synchronous, may block, and is called from collectors' own daemon threads, several at once. Paths are
absolute as on the machine ("/sys/class/infiniband"); a live host maps them below its roots (--path.sysfs,
--path.procfs). A method fails with HostError, whose `errno` and `path` name what and where; nothing else may come out
of it.
"""

from __future__ import annotations

import builtins
from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from fabricmon.fabric.transport import Transport
from fabricmon.host.gpus import Gpus
from fabricmon.host.interfaces import Interfaces


class HostError(Exception):
    """A source that cannot be read. `errno` is the kernel's number (0 where there is none)."""

    def __init__(self, path: str, errno: int, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path, self.errno, self.text = path, errno, text


class Unsupported(HostError):
    """This host cannot answer this sort of question at all (no RDMA netlink in the kernel, a recorded host)."""


class RdmaDevice(Struct, frozen=True):
    index: int
    name: str
    ports: int
    firmware: str
    node_guid: str  # "0011:2233:4455:6677" as in sysfs
    protocol: str  # "ib", "roce", "iw", "" where the kernel does not say


class RdmaPort(Struct, frozen=True):
    """Answer to PORT_GET; None where the kernel left an attribute out."""

    state: int
    phys_state: int
    lid: int | None
    sm_lid: int | None
    netdev: str | None


class Link(Struct, frozen=True):
    """One network interface as rtnetlink tells it; None where an attribute was missing."""

    index: int
    name: str
    operstate: str  # sysfs words: "up", "down", "lowerlayerdown", "unknown", ...
    admin_up: bool
    carrier: int | None
    carrier_up_count: int | None
    carrier_down_count: int | None
    mtu: int | None
    master: int | None  # ifindex of the bond or bridge
    kind: str  # "veth", "bond", "" for physical
    address: str
    parent: str  # PCI address, "" where unknown
    port_name: str  # phys_port_name
    stats: dict[str, int]  # rx_bytes, tx_bytes, rx_packets, tx_packets, rx_errors, ...


class KernelMessage(Struct, frozen=True):
    """One line of the kernel log.

    sequence  number of the record, rises with each, anew from 0 at every boot
    level     0 emergency .. 7 debug
    uptime    seconds of the kernel's own clock when it was written
    device    PCI address of the device it is about, as the kernel says beside the text; "" where it does not
    """

    sequence: int
    level: int
    uptime: float
    text: str
    device: str = ""


class BulkReader(Protocol):
    """Many numeric files read again and again: descriptors stay open, one pread a file."""

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        """Put file i's number at out[base + i]; NaN and an entry in the result where it could not be had.

        A file is one decimal number, 0 .. 2**64 - 2, with or without a newline; all 64 bits set is what drivers show
        for a field they cannot decode. Reopens what vanished and came back.
        """

    def close(self) -> None: ...


class Host(Protocol):
    """One machine."""

    name: str  # hostname
    interfaces: Interfaces  # what drivers of network interfaces tell: interfaces.py
    gpus: Gpus  # what the driver of the GPUs tells: gpus.py

    def boot_id(self) -> str: ...

    def machine_id(self) -> str:
        """Stable identity of the installation; "" where unknown."""

    def monotonic(self) -> float:
        """The node's clock for rates, seconds (a recorded host answers the recording's)."""

    def list(self, path: str) -> list[str]:
        """Sorted names in a directory; HostError (ENOENT) where there is none."""

    def read(self, path: str, limit: int = 65536) -> bytes: ...

    def realpath(self, path: str) -> str:
        """Resolved absolute path on that machine: "/sys/devices/pci0000:00/.../infiniband/mlx5_0"."""

    def bulk(self, paths: Sequence[str]) -> BulkReader: ...

    # --- netlink; Unsupported where the host has none

    def rdma_devices(self) -> builtins.list[RdmaDevice]: ...

    def rdma_port(self, device: int, port: int) -> RdmaPort: ...

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        """STAT_GET: all hw_counters of a port in one question, by driver's name."""

    def links(self) -> builtins.list[Link]: ...

    def watch_links(self, tell: Callable[[Link | None], None]) -> Callable[[], None]:
        """Call `tell(link)` from a thread at once for every link message (None: some were lost, look at all).

        Returns a function that stops it.
        """

    def watch_kmsg(self, tell: Callable[[KernelMessage | None], None]) -> Callable[[], None]:
        """Call `tell(message)` from a thread for every message of the kernel from now on (None: some were lost).

        Returns a function that stops it. HostError (EPERM, ENOENT) where this process may not read the log.
        """

    def fabric_port(self, device: str = "", port: int = 0) -> Transport:
        """An InfiniBand port to send management datagrams from; without a name the first active one.

        HostError where there is none, or where this process may not open /dev/infiniband/umad*.
        """

    def close(self) -> None: ...
