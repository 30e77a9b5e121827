"""Collectors: how each sort of reading is taken. One file each; the table below is all there is."""

from __future__ import annotations

from types import ModuleType

from fabricmon.collect import ethernet, gpu, infiniband, infiniband_state, nvlink, pcie

COLLECTORS: dict[str, ModuleType] = {
    infiniband.NAME: infiniband,
    infiniband_state.NAME: infiniband_state,
    ethernet.NAME: ethernet,
    gpu.NAME: gpu,
    nvlink.NAME: nvlink,
    pcie.NAME: pcie,
}
