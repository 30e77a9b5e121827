"""The machine this process runs on, or a tree that was copied from one.

Netlink speaks of the machine the process runs on, so it is asked only where the sysfs root is the real /sys; with
another root those questions are Unsupported, and collectors take what the files say.
"""

from __future__ import annotations

import builtins
import os
import resource
import socket
import time
from collections.abc import Callable, Sequence

from fabricmon.fabric.transport import Transport, TransportError
from fabricmon.host import kmsg
from fabricmon.host.bulk import Bulk, Descriptors
from fabricmon.host.files import Files
from fabricmon.host.gpus import Gpus
from fabricmon.host.hidden import Hidden
from fabricmon.host.interfaces import Interfaces
from fabricmon.host.live_interfaces import LiveInterfaces, NoInterfaces
from fabricmon.host.nvml import NoGpus, Nvml
from fabricmon.host.protocol import HostError, KernelMessage, Link, RdmaDevice, RdmaPort, Unsupported
from fabricmon.host.rdma import RdmaNetlink
from fabricmon.host.rtnl import Rtnetlink

_READ_LIMIT = 65536
_WANTED_DESCRIPTORS = 8192  # 64 devices with 100 counters each, and room for connections
_ELSEWHERE = "not asked: sysfs is a tree of another machine"
_KEPT_FREE = 256  # of the limit, for everything that is not a counter file


class LiveHost:
    """Host read from the kernel.

    sysfs, procfs   where the machine's /sys and /proc are mounted (--path.sysfs, --path.procfs)
    name            host name; the kernel's where empty
    hide            devices nobody is to find, and so to touch (hidden.py)
    """

    def __init__(self, sysfs: str = "/sys", procfs: str = "/proc", name: str = "", hide: Sequence[str] = ()) -> None:
        self.name = name or socket.gethostname()
        self._hidden = Hidden(hide)
        self._files = Files(sysfs, procfs, Descriptors(max(0, _raise_limit() - _KEPT_FREE)))
        self._here = os.path.realpath(sysfs) == "/sys"
        self.interfaces: Interfaces = LiveInterfaces() if self._here else NoInterfaces(_ELSEWHERE)
        self.gpus: Gpus = Nvml() if self._here else NoGpus(_ELSEWHERE)
        self._rdma = RdmaNetlink()
        self._links = Rtnetlink()

    def boot_id(self) -> str:
        return self.read("/proc/sys/kernel/random/boot_id", 64).decode("ascii", "replace").strip()

    def machine_id(self) -> str:
        try:
            return self.read("/etc/machine-id", 64).decode("ascii", "replace").strip()
        except HostError:
            return ""

    def monotonic(self) -> float:
        return time.monotonic()

    def list(self, path: str) -> list[str]:
        return self._hidden.keep(path, self._files.list(path), self._address)

    def read(self, path: str, limit: int = _READ_LIMIT) -> bytes:
        return self._files.read(path, limit)

    def realpath(self, path: str) -> str:
        return self._files.realpath(path)

    def bulk(self, paths: Sequence[str]) -> Bulk:
        return self._files.bulk(paths)

    def rdma_devices(self) -> builtins.list[RdmaDevice]:
        self._only_here("RDMA GET")
        found = self._rdma.devices()
        kept = self._hidden.keep("/sys/class/infiniband", [d.name for d in found], self._address)
        return found if len(kept) == len(found) else [d for d in found if d.name in kept]

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        self._only_here("RDMA PORT_GET")
        return self._rdma.port(device, port)

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        self._only_here("RDMA STAT_GET")
        return self._rdma.counters(device, port)

    def links(self) -> builtins.list[Link]:
        self._only_here("rtnetlink RTM_GETLINK")
        return [link for link in self._links.links() if not self._hidden.hides(link.name, link.parent)]

    def watch_links(self, tell: Callable[[Link | None], None]) -> Callable[[], None]:
        self._only_here("rtnetlink group LINK")
        return self._links.watch(tell)

    def watch_kmsg(self, tell: Callable[[KernelMessage | None], None]) -> Callable[[], None]:
        self._only_here(kmsg.PATH)
        return kmsg.watch(tell)

    def fabric_port(self, device: str = "", port: int = 0) -> Transport:
        self._only_here("umad")
        from fabricmon.fabric.umad import open_port  # few hosts sweep the fabric

        try:
            return open_port(device, port)
        except TransportError as error:
            raise HostError("umad", error.errno or 0, error.strerror or str(error)) from error

    def close(self) -> None:
        self._links.close()
        self.interfaces.close()
        self.gpus.close()

    def _address(self, link: str) -> str:
        """The last element of what a device link points to: a PCI address for a PCI function."""
        try:
            return self._files.realpath(link).rsplit("/", 1)[-1]
        except HostError:
            return ""

    def _only_here(self, question: str) -> None:
        if not self._here:
            raise Unsupported(question, 0, _ELSEWHERE)


def _raise_limit() -> int:
    """Let this process have as many descriptors as counters may need; returns how many it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED_DESCRIPTORS
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_WANTED_DESCRIPTORS, hard)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a sandbox may forbid it; what is above the limit is opened for each read
        return soft
    return wanted
