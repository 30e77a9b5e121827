"""What a dump may look like: any fabric survives the way through its text; odd records cost themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.sim.dump import write
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sources.formats import ibnetdiscover
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.topology.names import NodeNames, guid, host_device, switch_name

NODE = '''sysimgguid=0xaa1
switchguid=0xaa1(aa1)
Switch\t40 "S-0000000000000aa1"\t\t# "MF0;leaf-1:MQM8700/U1" enhanced port 0 lid 3 lmc 0
'''


def load(tmp_path: Path, text: str) -> Graph:
    path = tmp_path / "dump"
    path.write_text(text)
    return sources.load(str(path))


@given(
    plan=st.builds(
        rail_fabric, nodes=st.integers(1, 9), rails=st.integers(1, 4), unit=st.integers(1, 4), spines=st.integers(1, 3),
        parallel=st.integers(1, 2), rate=st.sampled_from([25e9, 50e9, 100e9]),
    ),
    crlf=st.booleans(), indent=st.sampled_from(["", " ", "\t"]), tabs=st.booleans(),
)  # fmt: skip
@settings(max_examples=40)
def test_a_fabric_survives_the_way_through_its_text(plan: Graph, crlf: bool, indent: str, tabs: bool) -> None:
    lines = write(plan).splitlines()
    text = ("\r\n" if crlf else "\n").join(indent + (line if tabs else line.replace("\t", "   ")) for line in lines)
    found = ibnetdiscover.parse(text, "dump", NodeNames())
    assert {s.id: (s.name, s.ports) for s in found.switches.values()} == {
        s.id: (s.name, s.ports) for s in plan.switches.values()
    }
    assert {a.id: (a.host, a.name) for a in found.adapters.values()} == {
        a.id: (a.host, a.name) for a in plan.adapters.values()
    }
    assert {(c.a, c.b): (c.rate, c.width) for c in found.cables} == {
        (c.a, c.b): (c.rate, c.width) for c in plan.cables
    }
    assert not found.findings


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    found = ibnetdiscover.parse(NODE + text, "dump", NodeNames())
    assert "0x0000000000000aa1" in found.switches


def test_a_link_seen_from_one_end_is_kept_and_reported(tmp_path: Path) -> None:
    graph = load(tmp_path, NODE + '[7]\t"H-0000000000000bb0"[1](bb1)\t\t# "node-1 mlx5_0" lid 4 4xNDR\n')
    assert [graph.title(link) for link in graph.cables] == ["node-1/mlx5_0/1, leaf-1/7"]
    assert graph.adapters["0x0000000000000bb0"].labels["port_guid"] == "0x0000000000000bb1"
    assert [(f.kind, f.components) for f in graph.findings] == [("missing_record", ("node-1/mlx5_0",))]


def test_records_that_contradict_each_other_are_reported(tmp_path: Path) -> None:
    text = NODE + '[7] "H-0bb0"[1] # "node-1 mlx5_0" lid 4 4xNDR\n\n' + (
        'Ca 1 "H-0bb0" # "node-1 mlx5_0"\n[1](bb1) "S-0aa1"[8] # lid 4 lmc 0 "MF0;leaf-1:MQM8700/U1" lid 3 4xNDR\n'
    )
    graph = load(tmp_path, text)
    (finding,) = [f for f in graph.findings if f.kind == "conflicting_record"]
    why = "0x0000000000000aa1/7 has the peer 0x0000000000000bb0/1, which has the peer 0x0000000000000aa1/8"
    assert why in finding.components


def test_aggregation_nodes_are_neither_adapters_nor_cables(tmp_path: Path) -> None:
    text = NODE + '[41] "H-0cc0"[1](cc0) # "Mellanox Technologies Aggregation Node" lid 4 4xHDR\n\n' + (
        'vendid=0x2c9\ndevid=0xcf09\nCa 1 "H-0cc0" # "renamed by its owner"\n'
        '[1](cc0) "S-0aa1"[41] # lid 4 lmc 0 "MF0;leaf-1:MQM8700/U1" lid 3 4xHDR\n'
    )
    graph = load(tmp_path, text)
    assert not graph.adapters
    assert not graph.cables
    assert graph.aggregation == {"0x0000000000000cc0": "0x0000000000000aa1"}


def test_switches_never_share_a_name(tmp_path: Path) -> None:
    def switch(number: int, text: str) -> str:
        return f'Switch 36 "S-00000000000000{number:02x}" # "{text}" base port 0 lid {number} lmc 0\n'

    texts = ["MF0;q3400:Q3400/U1", "MF0;q3400:Q3400/U2", "Infiniscale-IV Mellanox Technologies", "lab", "lab"]
    texts += ["MF0;dir:MCS8500/L16/U2", "MF0;dir:MCS8500/S03/U1"]
    graph = load(tmp_path, "".join(switch(n, text) for n, text in enumerate(texts, 1)))
    assert [s.name for s in graph.switches.values()] == [
        "q3400/U1", "q3400/U2", "switch-0000000000000003", "lab-0000000000000004", "lab-0000000000000005",
        "dir/L16/U2", "dir/S03/U1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "host", "device"),
    [
        ("node-01 mlx5_0", "node-01", "mlx5_0"),
        ("  b08-p1-dgx  HCA-5 ", "b08-p1-dgx", "HCA-5"),
        ("node-01", "node-01", ""),
        ("MT4129 ConnectX7   Mellanox Technologies", "", ""),
        ("MT25408 ConnectX Mellanox Technologies", "", ""),
        ("localhost HCA-1", "", ""),
        ("", "", ""),
    ],
)
def test_a_description_tells_a_host_or_nothing(text: str, host: str, device: str) -> None:
    assert host_device(text) == (host, device)


def test_spellings_of_a_guid_are_one() -> None:
    assert {guid(text) for text in ("0xaa1", "AA1", "0000:0000:0000:0aa1", "0x0000000000000aa1")} == {
        "0x0000000000000aa1"
    }
    assert switch_name("MF0;leaf-01:MQM9700/U1")[:2] == ("leaf-01", "MQM9700")


def test_a_name_map_wins_over_descriptions(tmp_path: Path) -> None:
    names = tmp_path / "map"
    names.write_text('# names\n0x0aa1 "core one"\nH-0bb0 node-9\n')
    path = tmp_path / "dump"
    path.write_text(NODE + '[7] "H-0bb0"[1](bb1) # "MT4129 ConnectX7   Mellanox Technologies" lid 4 4xNDR\n')
    graph = sources.load(str(path), str(names))
    assert graph.switches["0x0000000000000aa1"].name == "core one"
    assert graph.adapters["0x0000000000000bb0"].host == "node-9"


def test_a_cable_between_two_adapters_names_both() -> None:
    graph = Graph(
        {"s": Switch("s", "s")}, {"a": Adapter("a", "h1", "m"), "b": Adapter("b", "h2", "m")},
        (cable(End("b", 1), End("a", 1)),),
    )  # fmt: skip
    assert graph.title(graph.cables[0]) == "h1/m/1, h2/m/1"
