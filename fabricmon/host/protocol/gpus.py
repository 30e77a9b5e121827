"""GPUs from NVML: NVLinks, NVLink fabric registration, PCIe link, Xid errors.

A GPU's argument is its NVML number, which may change with a driver reload: sessions compare the UUID. HostError: ENODEV
where the GPU has gone or fell off the bus, else 0, with the NVML code in the text; Unsupported without NVML.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct


class Gpu(Struct, frozen=True):
    """Static facts; "" where unknown. `lost`: why this GPU does not answer."""

    index: int
    uuid: str = ""
    pci: str = ""  # "0000:17:00.0", lower case
    model: str = ""
    driver: str = ""
    chassis: str = ""  # serial number of the NVL72 rack; position in it
    slot: str = ""
    tray: str = ""
    module: str = ""
    lost: str = ""


class NvLink(Struct, frozen=True):
    """One NVLink; None and "" where unknown."""

    link: int
    state: int | None = None  # 0 inactive, 1 active, 2 sleep, 3 active, traffic disabled
    remote: int | None = None  # catalogue.nvlink.REMOTE_TYPES
    remote_pci: str = ""


class GpuFabric(Struct, frozen=True):
    """Registration with the NVLink fabric (docs/methods.md#gpu-fabric-state)."""

    state: int
    status: int | None = None  # only known when the registration is completed
    cluster: str = ""  # UUID, "" for the all-zero one of a single board
    clique: int | None = None
    health: int | None = None  # the mask
    summary: int | None = None


class GpuPcie(Struct, frozen=True):
    """The GPU's PCIe link; None where unknown.

    measured  the GPU and its driver measure traffic
    tx, rx    mean bytes per second since the last call
    """

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None
    measured: bool = False
    tx: float | None = None
    rx: float | None = None


class Fields(NamedTuple):
    """Answers to a batch of fields, in its order: raw values, NaN where the NVML code in `codes` is not 0."""

    values: list[float]
    codes: list[int]


class GpuEvent(Struct, frozen=True):
    """`xid` of the GPU `index` (-1: unknown which)."""

    index: int
    pci: str
    xid: int


class Gpus(Protocol):
    def gpus(self) -> list[Gpu]:
        """All GPUs; empty where the driver has none."""

    def nvlinks(self, gpu: int) -> list[NvLink]:
        """State and far end of every NVLink, up to three NVML calls each: at discovery only."""

    def fields(self, gpu: int, wanted: Sequence[tuple[int, int]]) -> Fields:
        """The answers to (field id, scope) pairs, in one call. An error concerns only its own pair."""

    def fabric(self, gpu: int) -> GpuFabric: ...

    def pcie(self, gpu: int) -> GpuPcie:
        """Four calls that the driver answers from memory, and a sample of its performance counters."""

    def watch(self, notify: Callable[[GpuEvent], None]) -> Callable[[], None]:
        """Call `notify` from a thread for every new critical Xid error; returns the function that stops it."""

    def close(self) -> None: ...


SUCCESS = 0
INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
LACKING = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND})
"""Codes (nvmlReturn_t) for a field that this GPU or driver does not have. Any other code may be temporary."""


def pci_address(text: str) -> str:
    """ "00000000:17:00.0" as NVML writes it -> "0000:17:00.0" as sysfs does; "" for anything else.

    All ones stand for a far end that is no device of this machine: the NVSwitches of a rack.
    """
    parts = text.strip().lower().split(":")
    if len(parts) != 3 or "." not in parts[2] or parts[0] == "ffffffff":
        return ""
    try:
        return f"{int(parts[0], 16):04x}:{parts[1]}:{parts[2]}"
    except ValueError:
        return ""
