"""The machine of this process, or a copied tree of another.

Netlink describes the machine of this process, so it is used only if the sysfs root is the real /sys; with another root
those questions are Unsupported, and collectors use the files.
"""

from __future__ import annotations

import builtins
import os
import resource
import socket
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from fabricmon.fabric.transport import Transport, TransportError
from fabricmon.host import kmsg
from fabricmon.host.bulk import Descriptors
from fabricmon.host.files import Files
from fabricmon.host.live_interfaces import LiveInterfaces
from fabricmon.host.messages import rdma
from fabricmon.host.netlink_socket import RDMA, Asker, decoded
from fabricmon.host.nvml import Nvml
from fabricmon.host.protocol import HostError, KernelMessage, Link, RdmaDevice, RdmaPort, Unsupported
from fabricmon.host.protocol.gpus import Gpus
from fabricmon.host.protocol.hidden import Hidden
from fabricmon.host.protocol.interfaces import Interfaces
from fabricmon.host.protocol.not_asked import not_asked
from fabricmon.host.rtnl import Rtnetlink

_T = TypeVar("_T")
_WANTED_DESCRIPTORS = 8192  # 64 devices with 100 counters each, and connections
_ELSEWHERE = "not available: sysfs is a tree of another machine"
_RDMA_SECONDS = 2.0  # for one answer; a port query is a few firmware commands, milliseconds each
_KEPT_FREE = 256  # of the limit, for all other descriptors


class LiveHost(Files):
    """Host from the kernel.

    sysfs, procfs   mount points of the machine's /sys and /proc (--path.sysfs, --path.procfs)
    name            host name; the kernel's where empty
    hide            excluded devices (hidden.py)
    """

    def __init__(self, sysfs: str = "/sys", procfs: str = "/proc", name: str = "", hide: Sequence[str] = ()) -> None:
        self.name = name or socket.gethostname()
        self._hidden = Hidden(hide)
        super().__init__(sysfs, procfs, Descriptors(max(0, _raise_limit() - _KEPT_FREE)))
        self._here = os.path.realpath(sysfs) == "/sys"
        self.interfaces: Interfaces = LiveInterfaces() if self._here else not_asked(_ELSEWHERE)
        self.gpus: Gpus = Nvml() if self._here else not_asked(_ELSEWHERE)
        self._rdma = Asker(RDMA, "RDMA netlink", _RDMA_SECONDS)
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
        return self._hidden.keep(path, super().list(path), self._address)

    def rdma_devices(self) -> builtins.list[RdmaDevice]:
        self._only_here("RDMA GET")
        payloads = self._rdma.ask("RDMA GET", rdma.CLIENT + rdma.GET, b"", dump=True)
        found = decoded("RDMA GET", lambda: [rdma.decode_device(payload) for payload in payloads])
        kept = self._hidden.keep("/sys/class/infiniband", [d.name for d in found], self._address)
        return found if len(kept) == len(found) else [d for d in found if d.name in kept]

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        return self._ask_rdma("PORT_GET", rdma.PORT_GET, device, port, rdma.decode_port)

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        return self._ask_rdma("STAT_GET", rdma.STAT_GET, device, port, rdma.decode_counters)

    def links(self) -> builtins.list[Link]:
        self._only_here("rtnetlink RTM_GETLINK")
        return [link for link in self._links.links() if not self._hidden.hides(link.name, link.parent)]

    def watch_links(self, notify: Callable[[Link | None], None]) -> Callable[[], None]:
        self._only_here("rtnetlink group LINK")
        return self._links.watch(notify)

    def watch_kmsg(self, notify: Callable[[KernelMessage | None], None]) -> Callable[[], None]:
        self._only_here(kmsg.PATH)
        return kmsg.watch(notify, open_whole=kmsg.open_whole)

    def fabric_port(self, device: str = "", port: int = 0) -> Transport:
        self._only_here("umad")
        from fabricmon.host.umad import open_port  # few hosts sweep the fabric

        try:
            return open_port(device, port)
        except TransportError as error:
            raise HostError("umad", error.errno or 0, error.strerror or str(error)) from error

    def close(self) -> None:
        self._links.close()
        self.interfaces.close()
        self.gpus.close()

    def _ask_rdma(self, what: str, command: int, device: int, port: int, decode: Callable[[bytes], _T]) -> _T:
        where = f"RDMA {what} device {device} port {port}"
        self._only_here(where)
        return self._rdma.one(where, rdma.CLIENT + command, rdma.request(device, port), decode)

    def _address(self, link: str) -> str:
        """The last element of a device link's target: the PCI address of a PCI function."""
        try:
            return self.realpath(link).rsplit("/", 1)[-1]
        except HostError:
            return ""

    def _only_here(self, question: str) -> None:
        if not self._here:
            raise Unsupported(question, 0, _ELSEWHERE)


def _raise_limit() -> int:
    """Raise the limit of open descriptors to what counters may need; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED_DESCRIPTORS
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_WANTED_DESCRIPTORS, hard)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # forbidden in a sandbox; files above the limit are opened for each read
        return soft
    return wanted
