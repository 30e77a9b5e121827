"""Slurm's topology.conf and topology.yaml: which host hangs below which switch, in which block, at which place."""

from __future__ import annotations

import contextlib
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.topology.graph import Graph, Role
from fabricmon.topology.hostlist import MOST_OF_A_PLACEMENT, Expansion
from fabricmon.topology.names import NodeNames


def loaded(tmp_path: Path, text: str, name: str = "topology.conf") -> Graph:
    path = tmp_path / name
    path.write_text(text)
    return sources.load(str(path))


def kinds(graph: Graph) -> list[str]:
    return [finding.kind for finding in graph.findings]


def test_a_tree_is_switches_and_hosts_without_ports(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path,
        "# a comment\n"
        "switchname=leaf1 nodes=node[01-03],login1 LinkSpeed=100\n"
        "SwitchName=leaf2 \\\n  Nodes=node[04-05]\n"
        "SwitchName=spine Switches=leaf[1-2]  # the top\n",
    )
    assert graph.origins[0].kind == "slurm"
    assert graph.origins[0].role is Role.PLACEMENT
    assert {s.name: s.level for s in graph.switches.values()} == {"leaf1": 0, "leaf2": 0, "spine": 1}
    assert graph.attached == {
        "node01": ("leaf1",), "node02": ("leaf1",), "node03": ("leaf1",), "login1": ("leaf1",),
        "node04": ("leaf2",), "node05": ("leaf2",),
    }  # fmt: skip
    assert graph.trunks == (("leaf1", "spine"), ("leaf2", "spine"))
    assert graph.cables == ()
    assert graph.hosts["node04"]["unit"] != graph.hosts["node01"]["unit"]
    assert graph.findings == ()
    assert graph.shapes[0].kind == "fat-tree"
    assert graph.shapes[0].confidence < 1


def test_the_true_name_of_a_switch_stands_in_a_comment(tmp_path: Path) -> None:
    graph = loaded(tmp_path, "# s.1=IBLEAF-01\nSwitchName=s.1 Nodes=n[1-4]\n")
    assert graph.switches["s.1"].name == "IBLEAF-01"


def test_switches_that_name_each_other_as_children_are_neighbours(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path,
        "SwitchName=a Nodes=n[1-4]\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b\nSwitchName=d Switches=d\n",
    )
    assert {s.name: s.level for s in graph.switches.values()} == {"a": 0, "b": 1, "c": 2, "d": -1}
    assert graph.trunks == (("a", "b"), ("b", "c"))
    assert kinds(graph) == ["conflicting_record"]


def test_what_a_line_gets_wrong_costs_the_line(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path,
        "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[4-1]\nSwitchName=c Colour=red\nnonsense\n"
        "SwitchName=a Nodes=n9\nSwitchName=top Switches=a,ghost\nSwitchName=e Nodes=n1\n",
    )
    found = {finding.kind: finding.components for finding in graph.findings}
    assert [line.split(":")[0] for line in found["unread_line"]] == ["line 2", "line 3", "line 4"]
    assert found["conflicting_record"] == ("line 5: a is defined twice",)
    assert found["undefined_switch"] == ("ghost",)
    assert found["split_host"] == ("n1: a, e",)
    assert set(graph.switches) == {"a", "top", "ghost", "e"}


def test_blocks_are_labels_and_small_ones_are_told(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path, "BlockName=rack1 Nodes=node[01-18]\nBlockName=rack2 Nodes=node[19-30]\nBlockSizes=18,36\n"
    )
    assert graph.hosts["node18"]["block"] == "rack1"
    assert graph.stated["block_sizes"] == "18,36"
    (small,) = graph.findings
    assert (small.kind, small.components) == ("small_block", ("rack2",))


def test_a_file_without_switches_is_told(tmp_path: Path) -> None:
    with pytest.raises(sources.SourceError, match="has no SwitchName or BlockName"):
        loaded(tmp_path, "SwitchName=\n")


YAML = """
- topology: default
  cluster_default: true
  tree:
    switches:
      - {switch: spine, children: "leaf[1-2]"}
      - {switch: leaf1, nodes: "node[01-32]"}
      - {switch: leaf2, nodes: "node[33-64]"}
- topology: racks
  block:
    block_sizes: [16]
    blocks:
      - {block: b1, nodes: "node[01-16]"}
      - {block: b2, nodes: ["node[17-30]", "node[31-32]"]}
- topology: none
  flat: true
"""


def test_a_tree_and_blocks_in_yaml(tmp_path: Path) -> None:
    graph = loaded(tmp_path, YAML, "topology.yaml")
    assert graph.origins[0].kind == "slurm-yaml"
    assert {s.name: s.level for s in graph.switches.values()} == {"leaf1": 0, "leaf2": 0, "spine": 1}
    assert len(graph.attached) == 64
    assert graph.hosts["node31"]["block"] == "b2"
    assert graph.findings == ()


def test_a_torus_in_yaml_has_places_and_neighbours(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path, '- topology: t\n  torus3d: {toruses: [{name: t1, dims: {x: 4, y: 4, z: 2}, nodes: "tn[001-032]"}]}\n'
    )
    assert len(graph.switches) == 32
    assert len(graph.trunks) == 32 * 2 + 16
    assert graph.hosts["tn001"]["coordinates"] == "0,0,0"
    assert graph.hosts["tn002"]["coordinates"] == "1,0,0"
    assert graph.hosts["tn005"]["coordinates"] == "0,1,0"
    assert graph.hosts["tn017"]["coordinates"] == "0,0,1"
    assert graph.shapes[0].name == "3D torus 4x4x2"


def test_a_ring_in_yaml(tmp_path: Path) -> None:
    graph = loaded(tmp_path, '- topology: r\n  ring: {rings: [{ring: r1, nodes: "n[1-12]"}]}\n')
    assert len(graph.trunks) == 12
    assert graph.shapes[0].kind == "ring"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("- topology: a\n  tree: {}\n", "topologies\\[0\\]: expected one of"),
        ("- topology: a\n  tree: {switches: [{nodes: n1}]}\n", "tree.switches\\[0\\]: has no name"),
        ("- topology: a\n  tree: {switches: [{switch: s, nodes: 'n[2-1]'}]}\n", "switches\\[0\\].nodes"),
        ("- topology: a\n  torus3d: {toruses: [{name: t, dims: {x: 1}, nodes: n1}]}\n", "dims: expected whole numbers"),
        ("- topology: a\n  torus3d: {toruses: [{name: t, dims: {x: 1, y: 1, z: 1}, nodes: 'n[1-2]'}]}", "2 hosts for"),
        ("- topology: a\n  tree: [\n", "not YAML"),
    ],
)
def test_a_mistake_in_yaml_is_told_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(sources.SourceError, match=place):
        loaded(tmp_path, text, "topology.yaml")


def test_real_files(shared_dir: Path) -> None:
    tree = sources.load(str(shared_dir / "captures/fabric/slurm/topograph-tree.topology.conf"))
    assert [sum(s.level == level for s in tree.switches.values()) for level in range(3)] == [12, 6, 1]
    assert len(tree.attached) == 96
    assert tree.switches["switch.1.12"].name == "leaf-6-2"
    assert tree.shapes[0].name == "three-level fat tree"
    mesh = sources.load(str(shared_dir / "captures/fabric/slurm/qdr-X5.topology.conf"))
    assert len(mesh.switches) == 11
    assert mesh.shapes[0].kind == "irregular"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 900), st.integers(0, 99)), min_size=1, max_size=5))
def test_a_hostlist_stands_for_its_names(ranges: list[tuple[str, int, int]]) -> None:
    text = ",".join(f"{word}[{low:03d}-{low + more:03d},x]" for word, low, more in ranges)
    wanted = [f"{w}{n}" for w, low, more in ranges for n in [*(f"{k:03d}" for k in range(low, low + more + 1)), "x"]]
    assert Expansion(MOST_OF_A_PLACEMENT).hostlist(text) == wanted


@pytest.mark.parametrize("text", ["a[1-", "a]", "a[3-1]", "a[]", "a[0-9999999]", "a[0-999][0-999][0-9]"])
def test_a_hostlist_without_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Expansion(MOST_OF_A_PLACEMENT).hostlist(text)


@pytest.mark.parametrize(
    "text", ["SwitchName=s[1-9999] Nodes=n[1-9999]", f"SwitchName=s1 Nodes={'x' * 2000}[1-1000000]"]
)
def test_names_of_a_file_are_bounded(text: str) -> None:
    graph = sources.SOURCES["slurm"].graph(f"SwitchName=leaf Nodes=n1\n{text}\n", "file", NodeNames())
    assert list(graph.hosts) == ["n1"]
    assert "too many or too long" in graph.findings[0].components[0]


@pytest.mark.parametrize(
    "line",
    [
        "SwitchName=s{n} Nodes=" + "x" * 40 + "{n}y[1-65536]", "BlockName=b{n} Nodes=" + "x" * 40 + "{n}y[1-65536]",
        "SwitchName=s{n} Switches=" + "x" * 40 + "{n}y[1-65536]", "SwitchName=s{n}y[1-255] Nodes=z{n}y[1-255]",
        "SwitchName=s{n}y[1-150] Nodes=z", "SwitchName=s{n}y[1-99] Nodes=z,z{n}",
    ],
)  # fmt: skip
def test_memory_of_a_file_is_bounded(line: str) -> None:
    text = "".join(f"{line.format(n=n)}\n" for n in range(64))
    tracemalloc.start()
    try:
        with contextlib.suppress(sources.SourceError):
            sources.SOURCES["slurm"].graph(text, "file", NodeNames())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 250e6


def test_switches_of_a_file_are_bounded() -> None:
    form, most = sources.SOURCES["slurm"], sources.MOST_SWITCHES
    assert len(form.graph(f"SwitchName=s[1-{most}] Nodes=z", "file", NodeNames()).switches) == most
    with pytest.raises(sources.SourceError, match=f"has {most + 1} switches; at most {most} are read"):
        form.graph(f"SwitchName=s[1-{most + 1}] Nodes=z", "file", NodeNames())


def test_a_host_below_many_switches_is_told_in_short() -> None:
    (finding,) = sources.SOURCES["slurm"].graph("SwitchName=s[1-999] Nodes=z", "file", NodeNames()).findings
    assert finding.kind == "split_host"
    assert finding.components[0].startswith("z: s1, s2, ")
    assert finding.components[0].endswith(", s64 and more")


def test_expressions_of_a_file_share_their_bound() -> None:
    names = Expansion(most=10)
    assert len(names.hostlist("a[1-6],b")) == 7
    with pytest.raises(ValueError, match="too many or too long"):
        names.expand("c[1-4]")


def test_a_line_is_bounded() -> None:
    with pytest.raises(sources.SourceError, match="line 2: more than 4096 characters"):
        sources.SOURCES["ibnetdiscover"].graph('Switch 1 "S-1"\n' + "x" * 5000, "file", NodeNames())
