"""Placement of Kubernetes nodes by their labels: the JSON of `kubectl get nodes -o json`
(docs/methods.md#scheduler-topology).

Level 0 is always the nearest switch: topograph's tier 0, a "leaf", the layer 3 of AWS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

from fabricmon.sources.formats.document import SourceError, load_json
from fabricmon.sources.formats.placement import Placement
from fabricmon.topology.graph import Graph, Origin, Role
from fabricmon.topology.names import NodeNames

LADDERS: tuple[tuple[str, ...], ...] = (
    tuple(f"fabric.topograph.run/tier-{tier}" for tier in range(8)),
    (
        "network.topology.nvidia.com/leaf",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/core",
    ),
    (
        "network.topology.nvidia.com/block",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/datacenter",
    ),
    (
        "topology.k8s.aws/network-node-layer-3",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-1",
    ),
    ("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"),
    (
        "oci.oraclecloud.com/rdma.local_block_id",
        "oci.oraclecloud.com/rdma.network_block_id",
        "oci.oraclecloud.com/rdma.hpc_island_id",
    ),
)
"""Labels that name the switches or blocks above a node, the nearest first. The first family a node has counts."""

PLACES: dict[str, str] = {
    "topology.kubernetes.io/region": "region",
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/rack": "rack",
    "nvidia.com/gpu.clique": "nvlink",
    "accelerator.topograph.run/domain": "nvlink",
    "network.topology.nvidia.com/accelerator": "nvlink",
    "oci.oraclecloud.com/host.gpu_memory_fabric_id": "nvlink",
    "accelerator.topograph.run/sub-domain": "nvlink_part",
    "topology.k8s.aws/ultraserver-id": "ultraserver",
    "topology.k8s.aws/capacity-block-id": "capacity_block",
    "cloud.google.com/gce-topology-host": "physical_host",
    "oci.oraclecloud.com/rdma.host_id": "physical_host",
    "oci.oraclecloud.com/host.tray_index": "tray",
    "cloud.google.com/gke-tpu-topology": "slice_shape",
    "cloud.google.com/gke-tpu-accelerator": "accelerator",
}
"""Label -> host label of the graph. Where several give one host label the first in this table counts."""

KNOWN = frozenset([*PLACES, *(label for ladder in LADDERS for label in ladder)])
"""Labels that place a node."""

_NO_CLIQUE = re.compile(r"^0{8}-(0{4}-){3}0{12}(\.|$)")
_SLICE = "cloud.google.com/gke-tpu-topology"
_POOL = "cloud.google.com/gke-nodepool"
_HEAD = re.compile(r"^\s*\{")


def sniff(head: str) -> bool:
    if not _HEAD.match(head) or '"metadata"' not in head:
        return False
    return bool(re.search(r'"kind"\s*:\s*"(List|NodeList|Node)"', head) or re.search(r'"items"\s*:\s*\[', head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a node list. SourceError where it has no node; invalid items are left out and make a finding."""
    data = load_json(text, path)
    items = data.get("items", [data]) if isinstance(data, dict) else None
    if not isinstance(items, list):
        raise SourceError(path, "items", "expected a list of nodes")
    found = Placement()
    for at, item in enumerate(items):
        node = _node(item)
        if node is None:
            found.odd("unread_line", f"items[{at}]: no node with a name and labels")
            continue
        _place(found, *node)
    if not found.hosts:
        raise SourceError(path, "items", "has no node")
    return found.graph()


def placement(nodes: Mapping[str, Mapping[str, str]], origin: str) -> Graph | None:
    """The graph of nodes by name and labels; None where no label places a node."""
    found = Placement()
    for name, labels in sorted(nodes.items()):
        if not KNOWN.isdisjoint(labels):
            _place(found, name, {key: value for key, value in labels.items() if value})
    if not found.hosts:
        return None
    source = Origin("kubernetes", origin, Role.PLACEMENT)
    return msgspec.structs.replace(found.graph(), source=str(source), origins=(source,))


def _node(item: Any) -> tuple[str, dict[str, str]] | None:
    if not isinstance(item, dict) or item.get("kind", "Node") != "Node":
        return None
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        return None
    name, labels = metadata.get("name"), metadata.get("labels") or {}
    if not isinstance(name, str) or not isinstance(labels, dict):
        return None
    return name, {str(key): value for key, value in labels.items() if isinstance(value, str) and value}


def _place(found: Placement, name: str, labels: dict[str, str]) -> None:
    found.host(name)
    known = found.hosts[name]
    for label, meaning in PLACES.items():
        value = labels.get(label)
        if value and not (meaning == "nvlink" and _NO_CLIQUE.match(value)):
            known.setdefault(meaning, value)
    if _SLICE in labels and _POOL in labels:  # on GKE a slice is one node pool
        known.setdefault("slice", labels[_POOL])
    for ladder in LADDERS:
        above = [(level, labels[label]) for level, label in enumerate(ladder) if label in labels]
        if not above:
            continue
        for level, switch in above:
            found.switch(switch, "", level)
        found.attach(name, above[0][1])
        for (_, lower), (_, upper) in pairwise(above):
            found.join(lower, upper)
        return
