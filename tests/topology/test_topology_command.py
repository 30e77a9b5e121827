"""`fabricmon topology show` for a person and for a program."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request

from fabricmon.central.api.fleet import FleetHandlers
from fabricmon.cli import main
from fabricmon.commands.topology import document, graph_of
from fabricmon.sim.dump import write
from fabricmon.sim.shapes import rail_fabric
from fabricmon.topology.graph import Adapter, End, Finding, Graph, Origin, Switch, cable
from fabricmon.topology.signs import Shape as Recognised
from tests.terminal.stand_in import StandIn


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.txt"
    path.write_text(write(rail_fabric(nodes=16, rails=4, unit=8, spines=4)))
    return path


def test_a_person_reads_counts_rails_and_that_nothing_is_odd(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", "--strict", str(dump)]) == 0
    out = capsys.readouterr().out
    assert "12 switches, 16 hosts, 64 adapters, 128 links" in out
    assert "adapter-0  64     64 x 400 Gb/s" in out
    assert "su1   8      4       0 1 2 3" in out
    assert "no findings" in out


def test_a_program_reads_the_graph(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", "--json", str(dump)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["version"] == 1
    assert len(said["adapters"]) == 64
    assert len(said["cables"]) == 128
    assert said["shape"]["kind"] == "rail-optimised"
    assert said["shape"]["confidence"] == 1.0
    assert {key: said["summary"][key] for key in ("switches", "hosts", "adapters", "links", "levels")} == {
        "switches": 12, "hosts": 16, "adapters": 64, "links": 128, "levels": {"0": 8, "1": 4},
    }  # fmt: skip
    assert said["summary"]["tiers"]["adapter-0"] == {"links": 64, "rates": {"400 Gb/s": 64}}
    assert said["summary"]["units"]["su1"]["rails"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    (origin,) = said["origins"]
    assert (origin["kind"], origin["path"], origin["role"]) == ("ibnetdiscover", str(dump), "live")


def test_several_files_are_one_fabric(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    racks = tmp_path / "racks.yaml"
    racks.write_text("hosts:\n  host-[000-015]: {rack: r1}\n")
    assert main(["topology", "show", "--json", str(racks), str(dump)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [origin["kind"] for origin in said["origins"]] == ["ibnetdiscover", "yaml"]
    assert said["hosts"]["host-003"] == {"rack": "r1", "unit": "su0"}
    assert said["findings"] == []
    assert main(["topology", "show", str(racks), str(dump)]) == 0
    assert "16 hosts, 64 adapters, 128 links" in capsys.readouterr().out


def test_a_person_reads_the_shape(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", str(dump)]) == 0
    assert "rail-optimised two-level fat tree, single ToR, confidence 100%" in capsys.readouterr().out


def test_a_bad_file_costs_itself_only(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad"
    bad.write_text("nothing\n")
    assert main(["topology", "show", str(bad), str(dump)]) == 2
    captured = capsys.readouterr()
    assert f"{bad}: not a known topology" in captured.err
    assert "64 adapters" in captured.out


def test_strict_fails_on_a_finding(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump.write_text(dump.read_text().replace('"host-003 mlx5_1"', '"MT4129 ConnectX7   Mellanox Technologies"'))
    assert main(["topology", "show", str(dump)]) == 0
    assert main(["topology", "show", "--strict", str(dump)]) == 1
    assert "unnamed_adapter: 1 of 64 adapters" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--json", "--strict", "show", "{}"], ["--json", "show", "--strict", "{}"]])
def test_what_is_said_before_the_verb_holds(words: list[str], dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump.write_text(dump.read_text().replace('"host-003 mlx5_1"', '"MT4129 ConnectX7   Mellanox Technologies"'))
    assert main(["topology", *(word.format(dump) for word in words)]) == 1
    assert [finding["kind"] for finding in json.loads(capsys.readouterr().out)["findings"]] == ["unnamed_adapter"]


def test_the_server_that_is_named_before_the_verb_is_the_one_that_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "--server", "http://127.0.0.1:1", "show", "--token-file", "/nonexistent"]) == 2
    assert "/nonexistent" in capsys.readouterr().err
    assert main(["topology", "--server", "ftp://before", "show"]) == 2
    assert "ftp://before" in capsys.readouterr().err
    assert main(["topology", "--server", "ftp://before", "show", "--server", "ftp://after"]) == 2
    assert "ftp://after" in capsys.readouterr().err


def test_affinity_as_json_whichever_side_of_the_verb_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    xml = tmp_path / "node.xml"
    xml.write_text('<system version="1"><cpu numaid="0"><pci busid="0000:17:00.0" class="0x020700"/></cpu></system>')
    for words in (["--json", "affinity"], ["affinity", "--json"]):
        assert main(["topology", *words, "--nccl-xml", str(xml)]) == 0
        assert "devices" in json.loads(capsys.readouterr().out)


# --- what a server tells


FULL = Graph(
    switches={"s1": Switch("s1", "leaf-1", 0, "QM9790", 64, {"rail": "0"})},
    adapters={"a1": Adapter("a1", "host-1", "mlx5_0", "host-1 mlx5_0", 1, {"class": "nic"})},
    cables=(cable(End("a1", 1), End("s1", 7), 50e9, 4, {"sources": "0"}),),
    hosts={"host-1": {"rack": "r1"}},
    source="yaml:/plan",
    findings=(Finding("one_sided_link", ("s1",), "seen from one end"),),
    aggregation={"g1": "s1"},
    attached={"host-2": ("s1",)},
    trunks=(("s1", "s2"),),
    origins=(Origin("yaml", "/plan"),),
    stated={"shape": "star"},
    shapes=(Recognised("star", "star", 1.0, "one switch", {"leaves": "1"}),),
)


async def told(graph: Graph) -> Any:
    """The body of the server's answer to GET /topology."""
    server: Any = SimpleNamespace(engine=SimpleNamespace(topology=lambda: graph))
    response = await FleetHandlers(server, tuple).topology(make_mocked_request("GET", "/api/v1/topology"))
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


async def test_of_the_server_comes_all_that_a_graph_has() -> None:
    assert all(getattr(FULL, name) for name in Graph.__struct_fields__)
    assert graph_of(await told(FULL)) == FULL


async def test_as_json_the_server_and_a_file_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with StandIn({"/topology": await told(FULL)}) as server:
        assert main(["topology", "--json", "--server", server.url]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(msgspec.json.encode(document(FULL)))


@pytest.mark.parametrize(
    "answer",
    [
        {}, {"switches": [{}]}, {"switches": ["x"]}, {"switches": 1}, {"switches": {"s1": {}}}, {"adapters": [None]},
        {"cables": [{"a": 1}]}, {"hosts": {"host-1": "r1"}}, {"stated": []},
    ],
)  # fmt: skip
def test_an_answer_that_is_no_graph_is_reported_in_one_line(
    answer: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {"switches": [], "adapters": [], "cables": [], **answer} if answer else {}
    with pytest.raises(msgspec.ValidationError):
        graph_of(whole)
    with StandIn({"/topology": whole}) as server:
        assert main(["topology", "--server", server.url]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "its topology cannot be read" in said.err


# --- names are those of whoever plugged in


NASTY = "leaf\x1b[2J\x9b31m\u202e\r\n1"


async def test_names_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lldp = {"lldp": {"interface": {"eth0": {
        "chassis": {NASTY: {"id": {"type": "mac", "value": "02:00:00:00:00:01"}}},
        "port": {"id": {"type": "ifname", "value": NASTY}},
    }}}}  # fmt: skip
    seen = tmp_path / "host-1.json"
    seen.write_text(json.dumps(lldp))
    nasty = msgspec.structs.replace(
        FULL,
        switches={"s1": Switch("s1", NASTY, 0, NASTY, 64, {"unit": NASTY, "rail": NASTY})},
        findings=(Finding(NASTY, (NASTY, NASTY), NASTY),),
        shapes=(Recognised("star", NASTY, 1.0, NASTY),),
        origins=(Origin("yaml", NASTY),),
    )
    with StandIn({"/topology": await told(nasty)}) as server:
        for words in (["show", str(seen)], ["--server", server.url]):
            assert main(["topology", *words]) == 0
            said = capsys.readouterr()
            assert [line for line in said.out.split("\n") if not line.isprintable()] == []
            assert said.err == ""
    assert "leaf [2J 31m   1" in said.out


def test_a_message_about_a_file_does_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a\x1b[2Jb").write_text("nothing\n")
    assert main(["topology", "show", str(tmp_path / "a\x1b[2Jb")]) == 2
    assert capsys.readouterr().err.rstrip("\n").isprintable()
