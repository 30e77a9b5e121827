"""What the GPU driver tells: which GPUs there are, their NVLinks, their place in the NVLink fabric, their Xid errors.

GPUs are asked by the number NVML gives them, which may be another GPU's after a driver reload: a session compares the
UUID. HostError as NVML says it: ENODEV where the GPU has gone or fell off the bus, 0 for anything else, the NVML code
in the text; Unsupported where there is no NVML at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct


class Gpu(Struct, frozen=True):
    """Static facts; "" where NVML does not tell. `lost`: why nothing can be asked of this one."""

    index: int
    uuid: str = ""
    pci: str = ""  # "0000:17:00.0", lower case
    model: str = ""
    driver: str = ""
    chassis: str = ""  # serial number of the NVL72 rack, and where in it
    slot: str = ""
    tray: str = ""
    module: str = ""
    lost: str = ""


class NvLink(Struct, frozen=True):
    """One NVLink; None and "" where NVML does not tell."""

    link: int
    state: int | None = None  # catalogue.nvlink.LINK_STATES
    remote: int | None = None  # catalogue.nvlink.REMOTE_TYPES
    remote_pci: str = ""


class GpuFabric(Struct, frozen=True):
    """Registration with the NVLink fabric (counters-nvlink-pcie.md 2.4)."""

    state: int
    status: int | None = None  # only known when the registration is completed
    cluster: str = ""  # UUID, "" for the all-zero one of a single board
    clique: int | None = None
    health: int | None = None  # the mask
    summary: int | None = None


class GpuPcie(Struct, frozen=True):
    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None


class Fields(NamedTuple):
    """Answers to a batch of field questions, in its order: the raw value, NaN where `codes` is not 0 (NVML's)."""

    values: list[float]
    codes: list[int]


class GpuEvent(Struct, frozen=True):
    """`xid` of the GPU `index` (-1: unknown which)."""

    index: int
    pci: str
    xid: int


class Gpus(Protocol):
    def gpus(self) -> list[Gpu]:
        """All GPUs. Empty where the driver has none."""

    def nvlinks(self, gpu: int) -> list[NvLink]:
        """State and far end of every NVLink, up to three questions each: at discovery only."""

    def fields(self, gpu: int, wanted: Sequence[tuple[int, int]]) -> Fields:
        """One call for many (field id, scope) pairs. What one of them cannot answer costs that one only."""

    def fabric(self, gpu: int) -> GpuFabric: ...

    def pcie(self, gpu: int) -> GpuPcie:
        """Four questions the driver answers from memory."""

    def watch(self, tell: Callable[[GpuEvent], None]) -> Callable[[], None]:
        """Call `tell` from a thread for every critical Xid error from now on. Returns a function that stops it."""

    def close(self) -> None: ...


SUCCESS = 0
INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
LACKING = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND})
"""Codes (nvmlReturn_t) that say: this GPU or this driver has no such field. Any other one is trouble that may pass."""
