"""The GPUs of a host as collectors see them: which there are, and the labels of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from fabricmon.catalogue import CATALOGUE
from fabricmon.host.gpus import Gpu, GpuFabric
from fabricmon.host.protocol import Host, Unsupported


class OfGpu(Protocol):
    gpu: Gpu


_S = TypeVar("_S", bound=OfGpu)


def row_name(index: int) -> str:
    return f"gpu{index}"


def sessions(host: Host, former: Mapping[str, _S], make: Callable[[Gpu], _S]) -> dict[str, _S]:
    """A session for each GPU, by its row's name. The former one stays while the same GPU has the number.

    A GPU that fell off the bus has no UUID any more: its session stays, too, and its reads fail.
    """
    try:
        found = host.gpus.gpus()
    except Unsupported:
        return {}
    kept = {}
    for gpu in found:
        name = row_name(gpu.index)
        old = former.get(name)
        same = old is not None and (gpu.lost or (old.gpu.uuid, old.gpu.pci) == (gpu.uuid, gpu.pci))
        kept[name] = old if old is not None and same else make(gpu)
    return kept


def labels(gpu: Gpu, fabric: GpuFabric | None = None) -> dict[str, str]:
    """The static facts of a GPU's row (model.Component). A fact that is not known is left out."""
    found = {
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
    }
    return {name: value for name, value in found.items() if value}


def by_wire(columns: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns that travel to the centre, and those that stay on the node (Counter.wire)."""
    every = tuple(columns)
    return tuple(c for c in every if CATALOGUE[c].wire), tuple(c for c in every if not CATALOGUE[c].wire)
