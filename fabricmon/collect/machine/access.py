"""What programs need beside an RDMA device: its character devices, and its own network interface.

The kernel answers from memory, without the firmware. Where a module is not loaded its class is missing, and nothing is
known of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fabricmon.collect.machine import files
from fabricmon.collect.machine.interfaces import NET
from fabricmon.host.protocol import Host

UVERBS, UMAD = "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad"


class AccessFaults(NamedTuple):
    """Names of RDMA devices; None where it is unknown. `misplaced`: "mlx5_3: eth5 of 0000:17:00.0"."""

    uverbs: tuple[str, ...] | None
    umad: tuple[str, ...] | None
    misplaced: tuple[str, ...]

    def words(self) -> Iterable[str]:
        yield from (f"{name} (no uverbs device)" for name in self.uverbs or ())
        yield from (f"{name} (no umad device)" for name in self.umad or ())
        yield from self.misplaced


def access_faults(
    host: Host, devices: Iterable[str], infiniband: Iterable[str], netdevs: Iterable[tuple[str, str, str]]
) -> AccessFaults:
    """Faults of these devices. `infiniband`: those that have umad devices; `netdevs`: device, its PCI address and its
    interface. HostError where a class cannot be read."""
    return AccessFaults(
        _without(host, UVERBS, "uverbs", devices), _without(host, UMAD, "umad", infiniband),
        tuple(words for each in netdevs if (words := _misplaced(host, *each))),
    )  # fmt: skip


def _without(host: Host, directory: str, prefix: str, devices: Iterable[str]) -> tuple[str, ...] | None:
    found = [name for name in files.names_if_there(host, directory) if name.startswith(prefix)]
    if not found:
        return None
    named = {files.text_if_there(host, f"{directory}/{name}/ibdev") for name in found}
    return tuple(device for device in devices if device not in named)


def _misplaced(host: Host, device: str, pci: str, netdev: str) -> str:
    """Words where the interface is on another card: the functions of one card may share their ports, as in a bond."""
    own = files.pci_address(host, f"{NET}/{netdev}/device")
    return f"{device}: {netdev} of {own}" if own and own.rpartition(".")[0] != pci.rpartition(".")[0] else ""
