"""What a machine of a known type has: GPUs, adapters of the compute network and their rate (node-inventory.md 5). Pure.

A type is told by the names in DMI, else by the GPUs. Adapters are counted as RDMA devices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Certainty(IntEnum):
    """How far an expected number of adapters is to be believed."""

    NONE = 0
    USUAL = 1  # what such a machine mostly has; a site may have attached fewer: its peers know better
    BUILT = 2  # what such a machine is built with: at least so many
    CONFIGURED = 3  # said by the operator


class Machine(NamedTuple):
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

MACHINES: tuple[Machine, ...] = (
    Machine("DGX A100", "NVIDIA", r"DGX ?A100", 8, 8, 200 * _GB, _BUILT),
    Machine("DGX H100", "NVIDIA", r"DGX ?H100", 8, 8, 400 * _GB, _BUILT),
    Machine("DGX H200", "NVIDIA", r"DGX ?H200", 8, 8, 400 * _GB, _BUILT),
    Machine("DGX B200", "NVIDIA", r"DGX ?B200", 8, 8, 400 * _GB, _BUILT),
    Machine("GB200 tray", "", r"GB200", 4, 4, 400 * _GB, _USUAL),
    # network cards are an upper bound for EFA devices: a launch template may attach fewer
    Machine("p4d.24xlarge", "Amazon", r"p4d\.24xlarge", 8, 4, 0, _USUAL),
    Machine("p4de.24xlarge", "Amazon", r"p4de\.24xlarge", 8, 4, 0, _USUAL),
    Machine("p5.48xlarge", "Amazon", r"p5\.48xlarge", 8, 32, 0, _USUAL),
    Machine("p5e.48xlarge", "Amazon", r"p5e\.48xlarge", 8, 32, 0, _USUAL),
    Machine("p5en.48xlarge", "Amazon", r"p5en\.48xlarge", 8, 16, 0, _USUAL),
    Machine("p5.4xlarge", "Amazon", r"p5\.4xlarge", 1, 1, 0, _USUAL),
    Machine("p6-b200.48xlarge", "Amazon", r"p6-b200\.48xlarge", 8, 8, 0, _USUAL),
    Machine("p6-b300.48xlarge", "Amazon", r"p6-b300\.48xlarge", 8, 17, 0, _USUAL),
    Machine("trn1.32xlarge", "Amazon", r"trn1\.32xlarge", None, 8, 0, _USUAL),
)

BY_GPU: dict[str, Machine] = {
    "0x20b0": Machine("HGX A100", "", "", None, 8, 200 * _GB, _USUAL),
    "0x20b2": Machine("HGX A100", "", "", None, 8, 200 * _GB, _USUAL),
    "0x2330": Machine("HGX H100", "", "", None, 8, 400 * _GB, _USUAL),
    "0x2335": Machine("HGX H200", "", "", None, 8, 400 * _GB, _USUAL),
    "0x2901": Machine("HGX B200", "", "", None, 8, 400 * _GB, _USUAL),
    "0x2941": Machine("GB200 tray", "", "", 4, 4, 400 * _GB, _USUAL),
}
"""PCI device id of NVIDIA's boards for baseboards, as sysfs writes it, -> machine with a full board."""

_BOARDS = (4, 8)  # GPUs on one baseboard


def machine(vendor: str, product: str, gpus: Sequence[str]) -> Machine | None:
    """The type of a machine from DMI's sys_vendor and product_name and the PCI device ids of its GPUs; None: unknown.

    A baseboard carries 4 or 8 GPUs: the smallest that holds those found is what is expected. A board of 4 says nothing
    about adapters.
    """
    for known in MACHINES:
        if re.search(known.vendor, vendor) and re.search(known.product, product):
            return known
    for device in gpus:
        board = BY_GPU.get(device)
        if board is None:
            continue
        if board.gpus is not None:
            return board
        size = next((n for n in _BOARDS if len(gpus) <= n), len(gpus))
        return board._replace(gpus=size, hcas=board.hcas if size == 8 else None)
    return None
