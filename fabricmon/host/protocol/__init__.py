"""The interface of a machine to collectors; live, recorded and simulated hosts implement it.

Every method is synchronous, may block, and is called from several daemon threads at once. Paths are absolute as on the
machine ("/sys/class/infiniband"); a live host maps them below its roots (--path.sysfs, --path.procfs). HostError is the
only exception of a method.
"""

from __future__ import annotations

import builtins
import errno
from array import array
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from msgspec import Struct

from fabricmon.fabric.transport import Transport
from fabricmon.host.protocol.gpus import Gpus
from fabricmon.host.protocol.interfaces import Interfaces


class HostError(Exception):
    """A source that cannot be read. `errno` is the kernel's number (0 where there is none).

    without_descriptors  failures of this process so far for lack of a file descriptor: they show nothing of a source
    """

    without_descriptors: ClassVar[int] = 0

    def __init__(self, path: str, errno: int, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path, self.errno, self.text = path, errno, text

    @property
    def starved(self) -> bool:
        """For lack of a file descriptor."""
        return self.errno in (errno.EMFILE, errno.ENFILE)

    @classmethod
    def from_os(cls, path: str, error: OSError) -> HostError:
        """The kernel's error for a path or question."""
        made = cls(path, error.errno or 0, error.strerror or str(error))
        HostError.without_descriptors += made.starved
        return made

    @classmethod
    def missed(cls, before: int) -> None:
        """HostError where something could not be opened since `without_descriptors` was `before`: what was found is not
        all there is."""
        if HostError.without_descriptors != before:
            raise cls("files", errno.EMFILE, "too many open files")


class Unsupported(HostError):
    """This host cannot answer this type of question at all (no RDMA netlink in the kernel, a recorded host)."""


def reason(error: Exception) -> str:
    """The text of an error without the path that HostError has beside it."""
    return error.text if isinstance(error, HostError) else str(error)


class RdmaDevice(Struct, frozen=True):
    index: int
    name: str
    ports: int
    firmware: str
    node_guid: str  # "0011:2233:4455:6677" as in sysfs
    protocol: str  # "ib", "roce", "iw", "" where unknown


class RdmaPort(Struct, frozen=True):
    """The answer to PORT_GET; None for a missing attribute."""

    state: int
    phys_state: int
    lid: int | None
    sm_lid: int | None
    netdev: str | None


class Link(Struct, frozen=True):
    """One network interface from rtnetlink; None for a missing attribute."""

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

    sequence  number of the record, from 0 at every boot
    level     0 emergency .. 7 debug
    uptime    seconds of the kernel's clock
    device    PCI address in the record's metadata; "" without one
    earlier   it was in the log before this process opened it
    """

    sequence: int
    level: int
    uptime: float
    text: str
    device: str = ""
    earlier: bool = False


class BulkReader(Protocol):
    """Many numeric files that are read repeatedly: descriptors stay open, one pread a file."""

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        """Put file i's number at out[base + i]; NaN and an entry in the result for an error.

        A file is one decimal number, 0 .. 2**64 - 2; all 64 bits set is the drivers' value for a field that they cannot
        decode. Files that vanished and came back are opened again.
        """

    def close(self) -> None: ...


class Host(Protocol):
    """One machine."""

    name: str  # hostname
    interfaces: Interfaces
    gpus: Gpus

    def boot_id(self) -> str: ...

    def machine_id(self) -> str:
        """Identity of the installation; "" where unknown."""

    def monotonic(self) -> float:
        """The node's clock for rates, seconds (that of the recording on a recorded host)."""

    def list(self, path: str) -> list[str]:
        """Sorted names in a directory."""

    def read(self, path: str, limit: int = 65536) -> bytes: ...

    def realpath(self, path: str) -> str:
        """The resolved absolute path on that machine: "/sys/devices/pci0000:00/.../infiniband/mlx5_0"."""

    def bulk(self, paths: Sequence[str]) -> BulkReader: ...

    # --- netlink; Unsupported where the host has none

    def rdma_devices(self) -> builtins.list[RdmaDevice]: ...

    def rdma_port(self, device: int, port: int) -> RdmaPort: ...

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        """STAT_GET: all hw_counters of a port by the driver's names."""

    def links(self) -> builtins.list[Link]: ...

    def watch_links(self, notify: Callable[[Link | None], None]) -> Callable[[], None]:
        """Call `notify(link)` from a thread for every link message (None: some were lost); returns the function that
        stops it."""

    def watch_kmsg(self, notify: Callable[[KernelMessage | None], None]) -> Callable[[], None]:
        """Call `notify(message)` from a thread for every new message of the kernel (None: some were lost); returns the
        function that stops it. HostError (EPERM, ENOENT) where this process may not read the log."""

    def fabric_port(self, device: str = "", port: int = 0) -> Transport:
        """An InfiniBand port for management datagrams; without a name the first active one. HostError where there is
        none, or this process may not open /dev/infiniband/umad*."""

    def close(self) -> None: ...
