"""A healthy node of 8 H100 as `lspci -vvv` showed it, laid out as sysfs: every link compared, and none of them a fault.

The node has what looks like faults and is none: two-lane cards in one-lane slots, slow bridges for management, switch
ports trained down to what hangs below them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from fabricmon.collect import COLLECTORS
from fabricmon.collect.machine import pci
from fabricmon.host.live import LiveHost
from fabricmon.topology.affinity import Relation, nearest, of_kind
from tests.conftest import shared
from tests.host.trees import link, put

pcie = COLLECTORS["pcie"]

CLASSES = {"3D controller": "0x030200", "Ethernet controller": "0x020000", "PCI bridge": "0x060400",
           "Bridge": "0x068000", "VGA compatible controller": "0x030000"}  # fmt: skip
VENDORS = {"NVIDIA": "0x10de", "Mellanox": "0x15b3", "Matrox": "0x102b", "ASPEED": "0x1a03"}


class Seen(NamedTuple):
    """One function as lspci has it; lanes and speeds as text, "" where it has no link."""

    address: str
    code: str
    vendor: str
    numa: str
    secondary: str
    speed: str = ""
    width: str = ""
    max_speed: str = ""
    max_width: str = ""


def functions(text: str) -> dict[str, Seen]:
    found = {}
    for block in text.split("\n\n"):
        head = re.match(r"([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]) ([^:\[]+?)(?: \[\w+\])?: (\w+)", block)
        if head is None:
            continue
        printed = {
            "numa": re.search(r"NUMA node: (\d+)", block),
            "secondary": re.search(r"Bus: primary=\w+, secondary=(\w+)", block),
            "max_speed": re.search(r"LnkCap:\t.*?Speed ([\d.]+)GT/s", block),
            "max_width": re.search(r"LnkCap:\t.*?Width x(\d+)", block),
            "speed": re.search(r"LnkSta:\tSpeed ([\d.]+)GT/s", block),
            "width": re.search(r"LnkSta:\t.*?Width x(\d+)", block),
        }
        facts = {name: match[1] if match else "" for name, match in printed.items()}
        address = f"0000:{head[1]}"
        found[address] = Seen(address, CLASSES.get(head[2], "0x088000"), VENDORS.get(head[3], "0x8086"), **facts)
    return found


@pytest.fixture
def node(require: Callable[..., str], tmp_path: Path) -> tuple[LiveHost, dict[str, Seen]]:
    require("captures")
    seen = functions((shared() / "captures/topology/lspci-vvv-8xh100-roce.txt").read_text())
    above = {each.secondary: each.address for each in seen.values() if each.secondary}

    def path(address: str) -> str:
        bus = address[5:7]
        return f"{path(above[bus])}/{address}" if bus in above else f"devices/pci0000:{bus}/{address}"

    for each in seen.values():
        at = tmp_path / path(each.address)
        put(at / "class", f"{each.code}\n")
        put(at / "vendor", f"{each.vendor}\n")
        put(at / "numa_node", f"{each.numa or -1}\n")
        if each.width and each.width != "0":
            put(at / "current_link_speed", f"{each.speed} GT/s PCIe\n")
            put(at / "max_link_speed", f"{each.max_speed} GT/s PCIe\n")
            put(at / "current_link_width", f"{each.width}\n")
            put(at / "max_link_width", f"{each.max_width}\n")
        link(tmp_path / f"bus/pci/devices/{each.address}", at)
    return LiveHost(str(tmp_path), str(tmp_path / "proc")), seen


def test_every_link_is_read_and_none_is_a_fault(node: tuple[LiveHost, dict[str, Seen]]) -> None:
    host, seen = node
    reading = pcie.open(host, pcie.config()).sessions()[""].read()
    assert reading.faults == ()
    at, kinds, compared = 0, {"nic": 0, "gpu": 0, "nvswitch": 0, "bridge": 0}, 0
    for part in reading.parts:
        for component in part.components:
            kinds[component.labels["class"]] += 1
            values = dict(zip(part.columns, reading.values[at : at + len(part.columns)], strict=True))
            at += len(part.columns)
            raw = seen[component.name]
            if not raw.width or raw.width == "0":
                continue
            compared += 1
            assert values["pcie_speed"] == float(raw.speed) * 1e9
            assert values["pcie_max_speed"] == float(raw.max_speed) * 1e9
            assert values["pcie_width"] == float(raw.width)
            assert values["pcie_max_width"] == float(raw.max_width)
            if component.labels["class"] != "bridge":
                assert values["pcie_path_width"] == 1, component
                assert component.labels["class"] == "gpu" or values["pcie_path_speed"] == 1, component
    assert (kinds["gpu"], kinds["nvswitch"]) == (8, 4)
    assert kinds["nic"] == sum(each.code == "0x020000" for each in seen.values()) > 8
    assert compared > 60
    narrow = [each for each in seen.values() if each.code == "0x020000" and each.width != each.max_width]
    assert narrow, "the capture has no card in a narrower slot any more"


def test_each_gpu_has_its_adapter_behind_one_switch(node: tuple[LiveHost, dict[str, Seen]]) -> None:
    host, _ = node
    devices = pci.devices(host)
    gpus = of_kind(devices, "gpu")
    fast = [d for d in of_kind(devices, "nic") if d.speed == 32e9]
    assert [g.title for g in gpus] == [f"gpu{n}" for n in range(8)]
    assert len(fast) == 8
    pairs = [nearest(gpu, fast) for gpu in gpus]
    assert {each for each, _ in pairs} == {Relation.PIX}
    assert len({nic.address for _, close in pairs for nic in close}) == 8
    assert {d.numa for d in devices} == {0, 1}
