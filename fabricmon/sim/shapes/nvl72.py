"""Racks of 72 GPUs in one NVLink domain, on a rail-optimised network. Pure.

A rack: 18 compute trays of 4 GPUs, 9 switch trays of 2 chips; every GPU has one NVLink to each of the 18 chips, 1296
links in all (docs/methods.md#fabric-shapes).
"""

from __future__ import annotations

from fabricmon.sim.shapes.lay import GBPS, RATE, Lay, positive
from fabricmon.topology.graph import Graph

TRAYS, GPUS, CHIPS = 18, 4, 18
NVLINK_RATE = 400 * GBPS
"""Bytes per second of one NVLink 5 in one direction: 18 of them make 900 GB/s, 1.8 TB/s both ways."""


def nvl72(racks: int = 1, spines: int = 4, rate: float = RATE) -> Graph:
    """`racks` NVLink domains; adapter i of every tray is on leaf i, shared by two racks."""
    positive(racks=racks, spines=spines)
    lay = Lay(rate)
    leaves: dict[tuple[int, int], str] = {}
    for unit in range(-(-racks // 2)):
        for rail in range(GPUS):
            leaves[unit, rail] = lay.switch(f"su{unit}-rail{rail}-leaf")
    top = [lay.switch(f"spine-{number:03d}") for number in range(spines)]
    for leaf in leaves.values():
        for spine in top:
            lay.cable(leaf, spine)
    for rack in range(racks):
        chips = [
            lay.switch(f"rack{rack}-nvsw{chip // 2}-{chip % 2}", "NVSwitch", network="nvlink", rack=f"rack{rack}")
            for chip in range(CHIPS)
        ]
        domain = f"00000000-0000-4000-8000-{rack + 1:012x}.32766"
        for tray in range(TRAYS):
            host = lay.host(f"rack{rack}-tray{tray:02d}", rack=f"rack{rack}", nvlink=domain, tray=str(tray))
            for gpu in range(GPUS):
                lay.cable(lay.adapter(host, f"mlx5_{gpu}"), leaves[rack // 2, gpu])
                node = lay.gpu(host, gpu, CHIPS)
                for chip in chips:
                    lay.cable(node, chip, rate=NVLINK_RATE, width=2)
    return lay.graph()
