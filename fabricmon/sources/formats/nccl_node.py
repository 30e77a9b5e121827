"""Adapters of one node with their nearest GPUs, from an NCCL topology file named after the host (`node-01.xml`)."""

from __future__ import annotations

import re

from fabricmon.sources.formats import nccl
from fabricmon.sources.formats.document import SourceError
from fabricmon.topology.affinity import nearest, of_kind
from fabricmon.topology.graph import Adapter, Graph
from fabricmon.topology.names import NodeNames

sniff = nccl.sniff


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The node's adapters, with the labels "pci", "numa" and "gpus" (the nearest ones). SourceError as `nccl.parse`,
    and where the file names no adapter, like static files of clouds."""
    devices = nccl.parse(text, path)
    host = re.sub(r"(\.xml)?(\.gz)?$", "", path.rsplit("/", 1)[-1]) or path
    gpus = of_kind(devices, "gpu")
    adapters: dict[str, Adapter] = {}
    for device in of_kind(devices, "nic"):
        _, near = nearest(device, gpus)
        labels = {"pci": device.address, "numa": str(device.numa) if device.numa >= 0 else ""}
        labels["gpus"] = ",".join(gpu.title for gpu in near)
        for name in device.names:
            key = f"{host}/{name}"
            adapters[key] = Adapter(key, host, name, labels={word: value for word, value in labels.items() if value})
    if not adapters:
        raise SourceError(path, "", f"names no adapter; it lists {len(devices)} devices by address only")
    return Graph({}, adapters, (), {host: {}}, stated={"view": "node"})
