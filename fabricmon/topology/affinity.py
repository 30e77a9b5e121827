"""PCIe distance between GPUs and network adapters of one node (docs/methods.md#pci-affinity). Pure.

The words are those of `nvidia-smi topo -m`, nearest first: PIX (one PCIe switch), PXB (several, but not the CPU's host
bridge), PHB (one host bridge of the CPU), NODE (host bridges of one NUMA node), SYS (across NUMA nodes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from fabricmon.forms.natural import natural


class Relation(IntEnum):
    """Smaller is closer. UNKNOWN: no common bridge, and the NUMA node of one is not known."""

    PIX = 1
    PXB = 2
    PHB = 3
    NODE = 4
    SYS = 5
    UNKNOWN = 6

    def __str__(self) -> str:
        return "?" if self is Relation.UNKNOWN else self.name


class Device(Struct, frozen=True):
    """One PCI function.

    kind   "gpu", "nic", "accelerator", "nvswitch"
    names  device names: ("gpu0",), ("mlx5_0", "mlx5_1") for ports of one function; () unknown
    root   its root complex: devices of one share a host bridge; "" unknown
    path   bridges above it, the outermost first
    numa   NUMA node, -1 unknown
    speed  transfers a second and lane of its link at most, NaN unknown; width: lanes at most, 0 unknown
    """

    address: str
    kind: str
    names: tuple[str, ...] = ()
    root: str = ""
    path: tuple[str, ...] = ()
    numa: int = -1
    speed: float = float("nan")
    width: int = 0

    @property
    def title(self) -> str:
        return "/".join(self.names) or self.address


def relation(a: Device, b: Device) -> Relation:
    """The closest way between two devices."""
    common = 0
    for x, y in zip(a.path, b.path, strict=False):
        if x != y:
            break
        common += 1
    if common:
        # below the common bridge (a port of a switch that leads up) each has at most one port of that switch
        return Relation.PIX if max(len(a.path), len(b.path)) - common <= 1 else Relation.PXB
    if a.root and a.root == b.root:
        return Relation.PHB
    if a.numa < 0 or b.numa < 0:
        return Relation.UNKNOWN
    return Relation.NODE if a.numa == b.numa else Relation.SYS


def nearest(device: Device, others: Iterable[Device]) -> tuple[Relation, list[Device]]:
    """The closest of some devices, all of equal distance; (UNKNOWN, []) where there is none that can be compared."""
    ranked = [(relation(device, other), other) for other in others]
    best = min((each for each, _ in ranked), default=Relation.UNKNOWN)
    if best is Relation.UNKNOWN:
        return best, []
    return best, [other for each, other in ranked if each is best]


def of_kind(devices: Iterable[Device], *kinds: str) -> list[Device]:
    """In the natural order of their names, devices without a name last."""
    found = sorted((device for device in devices if device.kind in kinds), key=lambda device: device.address)
    return sorted(found, key=lambda device: (not device.names, natural("".join(device.names[:1]))))


def matrix(rows: Sequence[Device], columns: Sequence[Device]) -> list[list[Relation]]:
    return [[relation(row, column) for column in columns] for row in rows]
