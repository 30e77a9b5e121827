"""Machine types: their GPUs, adapters of the compute network and rate (docs/methods.md#machine-types). Pure.

A type follows from the names in DMI, else from the GPUs. Adapters are counted as RDMA devices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Certainty(IntEnum):
    """Certainty of an expected number of adapters."""

    NONE = 0
    USUAL = 1  # of most such machines; a site may have attached fewer: its peers count more
    BUILT = 2  # built in: at least so many
    CONFIGURED = 3  # set by the operator


class MachineType(NamedTuple):
    """One type. `rate` in bytes per second, 0 where adapters of any rate count. None: not known."""

    name: str
    vendor: str  # regular expressions, on sys_vendor and product_name
    product: str
    gpus: int | None
    hcas: int | None
    rate: float
    certainty: Certainty


_GB = 1e9 / 8
_USUAL, _BUILT = Certainty.USUAL, Certainty.BUILT

MACHINES: tuple[MachineType, ...] = (
    MachineType("DGX A100", "NVIDIA", r"DGX ?A100", 8, 8, 200 * _GB, _BUILT),
    MachineType("DGX H100", "NVIDIA", r"DGX ?H100", 8, 8, 400 * _GB, _BUILT),
    MachineType("DGX H200", "NVIDIA", r"DGX ?H200", 8, 8, 400 * _GB, _BUILT),
    MachineType("DGX B200", "NVIDIA", r"DGX ?B200", 8, 8, 400 * _GB, _BUILT),
    MachineType("GB200 tray", "", r"GB200", 4, 4, 400 * _GB, _USUAL),
    # network cards are an upper bound for EFA devices: a launch template may attach fewer
    MachineType("p4d.24xlarge", "Amazon", r"p4d\.24xlarge", 8, 4, 0, _USUAL),
    MachineType("p4de.24xlarge", "Amazon", r"p4de\.24xlarge", 8, 4, 0, _USUAL),
    MachineType("p5.48xlarge", "Amazon", r"p5\.48xlarge", 8, 32, 0, _USUAL),
    MachineType("p5e.48xlarge", "Amazon", r"p5e\.48xlarge", 8, 32, 0, _USUAL),
    MachineType("p5en.48xlarge", "Amazon", r"p5en\.48xlarge", 8, 16, 0, _USUAL),
    MachineType("p5.4xlarge", "Amazon", r"p5\.4xlarge", 1, 1, 0, _USUAL),
    MachineType("p6-b200.48xlarge", "Amazon", r"p6-b200\.48xlarge", 8, 8, 0, _USUAL),
    MachineType("p6-b300.48xlarge", "Amazon", r"p6-b300\.48xlarge", 8, 17, 0, _USUAL),
    MachineType("trn1.32xlarge", "Amazon", r"trn1\.32xlarge", None, 8, 0, _USUAL),
)

BY_GPU: dict[str, MachineType] = {
    "0x20b0": MachineType("HGX A100", "", "", None, 8, 200 * _GB, _USUAL),
    "0x20b2": MachineType("HGX A100", "", "", None, 8, 200 * _GB, _USUAL),
    "0x2330": MachineType("HGX H100", "", "", None, 8, 400 * _GB, _USUAL),
    "0x2335": MachineType("HGX H200", "", "", None, 8, 400 * _GB, _USUAL),
    "0x2901": MachineType("HGX B200", "", "", None, 8, 400 * _GB, _USUAL),
    "0x2941": MachineType("GB200 tray", "", "", 4, 4, 400 * _GB, _USUAL),
}
"""PCI device id of NVIDIA's boards for baseboards, as sysfs writes it, -> machine with a full board."""

_BOARDS = (4, 8)  # GPUs on one baseboard


def machine(vendor: str, product: str, gpus: Sequence[str], shared: bool = False) -> MachineType | None:
    """The type of a machine from DMI's sys_vendor and product_name and the PCI device ids of its GPUs; None: unknown.

    A baseboard carries 4 or 8 GPUs: the smallest that holds those found is expected. A board of 4 gives no number of
    adapters. `shared`: a virtual machine that may have been given some GPUs of a board; then its type gives no numbers.
    """
    for known in MACHINES:
        if re.search(known.vendor, vendor) and re.search(known.product, product):
            return known
    for device in gpus:
        board = BY_GPU.get(device)
        if board is None:
            continue
        if shared:
            return board._replace(gpus=None, hcas=None)
        if board.gpus is not None:
            return board
        size = next((n for n in _BOARDS if len(gpus) <= n), len(gpus))
        return board._replace(gpus=size, hcas=board.hcas if size == 8 else None)
    return None
