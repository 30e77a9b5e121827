"""Dumps of real fabrics and of a real subnet manager load as topology, and the counts agree with the files."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fabricmon import sources
from fabricmon.sim.dump import write
from fabricmon.sim.shapes import rail_fabric
from fabricmon.topology.graph import End, Graph
from tests.rigs.ibsim.subnet import preload, subnet


def text_of(path: Path) -> str:
    return (gzip.open(path, "rt") if path.suffix == ".gz" else path.open()).read()


def counted(text: str) -> dict[str, int]:
    """The counts of a full dump by the simplest reading there is: words at line starts."""
    aggregation = sum('Aggregation Node"' in line for line in text.splitlines() if line.startswith("Ca"))
    ends = re.findall(r'^\[(\d+)\].*?"([SH]-\w+)"\[(\d+)\]', text, re.MULTILINE)
    mentions = sum("Aggregation Node" in line for line in text.splitlines() if line.startswith("["))
    return {
        "switches": sum(line.startswith("Switch") for line in text.splitlines()),
        "adapters": sum(line.startswith("Ca") for line in text.splitlines()) - aggregation,
        "aggregation": aggregation,
        "cables": len(ends) // 2 - mentions,
    }


def counts(graph: Graph) -> dict[str, int]:
    return {
        "switches": len(graph.switches),
        "adapters": len(graph.adapters),
        "aggregation": len(graph.aggregation),
        "cables": len(graph.cables),
    }


def ends(graph: Graph, name: Callable[[str], str]) -> set[frozenset[tuple[str, int]]]:
    return {frozenset((name(end.node), end.port) for end in (c.a, c.b)) for c in graph.cables}


def port_guid(adapter: str) -> str:
    return f"0x{int(adapter, 16) + 1:016x}"


FULL = ("ndr-rail-example.txt", "selene.storage.txt.gz", "small_topo_file.txt", "qdr-X5.topofile.txt")


@pytest.fixture
def dumps(shared_dir: Path) -> Path:
    return shared_dir / "captures" / "fabric"


@pytest.mark.parametrize("name", FULL)
def test_counts_of_a_full_dump_agree_with_the_file(dumps: Path, name: str) -> None:
    path = dumps / "ibnetdiscover" / name
    graph = sources.load(str(path))
    assert counts(graph) == counted(text_of(path))
    assert not [f for f in graph.findings if f.kind in ("one_sided_link", "conflicting_record", "unread_line")]
    for link in graph.cables:
        assert link.a <= link.b
        assert {link.a.node, link.b.node} <= graph.switches.keys() | graph.adapters.keys()


@pytest.mark.parametrize("name", FULL)
def test_a_pasted_dump_reads_as_the_file(dumps: Path, name: str, tmp_path: Path) -> None:
    text = text_of(dumps / "ibnetdiscover" / name)
    pasted = tmp_path / "pasted"
    lines = [f"  {line.replace(chr(9), '  ')}   " for line in text.splitlines() if not line.startswith("#")]
    pasted.write_bytes("\r\n".join(["", "root@head:~# ibnetdiscover", *lines]).encode())
    found, plain = sources.load(str(pasted)), sources.load(str(dumps / "ibnetdiscover" / name))
    assert (found.switches, found.adapters, found.cables) == (plain.switches, plain.adapters, plain.cables)
    (unread,) = [f.components for f in found.findings if f.kind == "unread_line"]
    assert unread == ("line 2: root@head:~# ibnetdiscover",)


def test_the_rail_fabric_shows_its_shape_and_its_faults(dumps: Path) -> None:
    graph = sources.load(str(dumps / "ibnetdiscover" / "ndr-rail-example.txt"))
    assert sorted(s.level for s in graph.switches.values()) == [0] * 31 + [1] * 9
    kinds = {kind: [f for f in graph.findings if f.kind == kind] for kind in ("swapped_rails", "lost_uplinks")}
    (swapped,) = kinds["swapped_rails"]
    assert swapped.components == ("b08-p1-dgx-08-c01/HCA-5", "b08-p1-dgx-08-c01/HCA-6")
    assert "IBLEAF-04-08" in swapped.why
    assert "IBLEAF-03-08" in swapped.why
    assert len(kinds["lost_uplinks"]) == 9, "four of the twelve leaves lost links to the same spine"
    short = {end.partition("/")[0] for f in kinds["lost_uplinks"] for end in f.components}
    assert len({name for name in short if "-IBLEAF-" in name}) == 12
    assert len([s for s in graph.switches.values() if s.labels.get("rail")]) == 31
    (unnamed,) = [f for f in graph.findings if f.kind == "unnamed_adapter"]
    factory = {a.id for a in graph.adapters.values() if a.description.startswith("MT4129")}
    assert len(factory) == 69
    localhost = {a.id for a in graph.adapters.values() if a.description.startswith("localhost ")}
    assert set(unnamed.components) == factory | localhost


def test_the_storage_fabric_has_three_levels_and_two_rates(dumps: Path) -> None:
    graph = sources.load(str(dumps / "ibnetdiscover" / "selene.storage.txt.gz"))
    words = {0: "SLG", 1: "SSPINE", 2: "SCORE"}  # what the fabric's owners call them; four leaves have no host yet
    assert {s.name for s in graph.switches.values() if not s.name.startswith(words[s.level])} == set()
    levels = [s.level for s in graph.switches.values()]
    assert [levels.count(level) for level in (0, 1, 2)] == [64, 64, 32]
    (odd,) = [f for f in graph.findings if f.kind == "odd_switch"]
    assert odd.components == ("SLG03-09", "SLG03-10", "SLG03-11", "SLG03-12")
    rates = [c.rate * 8 / 1e9 for c in graph.cables if c.a.node in graph.adapters or c.b.node in graph.adapters]
    assert {rate: rates.count(rate) for rate in set(rates)} == {100.0: 320, 200.0: 927}


def test_cables_back_into_the_same_switch_are_cables(dumps: Path) -> None:
    graph = sources.load(str(dumps / "ibnetdiscover" / "small_topo_file.txt"))
    loops = [(c.a.port, c.b.port) for c in graph.cables if c.a.node == c.b.node]
    assert loops == [(25, 26), (28, 29)]


def test_a_name_map_gives_nameless_adapters_a_host(dumps: Path) -> None:
    path = dumps / "ibnetdiscover" / "qdr-X5.topofile.txt"
    names = dumps / "ibnetdiscover" / "qdr-X5.node-name-map.txt"
    assert not sources.load(str(path)).hosts
    graph = sources.load(str(path), str(names))
    mapped = {
        f"0x{line.split()[0][2:]}": line.split()[1] for line in names.read_text().splitlines() if line.startswith("H-")
    }
    assert {a.id: a.host for a in graph.adapters.values() if a.host} == {
        guid: host for guid, host in mapped.items() if guid in graph.adapters
    }
    assert len(graph.hosts) > 80


@pytest.mark.parametrize("name", ["test.out", "test2.out"])
def test_counts_of_the_port_form_agree_with_the_file(dumps: Path, name: str) -> None:
    path = dumps / "ibnetdiscover-p" / name
    graph = sources.load(str(path))
    words = [line.split() for line in path.read_text().splitlines() if line.strip()]
    links = {
        frozenset(((w[3], w[2]), (w[10], w[9])))
        for w in words
        if "(" in w and "Aggregation" not in w
    }
    switches = {w[3] for w in words if w[0] == "SW"} | {w[10] for w in words if "(" in w and w[7] == "SW"}
    assert set(graph.switches) == switches
    assert len(graph.cables) == len(links)
    assert not graph.findings or {f.kind for f in graph.findings} == {"one_sided_link"}


@pytest.mark.peer
def test_a_dump_of_a_real_subnet_is_the_fabric_it_runs(require: Callable[..., str], tmp_path: Path) -> None:
    for program in ("ibsim", "opensm", "ibnetdiscover"):
        require(program, "a subnet in software")
    if preload() is None:
        pytest.skip("libumad2sim.so is missing (apt-get install ibsim-utils)")
    plan = rail_fabric(nodes=4, rails=4, unit=2, spines=2, parallel=1)
    with subnet(tmp_path, write(plan, "4xHDR")) as running:
        for name, arguments in (("full", ()), ("ports", ("-p",))):
            guid_of = port_guid if arguments else str
            path = tmp_path / name
            path.write_text(running.run("ibnetdiscover", *arguments))
            graph = sources.load(str(path))
            assert graph.source.startswith("ibnetdiscover-p:" if arguments else "ibnetdiscover:")
            assert graph.switches.keys() == plan.switches.keys()
            assert {s.id: (s.name, s.level) for s in graph.switches.values()} == {
                s.id: (s.name, s.level) for s in plan.switches.values()
            }
            assert {a.id for a in graph.adapters.values()} == {guid_of(a.id) for a in plan.adapters.values()}
            assert ends(graph, graph.name) == ends(plan, plan.name)
            assert {c.rate * 8 / 1e9 for c in graph.cables} == {200.0}
            assert not graph.findings
        leaf = next(s for s in plan.switches.values() if s.level == 0)
        running.unplug(f"S-{leaf.id.removeprefix('0x')}", plan_port := 3)
        path.write_text(running.run("ibnetdiscover"))
        after = sources.load(str(path))
        (lost,) = {(c.a, c.b) for c in plan.cables} - {(c.a, c.b) for c in after.cables}
        assert End(leaf.id, plan_port) in lost
        assert [f.kind for f in after.findings] == ["lost_uplinks"]
