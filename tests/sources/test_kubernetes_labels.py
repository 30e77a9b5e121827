"""Labels of Kubernetes nodes: every vendor counts from another end, level 0 is always nearest the node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabricmon import sources
from fabricmon.topology.graph import Graph


def loaded(tmp_path: Path, nodes: dict[str, dict[str, str]], **more: object) -> Graph:
    items = [{"kind": "Node", "metadata": {"name": name, "labels": labels}} for name, labels in nodes.items()]
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"apiVersion": "v1", "items": [*items, *more.get("extra", [])], "kind": "List"}))
    return sources.load(str(path))


AWS = "topology.k8s.aws/network-node-layer-"
LADDERS = {
    "topograph 1": ("fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-2"),
    "topograph before": tuple(f"network.topology.nvidia.com/{word}" for word in ("leaf", "spine", "core")),
    "aws": (f"{AWS}3", f"{AWS}2", f"{AWS}1"),
    "oci": tuple(
        f"oci.oraclecloud.com/rdma.{word}" for word in ("local_block_id", "network_block_id", "hpc_island_id")
    ),
}


@pytest.mark.parametrize("vendor", LADDERS)
def test_the_nearest_switch_is_level_0(tmp_path: Path, vendor: str) -> None:
    near, middle, far = LADDERS[vendor]
    graph = loaded(
        tmp_path,
        {f"n{i}": {near: f"leaf-{i // 4}", middle: f"spine-{i // 8}", far: "core-0"} for i in range(16)},
    )
    assert graph.origins[0].kind == "kubernetes"
    assert {s.name: s.level for s in graph.switches.values()} == {
        "leaf-0": 0, "leaf-1": 0, "leaf-2": 0, "leaf-3": 0, "spine-0": 1, "spine-1": 1, "core-0": 2,
    }  # fmt: skip
    assert graph.attached["n5"] == ("leaf-1",)
    assert ("leaf-1", "spine-0") in graph.trunks
    assert ("core-0", "spine-1") in graph.trunks
    assert graph.shapes[0].name == "three-level fat tree"


def test_blocks_of_gke_have_two_levels(tmp_path: Path) -> None:
    block, part = "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"
    graph = loaded(
        tmp_path, {"n1": {block: "b", part: "s", "cloud.google.com/gce-topology-host": "h"}, "n2": {block: "b"}}
    )
    assert {s.name: s.level for s in graph.switches.values()} == {"s": 0, "b": 1}
    assert graph.attached == {"n1": ("s",), "n2": ("b",)}
    assert graph.hosts["n1"]["physical_host"] == "h"


def test_places_and_nvlink_domains(tmp_path: Path) -> None:
    nodes = {
        f"n{i}": {
            "topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z",
            "nvidia.com/gpu.clique": f"3fbfc98b-7f95-4749-ab11-bd351a2aab3{i // 18}.32766",
            "network.topology.nvidia.com/accelerator": "other",
        }
        for i in range(36)
    }  # fmt: skip
    nodes["hgx"] = {"nvidia.com/gpu.clique": "00000000-0000-0000-0000-000000000000.0"}
    nodes["tpu"] = {"cloud.google.com/gke-tpu-topology": "4x4x4", "cloud.google.com/gke-nodepool": "pool-7"}
    graph = loaded(tmp_path, nodes)
    assert graph.hosts["n0"] == {"region": "r", "zone": "z", "nvlink": "3fbfc98b-7f95-4749-ab11-bd351a2aab30.32766"}
    assert "nvlink" not in graph.hosts["hgx"]
    assert graph.hosts["tpu"] == {"slice": "pool-7", "slice_shape": "4x4x4"}
    assert [shape.kind for shape in graph.shapes] == ["flat", "nvl72"]


def test_an_nvlink_domain_that_lacks_a_tray_is_reported(tmp_path: Path) -> None:
    graph = loaded(tmp_path, {f"n{i}": {"nvidia.com/gpu.clique": f"rack-{i // 18}.1"} for i in range(53)})
    (finding,) = graph.findings
    assert (finding.kind, finding.components) == ("small_nvlink_domain", ("rack-2.1",))
    assert "17 hosts" in finding.why


def test_an_item_that_is_no_node_costs_itself(tmp_path: Path) -> None:
    graph = loaded(tmp_path, {"n1": {}}, extra=[{"kind": "Pod"}, 7, {"kind": "Node", "metadata": {"labels": {}}}])
    assert list(graph.hosts) == ["n1"]
    assert graph.findings[0].components == (
        "items[1]: no node with a name and labels", "items[2]: no node with a name and labels",
        "items[3]: no node with a name and labels",
    )  # fmt: skip


def test_a_cut_file_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    path.write_text('{"kind": "List",\n "items": [{"metadata": {')
    with pytest.raises(sources.SourceError, match="line 2: not JSON"):
        sources.load(str(path))
    path.write_text('{"kind": "List", "items": [], "metadata": {}}')
    with pytest.raises(sources.SourceError, match="has no node"):
        sources.load(str(path))
