"""The GPUs of a host, with names and labels of their rows."""

from __future__ import annotations

from fabricmon.collect.machine.rows import filled
from fabricmon.host.protocol import Host, Unsupported
from fabricmon.host.protocol.gpus import Gpu, GpuFabric


def row_name(index: int) -> str:
    return f"gpu{index}"


def found(host: Host) -> dict[str, Gpu]:
    """The GPUs by the names of their rows."""
    try:
        return {row_name(gpu.index): gpu for gpu in host.gpus.gpus()}
    except Unsupported:
        return {}


def same(former: Gpu, now: Gpu) -> bool:
    """Whether the number belongs to the same GPU; one that fell off the bus has no UUID and counts as the same."""
    return bool(now.lost) or (former.uuid, former.pci) == (now.uuid, now.pci)


def labels(gpu: Gpu, fabric: GpuFabric | None = None) -> dict[str, str]:
    """The labels of a GPU's row; unknown ones are left out."""
    return filled({
        "gpu": str(gpu.index),
        "uuid": gpu.uuid,
        "pci": gpu.pci,
        "model": gpu.model,
        "driver": gpu.driver,
        "chassis": gpu.chassis,
        "slot": gpu.slot,
        "tray": gpu.tray,
        "module": gpu.module,
        "cluster": fabric.cluster if fabric else "",
        "clique": str(fabric.clique) if fabric and fabric.clique is not None and fabric.cluster else "",
    })  # fmt: skip
