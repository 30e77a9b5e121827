"""A site's manifest of a node's hardware, in JSON. Pure; ValueError names what is wrong.

The form of common hardware manifests of GPU nodes: `pci` maps addresses to devices ("type": "ib", "net", "gpu", "pci"
for NVSwitches, "nvme", ...; "dev" and "slot" for display), `ib.link_rate` is a rate as in sysfs; other keys are left.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from fabricmon.collect.parse import attributes
from fabricmon.forms.decoding import Undecodable, json_value

EXPECTED_TYPES = ("ib", "gpu", "net", "pci")
"""Types of devices that are reported as missing; not disks."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class ManifestDevice(Struct, frozen=True):
    type: str = ""
    dev: str = ""
    slot: str = ""


class _Ib(Struct, frozen=True):
    link_rate: str = ""


class _File(Struct, frozen=True):
    pci: dict[str, ManifestDevice]
    ib: _Ib = _Ib()


class Manifest(Struct, frozen=True):
    """Devices by PCI address; rate of the InfiniBand links in bytes per second, 0 where not given."""

    devices: dict[str, ManifestDevice]
    rate: float

    def count(self, type: str) -> int:
        return sum(device.type == type for device in self.devices.values())

    def missing(self, present: Collection[str]) -> list[str]:
        """The devices without a PCI address in `present`: "0000:4b:00.0 (ib2, PCIE_0)"."""
        return [
            f"{address} ({', '.join(filter(None, (device.dev.rsplit('/', 1)[-1], device.slot))) or device.type})"
            for address, device in sorted(self.devices.items())
            if device.type in EXPECTED_TYPES and address not in present
        ]


def parse(data: bytes) -> Manifest:
    try:
        found: Any = json_value(data, _File)
    except Undecodable as error:
        raise ValueError(f"no hardware manifest: {error}") from None
    for address in found.pci:
        if not _ADDRESS.fullmatch(address):
            raise ValueError(f"no hardware manifest: expected a PCI address such as 0000:4b:00.0, got {address[:40]!r}")
    rate = attributes.rate(found.ib.link_rate)[0] if found.ib.link_rate else 0.0
    return Manifest(found.pci, rate)
