"""How close GPUs and adapters are: by hand, on trees of files, in NCCL's files, and against a captured PCI bus."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.cli import main
from fabricmon.sources.formats import nccl
from fabricmon.sources.formats.document import SourceError
from fabricmon.topology.affinity import Device, Relation, matrix, nearest, of_kind, relation
from tests.conftest import shared
from tests.host.trees import link, put

NCCL_FILES = (
    "topology/nccl-topo-oci-h100.xml", "topology/nccl-topo-azure-ndv4-a100.xml", "fabric/nccl/aws-p4d-24xl-topo.xml",
    "fabric/nccl/azure-ncv4-topo.xml",
)  # fmt: skip


def device(*path: str, root: str = "pci0000:15", numa: int = 0, kind: str = "gpu", name: str = "") -> Device:
    return Device(path[-1], kind, (name,) if name else (), root, path[:-1], numa)


GPU = device("15:01.0", "16:00.0", "17:01.0", "19:00.0")


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (device("15:01.0", "16:00.0", "17:02.0", "1a:00.0"), Relation.PIX),  # ports of one switch
        (device("15:01.0", "16:00.0", "17:01.0", "19:00.1"), Relation.PIX),  # two functions of one card
        (device("15:01.0", "16:00.0", "17:02.0", "20:00.0", "21:01.0", "22:00.0"), Relation.PXB),  # a switch below
        (device("15:02.0", "40:00.0"), Relation.PHB),  # another root port of the same root complex
        (device("37:01.0", "38:00.0", root="pci0000:37"), Relation.NODE),
        (device("98:01.0", "99:00.0", root="pci0000:98", numa=1), Relation.SYS),
        (device("98:01.0", "99:00.0", root="pci0000:98", numa=-1), Relation.UNKNOWN),
        (device("1e:00.0", numa=-1), Relation.PHB),  # no bridge at all, as in a virtual machine
        (device("1e:00.0", root="", numa=-1), Relation.UNKNOWN),
    ],
)
def test_relations(other: Device, expected: Relation) -> None:
    assert relation(GPU, other) is expected
    assert relation(other, GPU) is expected


PATHS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=5).map(tuple)
DEVICES = st.builds(
    Device, st.sampled_from(["x", "y"]), st.just("gpu"), st.just(()), st.sampled_from(["", "r", "s"]), PATHS,
    st.integers(-1, 1),
)  # fmt: skip


@given(DEVICES, DEVICES)
def test_a_relation_has_no_direction_and_unknown_is_no_distance(a: Device, b: Device) -> None:
    found = relation(a, b)
    assert relation(b, a) is found
    if found is Relation.UNKNOWN:
        assert -1 in (a.numa, b.numa)
    if found in (Relation.PIX, Relation.PXB):
        assert a.path[0] == b.path[0]


def test_the_nearest_are_all_of_equal_distance() -> None:
    close = [device("15:01.0", "16:00.0", f"17:0{n}.0", f"2{n}:00.0", kind="nic") for n in (2, 3)]
    far = device("98:01.0", "99:00.0", root="pci0000:98", numa=1, kind="nic")
    assert nearest(GPU, [far, *close]) == (Relation.PIX, close)
    assert nearest(GPU, [device("1e:00.0", root="", numa=-1)]) == (Relation.UNKNOWN, [])
    assert nearest(GPU, []) == (Relation.UNKNOWN, [])


def test_devices_are_in_the_order_people_count_them() -> None:
    names = ["gpu10", "gpu2", "gpu0", ""]
    found = of_kind([device(f"0{n}:00.0", name=name) for n, name in enumerate(names)], "gpu")
    assert [d.title for d in found] == ["gpu0", "gpu2", "gpu10", "03:00.0"]


# --- NCCL's files


@pytest.mark.parametrize("name", NCCL_FILES)
def test_every_captured_file_is_read_value_by_value_and_comes_back(name: str, require: Callable[..., str]) -> None:
    require("captures")
    path = shared() / "captures" / name
    text = path.read_text()
    devices = nccl.parse(text, str(path))
    expected = {}
    for cpu in ET.fromstring(text).findall("cpu"):
        for pci in cpu.iter("pci"):
            if pci.get("class", "")[:4] in ("0x03", "0x02"):
                expected[pci.get("busid", "").lower()] = (pci, cpu)
    assert len(expected) == len(devices) > 0
    for each in devices:
        pci, cpu = expected[each.address]
        assert each.kind == ("gpu" if pci.get("class", "").startswith("0x03") else "nic")
        assert each.numa == int(cpu.get("numaid", ""))
        assert each.width == int(pci.get("link_width", "0"))
        speed = pci.get("link_speed", "")
        assert math.isnan(each.speed) if not speed else each.speed == float(speed.split()[0]) * 1e9
        told = [f"gpu{gpu.get('dev')}" for gpu in pci.findall("gpu")] + [n.get("name") for n in pci.iterfind("nic/net")]
        assert list(each.names) == told
    again = nccl.parse(nccl.render(devices), "again")
    assert sorted(map(repr, again)) == sorted(map(repr, devices))


def test_rails_of_a_captured_node(require: Callable[..., str]) -> None:
    """On the 8 x H100 node each GPU has one adapter behind its own switch: rail i is GPU i."""
    require("captures")
    devices = nccl.parse((shared() / "captures/topology/nccl-topo-oci-h100.xml").read_text(), "oci")
    gpus, nics = of_kind(devices, "gpu"), of_kind(devices, "nic")
    assert [g.title for g in gpus] == [f"gpu{n}" for n in range(8)]
    for n, row in enumerate(matrix(gpus, nics)):
        assert row[n] is Relation.PIX
        assert [r for m, r in enumerate(row) if m != n and m // 4 == n // 4] == [Relation.NODE] * 3
        assert {r for m, r in enumerate(row) if m // 4 != n // 4} == {Relation.SYS}


def test_a_graph_file_is_told_from_a_topology(require: Callable[..., str]) -> None:
    require("captures")
    text = (shared() / "captures/fabric/nccl/azure-ncv4-graph.xml").read_text()
    assert nccl.sniff(text)
    with pytest.raises(SourceError, match="graph file"):
        nccl.parse(text, "graph.xml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not XML"),
        ("<system version='1'><cpu></system>", "not XML"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><system version='1'/>", "document type"),
        ("<system version='2'/>", "version '2'"),
        ("<topology version='1'/>", "expected <system>"),
        ("<system version='1'><cpu numaid='x'/></system>", "whole number"),
        ("<system version='1'><cpu numaid='0'><pci class='0x030200'/></cpu></system>", "expected an address"),
        ("<system version='1'><cpu><pci busid='0000:01:00.0' class='0x030200' link_width='wide'/></cpu></system>",
         "whole number"),
        ("<system version='1'><cpu><pci busid='0000:01:00.0' class='0x030200' link_speed='fast'/></cpu></system>",
         "expected a speed"),
        ("<system version='1'><cpu>" + "<pci busid='0000:01:00.0' class='0x060400'>" * 40 + "</pci>" * 40
         + "</cpu></system>", "more than 32 bridges"),
        (" " * (nccl.MOST_BYTES + 1), "more than"),
    ],
)  # fmt: skip
def test_what_is_no_topology_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        nccl.parse(text, "file.xml")


@given(st.lists(DEVICES, max_size=5), st.data())
def test_what_is_written_is_read_again(shapes: list[Device], data: st.DataObject) -> None:
    devices = [
        Device(
            f"0000:{n:02x}:00.0", data.draw(st.sampled_from(["gpu", "nic", "nvswitch", "accelerator"])), (), "",
            tuple(f"0000:{ord(p):02x}:1{depth}.0" for depth, p in enumerate(shape.path)), shape.numa,
            data.draw(st.sampled_from([math.nan, 16e9, 32e9, 64e9])), data.draw(st.sampled_from([0, 8, 16])),
        )
        for n, shape in enumerate(shapes)
    ]  # fmt: skip
    again = nccl.parse(nccl.render(devices), "again")
    assert sorted(map(repr, again)) == sorted(map(repr, devices))


# --- on a machine


def build(root: Path) -> None:
    """Two switches with a GPU and an adapter each, one on either socket."""
    for n, (bus, numa) in enumerate(((0x15, 0), (0x98, 1))):
        up = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        for slot, code, vendor, name in ((1, "0x030200", "0x10de", ""), (2, "0x020700", "0x15b3", f"mlx5_{n}")):
            at = root / f"devices/{up}/0000:{bus + 2:02x}:0{slot}.0/0000:{bus + 2 + slot:02x}:00.0"
            for file, text in {
                "class": code, "vendor": vendor, "numa_node": str(numa), "max_link_speed": "32.0 GT/s PCIe",
                "max_link_width": "16",
            }.items():  # fmt: skip
                put(at / file, f"{text}\n")
            if name:
                (at / f"infiniband/{name}").mkdir(parents=True)
            link(root / f"bus/pci/devices/{at.name}", at)


def test_the_command_tells_of_this_host_and_writes_for_nccl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path / "sys")
    out = tmp_path / "topo.xml"
    sysfs = ["--path.sysfs", str(tmp_path / "sys")]
    assert main(["topology", "affinity", *sysfs, "--write-nccl-xml", str(out)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"gpu0 +PIX +SYS +0 +mlx5_0", text)
    assert re.search(r"gpu1 +SYS +PIX +1 +mlx5_1", text)
    assert main(["topology", "affinity", "--nccl-xml", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["relations"]["0000:18:00.0"] == {"0000:19:00.0": "PIX", "0000:9c:00.0": "SYS"}
    assert {d["speed"] for d in told["devices"]} == {32e9}


def test_a_file_that_cannot_be_used_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.xml"
    bad.write_text("<system")
    assert main(["topology", "affinity", "--nccl-xml", str(bad)]) == 2
    assert "bad.xml: line 1" in capsys.readouterr().err
    assert main(["topology", "affinity", "--nccl-xml", str(tmp_path / "none.xml")]) == 2
