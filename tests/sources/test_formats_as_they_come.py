"""Files as terminals and other tools leave them: lost tabs, missing quotation marks, repeated names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.sim.dump import write
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sources.formats import ibnetdiscover
from fabricmon.topology import findings, infer
from fabricmon.topology.graph import Finding, Graph
from fabricmon.topology.names import NodeNames

CSV = Path(__file__).parents[1] / "fuzz" / "corpus" / "topology-ibdiagnet" / "sample"


def loaded(tmp_path: Path, text: str, name: str = "file") -> Graph:
    path = tmp_path / name
    path.write_text(text)
    return sources.load(str(path))


def kinds(graph: Graph) -> dict[str, Finding]:
    return {finding.kind: finding for finding in graph.findings}


@given(
    plan=st.builds(rail_fabric, nodes=st.integers(2, 8), rails=st.integers(1, 4), unit=st.integers(1, 4),
                   spines=st.integers(1, 3)),
    tabs=st.sampled_from(["", " "]), quotes=st.booleans(),
)  # fmt: skip
@settings(max_examples=30)
def test_a_dump_without_its_tabs_or_quotation_marks_is_the_same_fabric(plan: Graph, tabs: str, quotes: bool) -> None:
    text = write(plan).replace("\t", tabs)
    if not quotes:
        text = re.sub(r'(# .*?)"(.*?)"', r"\1\2", text)
    found = ibnetdiscover.parse(text, "dump", NodeNames())
    plain = ibnetdiscover.parse(write(plan), "dump", NodeNames())
    assert (found.switches, found.adapters, found.cables) == (plain.switches, plain.adapters, plain.cables)
    assert not found.findings


def test_the_short_form_without_quotation_marks(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path,
        "SW     3  1 0x0000000000000aa1 4x EDR - CA     4  1 0x0000000000000bb1 ( leaf-1 - node-1 mlx5_0 )\n"
        "SW     3  2 0x0000000000000aa1 4x SDR                                    leaf-1\n",
    )
    assert [graph.title(link) for link in graph.cables] == ["node-1/mlx5_0/1, leaf-1/1"]


def test_a_plan_whose_ports_repeat_their_host(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path,
        "#StartDevice,StartPort,EndDevice,EndPort,LinkType\n"
        "node-1,node-1 ibp11s0f0,leaf-1,Port 1, Data\n"
        "Server 2 IB Port 3,IB Port 3,leaf-1,Port 2,Data\n",
    )
    assert {graph.title(c) for c in graph.cables} == {"node-1/ibp11s0f0/1, leaf-1/1", "Server 2/HCA-3/1, leaf-1/2"}


DIRECTOR = """switchguid=0xaa1(aa1)
Switch 40 "S-0000000000000aa1" # "MF0;dir:MCS8500/L06/U2" base port 0 lid 3 lmc 0
[20] "S-0000000000000aa2"[21] # "MF0;Leaf-1:MQM8700/U1" lid 4 4xHDR
[21] "S-0000000000000aa3"[1] # "MF0;dir:MCS8500/S01/U1" lid 5 4xHDR

switchguid=0xaa2(aa2)
Switch 40 "S-0000000000000aa2" # "MF0;Leaf-1:MQM8700/U1" base port 0 lid 4 lmc 0
[21] "S-0000000000000aa1"[20] # "MF0;dir:MCS8500/L06/U2" lid 3 4xHDR

switchguid=0xaa3(aa3)
Switch 40 "S-0000000000000aa3" # "MF0;dir:MCS8500/S01/U1" base port 0 lid 5 lmc 0
[1] "S-0000000000000aa1"[21] # "MF0;dir:MCS8500/L06/U2" lid 3 4xHDR
"""


@pytest.mark.parametrize("blade", ["Blade 6", "Blade 06"])
def test_a_card_is_one_with_and_without_zeros_and_the_inside_of_a_box_needs_no_plan(tmp_path: Path, blade: str) -> None:
    dump, plan = tmp_path / "dump", tmp_path / "plan"
    dump.write_text(DIRECTOR)
    plan.write_text(f"StartDevice,StartPort,EndDevice,EndPort\nLEAF-1,Port 21,DIR,{blade}_Port 2/20\n")
    graph = sources.load_all([str(dump), str(plan)])
    assert sorted(s.name for s in graph.switches.values()) == ["Leaf-1", "dir/L06/U2", "dir/S01/U1"]
    assert not [f for f in graph.findings if f.kind in ("miswired", "missing_link", "unplanned_link", "unseen_part")]


def test_the_tables_of_ibdiagnet(tmp_path: Path) -> None:
    graph = sources.load(str(CSV))
    assert [(graph.title(c), c.rate * 8 / 1e9, c.width) for c in graph.cables] == [
        ("node-1/mlx5_0/1, leaf-1/7", 400.0, 4)
    ]
    assert graph.switches["0x00aa000000000001"].model == "MQM9700"
    assert graph.adapters["0x00bb000000000001"].labels["model"] == "ConnectX-7"
    assert not graph.findings
    text = CSV.read_text().replace("0x00bb000000000001,1\n", "0x00bb0000000000zz,1\n")
    assert kinds(loaded(tmp_path, text))["unread_line"].components[0].startswith("line 16: LINKS")
    both = CSV.read_text().replace("LinkWidthActv,", "LinkSpeedSup,LinkWidthSup,LinkWidthActv,")
    both = re.sub(r",0x0,(\d),2,2048", r",0x0,\1,3845,19,2,1028", both)  # real switches give QDR beside the active HDR
    slow = kinds(findings.check(infer.annotate(loaded(tmp_path, both))))["slow_link"]
    assert slow.components == ("node-1/mlx5_0/1, leaf-1/7",)
    assert slow.why == "1 of 1 links run at 200 Gb/s; both ends support 400 Gb/s"
    with pytest.raises(sources.SourceError, match="line 3: NODES: HOST_1,1,1,1,1,0xhost1"):
        loaded(tmp_path, "START_NODES\nNodeDesc,NumPorts,NodeType,A,B,C,NodeGUID\nHOST_1,1,1,1,1,0xhost1,0xhost1\n")
    with pytest.raises(sources.SourceError, match="no table NODES"):
        loaded(tmp_path, "START_NODES\nNodeDesc,NumPorts,NodeType\nEND_NODES\n")


GROUPED = """query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,1,31 Attr 0x11:0) bad status 110; Connection timed out
Non-Chassis Nodes

Switch 8 "S-0000000000000aa1" # "leaf-1" base port 0 lid  lmc 0
[1] "S-0000000000000aa2"[3] # "leaf-2" lid 2 1xEDR

Chassis 1 (guid 0xaa2)

Switch 8 "S-0000000000000aa2" # "leaf-2" base port 0 lid 2 lmc 0
[3] "S-0000000000000aa1"[1] # "leaf-1" lid  4xEDR
"""


def test_titles_errors_of_the_tool_and_an_empty_lid(tmp_path: Path) -> None:
    graph = loaded(tmp_path, GROUPED)
    found = kinds(graph)
    assert found.keys() == {"unanswered", "lid_unset"}
    assert found["unanswered"].components == ("slid 0; dlid 0; 0,1,1,31 Attr 0x11:0: status 110",)
    assert found["lid_unset"].components == ("leaf-1",)
    assert [(link.rate, link.width) for link in graph.cables] == [(3.125e9, 1)]  # the lower of what the ends say


def test_a_dump_that_ends_in_the_middle_says_so(tmp_path: Path) -> None:
    text = write(rail_fabric(nodes=4, rails=2, unit=2, spines=2))
    found = kinds(loaded(tmp_path, text[: int(len(text) * 0.7)]))
    assert "the dump ends in the middle" in found["missing_record"].why
    assert "one_sided_link" not in found


LIDS = """switchguid=0xaa1(aa1)
Switch 40 "S-0000000000000aa1" # "leaf-1" base port 0 lid {a} lmc 0
[1] "H-0000000000000bb1"[1](bb1) # "node-1 mlx5_0" lid {b} 4xHDR
[2] "H-0000000000000bb2"[1](bb2) # "node-2 mlx5_0" lid {c} 4xHDR
[3] "H-0000000000000bb3"[1](bb3) # "node-3 mlx5_0" lid 9 4xHDR
[4] "H-0000000000000bb4"[1](bb4) # "node-4 mlx5_0" lid 8 4xHDR

Ca 1 "H-0000000000000bb1" # "node-1 mlx5_0"
[1](bb1) "S-0000000000000aa1"[1] # lid {b} lmc 0 "leaf-1" lid {a} 4xHDR

Ca 1 "H-0000000000000bb2" # "node-2 mlx5_0"
[1](bb2) "S-0000000000000aa1"[2] # lid {c} lmc 0 "leaf-1" lid {a} 4xHDR

Ca 1 "H-0000000000000bb3" # "node-3 mlx5_0"
[1](bb3) "S-0000000000000aa1"[3] # lid 9 lmc 0 "leaf-1" lid {a} 4xHDR

Ca 1 "H-0000000000000bb4" # "node-4 mlx5_0"
[1](bb4) "S-0000000000000aa1"[4] # lid 8 lmc 0 "leaf-1" lid {a} 4xHDR
"""


def test_lids_that_are_missing_or_shared_are_findings(tmp_path: Path) -> None:
    assert not loaded(tmp_path, LIDS.format(a=1, b=2, c=3)).findings
    assert kinds(loaded(tmp_path, LIDS.format(a=1, b=65535, c=0)))["lid_unset"].components == (
        "node-1/mlx5_0/1", "node-2/mlx5_0/1",
    )  # fmt: skip
    shared = kinds(loaded(tmp_path, LIDS.format(a=1, b=2, c=2)))["duplicate_lid"]
    assert shared.components == ("LID 2: node-1/mlx5_0/1, node-2/mlx5_0/1",)


def test_a_guid_of_two_nodes_is_a_finding(tmp_path: Path) -> None:
    text = LIDS.format(a=1, b=2, c=3) + '\nCa 1 "H-0000000000000bb2" # "node-7 mlx5_0"\n'
    assert kinds(loaded(tmp_path, text))["duplicate_guid"].components == (
        "0x0000000000000bb2 (node-2 mlx5_0) and (node-7 mlx5_0)",
    )


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("graph.json", '[{"links": [{"compounded_links": [], "id": "a"}], "nodes": []}]', "NetQ"),
        ("ibdiagnet2.lst", "{ CA Ports:02 SystemGUID:0001 NodeGUID:0002 } { SW Ports:24 } PHY=4x\n", ".lst"),
        ("fabric.topo", "MTS3600 leaf-1\n   P1 -4x-10G-> HCA node-1 P1\n", ".topo"),
        ("names", "H-00aa000000000001 node-1\n", "node name map"),
    ],
)
def test_a_known_file_that_is_not_read_gets_a_clear_word(tmp_path: Path, name: str, text: str, word: str) -> None:
    with pytest.raises(sources.SourceError, match=re.escape(word)) as raised:
        loaded(tmp_path, text, name)
    assert "ibnetdiscover" in str(raised.value) or "lldpctl" in str(raised.value)
