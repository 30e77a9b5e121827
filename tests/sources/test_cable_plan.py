"""The YAML cable plan: ranges, joins by name or GUID, and errors that name their place."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.topology.graph import End
from fabricmon.topology.hostlist import MOST_OF_A_PLAN, Expansion

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "topology.md"

PLAN = """
fabric: alpha
switches:
  leaf-[0-1]: {unit: su0, rail: "[0-1]", model: MQM9790, guid: "0x00aa00000000000[1-2]"}
  spine-[1-2]: {level: 1, rack: r9}
hosts:
  node-[01-04]: {adapters: [mlx5_0, mlx5_1], rack: r1}
links:
  - {from: "node-[01-04]/mlx5_0", to: "leaf-0/[1-4]", rate: 400Gb/s, width: 4}
  - {from: "node-[01-04]/mlx5_1/1", to: "leaf-1/[1-4]", rate: 400Gb/s}
  - {from: "leaf-[0-1]/33", to: "spine-1/[1-2]", rate: 400Gb/s}
power:
  pdu-a: ["node-[01-02]"]
  pdu-b: ["node-[03-04]", spine-2]
"""


def load(tmp_path: Path, text: str) -> sources.Graph:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return sources.load(str(path))


def test_a_plan_of_ranges_is_a_whole_fabric(tmp_path: Path) -> None:
    graph = load(tmp_path, PLAN)
    assert {s.name: (s.id, s.level, s.labels.get("rail")) for s in graph.switches.values()} == {
        "leaf-0": ("0x00aa000000000001", 0, "0"),
        "leaf-1": ("0x00aa000000000002", 0, "1"),
        "spine-1": ("spine-1", 1, None),
        "spine-2": ("spine-2", 1, None),
    }
    assert len(graph.adapters) == 8
    assert len(graph.cables) == 10
    assert graph.hosts["node-03"] == {"rack": "r1", "power": "pdu-b", "unit": "su0"}
    assert graph.switches["spine-2"].labels == {"rack": "r9", "power": "pdu-b"}
    far = {graph.title(link) for link in graph.cables}
    assert "node-04/mlx5_1/1, leaf-1/4" in far
    assert {link.rate for link in graph.cables} == {50e9}
    assert End("node-01/mlx5_0", 1) in {end for link in graph.cables for end in (link.a, link.b)}


@pytest.mark.parametrize(
    ("line", "where", "words"),
    [
        ("fabric: a\nspeed: 4", "speed", "unknown key"),
        ("switches: {a: {colour: red}}", "switches.a.colour", "unknown key"),
        ("switches: [a]", "switches", "expected a mapping"),
        ("switches: {a: {guid: hello}}", "switches.a.guid", "expected a GUID"),
        ("switches: {a: {level: high}}", "switches.a.level", "whole number"),
        ("switches: {'a[1-2]': {rail: '[1-3]'}}", "switches.a[1-2].rail", "has 3 values"),
        ("switches: {'a[2-1]': {}}", "switches.a[2-1]", "does not count upwards"),
        ("switches: {'a[1': {}}", "switches.a[1", "bracket"),
        ("hosts: {h: {}}\nlinks: [{from: h/m, to: x/1}]", "links[0].to", "is neither a port of a declared"),
        ("hosts: {h: {}}\nlinks: [{from: h/m}]", "links[0]", "has no 'to'"),
        ("switches: {s: {}}\nhosts: {h: {}}\nlinks: [{from: h/m, to: s/1, rate: fast}]", "links[0].rate", "400Gb/s"),
        (
            "switches: {s: {}}\nhosts: {h: {}}\nlinks: [{from: h/m, to: s/1}, {from: h/n, to: s/1}]",
            "links[1].to", "plugged in twice, first by links[0].to",
        ),
        ("switches: {s: {}}\nlinks: [{from: 's/[1-3]', to: 's/[4-5]'}]", "links[0]", "3 ends on one side, 2"),
        ("hosts: {h: {}}\npower: {p: [g]}", "power.p[0]", "neither a declared host"),
        ("hosts: {h: {}}\npower: {p: [h], q: [h]}", "power.q[0]", "in 'p' already"),
        ("hosts: {h: {}, h: {}}", "line 1", "written twice"),
        ("hosts: {h: [", "line", "not YAML"),
        ("fabric: x", "", "neither switches nor hosts"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(tmp_path: Path, line: str, where: str, words: str) -> None:
    with pytest.raises(sources.SourceError) as caught:
        load(tmp_path, line)
    assert where in caught.value.where
    assert words in caught.value.text
    assert str(caught.value).startswith(str(tmp_path / "plan.yaml"))


def test_a_compressed_plan_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml.gz"
    path.write_bytes(gzip.compress(PLAN.encode()))
    assert len(sources.load(str(path)).cables) == 10


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a known topology"),
        (b"hello\n", "not a known topology"),
        (b"\x1f\x8bnot gzip", "damaged gzip"),
        (gzip.compress(PLAN.encode())[:-20], "damaged gzip"),
        (b"\x00\xff" * 4096, "not a known topology"),
    ],
)
def test_what_is_no_topology_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(sources.SourceError, match=words):
        sources.load(str(path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sources.SourceError, match="cannot be read"):
        sources.load(str(tmp_path / "none"))


def test_a_file_that_grows_without_end_when_unpacked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LIMIT", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"#" * (2 << 20)))
    with pytest.raises(sources.SourceError, match="larger than 1 MiB"):
        sources.load(str(path))


def test_the_documented_plan_is_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    graph = load(tmp_path, example)
    assert len(graph.adapters) == 32 * 8
    assert len(graph.cables) == 36
    assert graph.hosts["node-020"]["power"] == "pdu-2"
    assert {s.labels.get("rack") for s in graph.switches.values()} == {"r9", None}


def test_every_finding_is_documented() -> None:
    code = "".join(
        path.read_text() for part in ("topology", "sources") for path in (ROOT / "fabricmon" / part).rglob("*.py")
    )
    kinds = set(re.findall(r'(?:Finding|\.odd)\(\s*"(\w+)"', code))
    tables = DOCUMENT.read_text().split("## Findings")[1].split("## Exit codes")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", tables, re.MULTILINE)
    assert kinds == {kind for cell in cells for kind in re.findall(r"`(\w+)`", cell)}


def test_every_source_is_documented() -> None:
    table = DOCUMENT.read_text().split("## A discovery dump")[0]
    cells = re.findall(r"^\| (`[^|]*) \|.*\| (live|plan|placement) \|", table, re.MULTILINE)
    documented = {kind: role for cell, role in cells for kind in re.findall(r"`([\w-]+)`", cell)}
    assert documented == {kind: source.role.value for kind, source in sources.SOURCES.items()}


@given(st.integers(0, 500), st.integers(0, 300), st.integers(1, 4))
def test_a_range_has_all_its_names_once_in_order(first: int, more: int, width: int) -> None:
    names = Expansion(MOST_OF_A_PLAN).expand(f"n[{first:0{width}d}-{first + more}]x")
    assert [int(name[1:-1]) for name in names] == list(range(first, first + more + 1))
    assert all(len(name) >= width + 2 for name in names)


def test_lists_and_ranges_multiply() -> None:
    assert Expansion(MOST_OF_A_PLAN).expand("r[1-2]n[a,b]") == ["r1na", "r1nb", "r2na", "r2nb"]
    with pytest.raises(ValueError, match="more than"):
        Expansion(MOST_OF_A_PLAN).expand("[0-99999][0-99999]")
