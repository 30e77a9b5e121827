"""NDT cable plans, torus-2QoS, tray lists and cluster models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabricmon import sources
from fabricmon.topology.graph import Graph


def loaded(tmp_path: Path, text: str, name: str = "file") -> Graph:
    path = tmp_path / name
    path.write_text(text)
    return sources.load(str(path))


def titles(graph: Graph) -> set[str]:
    return {graph.title(link) for link in graph.cables}


def test_the_short_form_and_the_ways_to_write_a_port(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path,
        "StartDevice,StartPort,EndDevice,EndPort,LinkType\r\n"
        "leaf-1,Port 21,core-1,Blade 16_Port 2/20,Data\r\n"
        "leaf-1,Port 11/1,leaf-2,3,Data\r\n"
        "node-1,IB Port 1,leaf-1,Port 1,Data\r\n"
        "node-1,mlx5_1,leaf-2,Port 1,Data\r\n"
        "leaf-2,Port 1,node-1,mlx5_1,Data\r\n",
    )
    assert titles(graph) >= {"node-1/HCA-1/1, leaf-1/1", "node-1/mlx5_1/1, leaf-2/1"}
    assert {frozenset(graph.describe(end) for end in (c.a, c.b)) for c in graph.cables} >= {
        frozenset(("leaf-1/21", "core-1/L16/U2/20"))
    }
    assert len(graph.cables) == 3
    assert {f.kind for f in graph.findings} == {"conflicting_record"}  # port 11/1 of leaf-1 is port 21


def test_what_cannot_be_used_is_reported_with_its_line(tmp_path: Path) -> None:
    head = "#Fields:StartDevice,StartPort,EndDevice,EndPort,Speed\n"
    graph = loaded(tmp_path, head + "a,Port 1,b,Port 1,400000\nb,Port 1,c,Port 1,\nx,somewhere,c,Port 2,\n,,,,\n")
    found = {finding.kind: finding.components for finding in graph.findings}
    assert found["conflicting_record"] == ("line 3: b, Port 1, c, Port 1: in use since line 2",)
    assert found["unread_line"] == ("line 4: x, somewhere, c, Port 2",)
    assert graph.cables[0].rate == 400e9 / 8
    with pytest.raises(sources.SourceError, match="has no valid cable"):
        loaded(tmp_path, head)


def test_a_real_plan(shared_dir: Path) -> None:
    graph = sources.load(str(shared_dir / "captures/fabric/ndt/ndt.csv"))
    assert len(graph.cables) == 360
    (odd,) = graph.findings
    assert (odd.kind, len(odd.components)) == ("conflicting_record", 40)
    assert {c.rate * 8 / 1e9 for c in graph.cables} == {200.0}
    assert sum("card" in s.labels for s in graph.switches.values()) == 18
    assert graph.shapes[0].name == "two-level fat tree"


TORUS = """
# a comment
torus 4 4 2m   # half open
portgroup_max_ports 12
xp_link 0x200000 0x200001
xm_link 0x200000 0x200003
yp_link 0x200000 0x200005
colour red
next_seed
x_dateline -1
"""


def test_a_torus_says_its_size_and_the_cables_of_its_seed(tmp_path: Path) -> None:
    graph = loaded(tmp_path, TORUS)
    assert graph.origins[0].kind == "torus-2qos"
    assert graph.stated["shape"] == "half-open torus 4x4x2"
    assert len(graph.switches) == 4
    assert len(graph.trunks) == 3
    assert graph.findings[0].components == ("line 8: colour red",)
    assert loaded(tmp_path, "mesh 3 3 1\n").stated["shape"] == "mesh 3x3x1"
    assert loaded(tmp_path, "mesh 3T 4t 1\n").stated["shape"] == "torus 3x4x1"


def test_trays_of_nvlink_domains(tmp_path: Path, shared_dir: Path) -> None:
    graph = sources.load(str(shared_dir / "captures/fabric/netq/computeNodes.json"))
    assert graph.hosts["node2"]["slot"] == "22"
    assert graph.hosts["node2"]["tray"] == "12"
    assert graph.hosts["node1"]["gpus"] == "4"
    assert len({labels["nmx_domain"] for labels in graph.hosts.values()}) == 1
    odd = loaded(tmp_path, json.dumps([{"DomainUUID": "u", "Name": "n"}, {"DomainUUID": "u"}, 3]))
    assert list(odd.hosts) == ["n"]
    assert odd.findings[0].kind == "unread_line"


def test_cluster_models(shared_dir: Path) -> None:
    models = shared_dir / "captures/fabric/topograph-models"
    rack = sources.load(str(models / "nvl72.yaml"))
    assert len(rack.hosts) == 72
    assert rack.hosts["node1101"]["nvlink"] == "nvl-1-1"
    assert rack.hosts["node1101"]["region"] == "us-east"
    assert [shape.kind for shape in rack.shapes] == ["fat-tree", "nvl72"]
    medium = sources.load(str(models / "medium.yaml"))
    assert medium.hosts["1401"]["zone"] == "zone2"
    small = sources.load(str(models / "small-tree.yaml"))
    assert small.attached["I25"] == ("S2",)


def test_a_model_whose_switches_go_round(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path,
        "switches:\n  a: {switches: [b]}\n  b: {switches: [a]}\nblocks:\n- {switch: a, nodes: ['n[1-3]']}\n",
    )
    assert graph.attached["n2"] == ("a",)
    with pytest.raises(sources.SourceError, match=r"blocks\[0\].nodes: expected a list"):
        loaded(tmp_path, "blocks:\n- {switch: a, nodes: n1}\n")


NODE = """<system version="1"><cpu numaid="0">
<pci busid="0000:10:00.0" class="0x060400">
  <pci busid="0000:11:00.0" class="0x030200"><gpu dev="0"/></pci>
  <pci busid="0000:12:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" port="1"/></nic></pci>
</pci>
<pci busid="0000:20:00.0" class="0x060400"><pci busid="0000:21:00.0" class="0x030200"><gpu dev="1"/></pci></pci>
</cpu></system>"""


def test_a_node_tells_which_gpus_are_near_an_adapter(tmp_path: Path) -> None:
    graph = loaded(tmp_path, NODE, "node-01.xml")
    assert graph.origins[0].kind == "nccl"
    (adapter,) = graph.adapters.values()
    assert (adapter.host, adapter.name) == ("node-01", "mlx5_0")
    assert adapter.labels == {"pci": "0000:12:00.0", "numa": "0", "gpus": "gpu0"}
    with pytest.raises(sources.SourceError, match="names no adapter"):
        loaded(tmp_path, NODE.replace('<nic><net name="mlx5_0" dev="0" port="1"/></nic>', ""), "node-02.xml")
