"""A list of the hardware a node should have, as a site keeps it in JSON. Pure; ValueError says what is wrong.

The form is that of hardware manifests in use for GPU nodes: `pci` maps addresses to what is there ("type": "ib",
"net", "gpu", "pci" for NVSwitches, "nvme", ... with "dev" and "slot" for people), `ib.link_rate` is a rate as sysfs
writes it. Other keys are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Struct

from fabricmon.collect import attributes

JUDGED = ("ib", "gpu", "net", "pci")
"""Types of devices that are missed; disks are somebody else's business."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class Device(Struct, frozen=True):
    type: str = ""
    dev: str = ""
    slot: str = ""


class _Ib(Struct, frozen=True):
    link_rate: str = ""


class _File(Struct, frozen=True):
    pci: dict[str, Device]
    ib: _Ib = _Ib()


class Manifest(Struct, frozen=True):
    """devices by PCI address; rate of its InfiniBand links in bytes per second, 0 where it is not said."""

    devices: dict[str, Device]
    rate: float

    def count(self, type: str) -> int:
        return sum(device.type == type for device in self.devices.values())

    def missing(self, present: Collection[str]) -> list[str]:
        """What is not among the PCI addresses present, in words: "0000:4b:00.0 (ib2, PCIE_0)"."""
        return [
            f"{address} ({_words(device)})"
            for address, device in sorted(self.devices.items())
            if device.type in JUDGED and address not in present
        ]


def _words(device: Device) -> str:
    return ", ".join(word for word in (device.dev.rsplit("/", 1)[-1], device.slot) if word) or device.type


def parse(data: bytes) -> Manifest:
    try:
        found: Any = msgspec.json.decode(data, type=_File)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no hardware manifest: {error}") from None
    for address in found.pci:
        if not _ADDRESS.fullmatch(address):
            raise ValueError(f"no hardware manifest: expected a PCI address such as 0000:4b:00.0, got {address[:40]!r}")
    rate = attributes.rate(found.ib.link_rate)[0] if found.ib.link_rate else 0.0
    return Manifest(found.pci, rate)
