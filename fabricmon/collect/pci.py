"""PCI functions in sysfs: which matter here, their way to the root complex, and what their files say.

Formats: counters-nvlink-pcie.md 5.1. The parsers are pure; ValueError says what was expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import count

from msgspec import Struct

from fabricmon.collect import rdma_device
from fabricmon.host.protocol import Host, HostError
from fabricmon.topology.affinity import Device

DEVICES = "/sys/bus/pci/devices"
MOST_FUNCTIONS = 8192  # of one host that are looked at; the largest have some thousand
MOST_ROWS = 512  # devices that are read
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s(?: PCIe)?")
_UNKNOWN_WIDTHS = frozenset({0, 63, 255})  # no link; all ones of a device that does not answer; the kernel's own word
_NVIDIA, _AMD = "0x10de", "0x1002"


class Function(Struct, frozen=True):
    """One function that is read.

    kind   "nic", "gpu", "accelerator", "nvswitch"
    path   bridges above it, the root port first
    root   its root complex, "pci0000:16"; "" where the path does not tell
    owner  RDMA device, else network interface; "gpu3" for NVIDIA's GPUs, which NVML numbers by address; "" for others
    numa   -1 unknown
    """

    address: str
    directory: str
    kind: str
    path: tuple[str, ...]
    root: str = ""
    owner: str = ""
    numa: int = -1


def functions(host: Host) -> list[Function]:
    """Network adapters, GPUs, accelerators and NVSwitches; no virtual functions. Empty where there is no PCI bus."""
    try:
        names = host.list(DEVICES)[:MOST_FUNCTIONS]
    except HostError:
        return []
    found = []
    numbers = count()
    for name in sorted(names):
        directory = f"{DEVICES}/{name}"
        kind = _kind(host, directory)
        if not kind or rdma_device.is_virtual_function(host, directory):
            continue
        owner = _owner(host, directory) if kind == "nic" else ""
        if kind == "gpu" and rdma_device.text(host, f"{directory}/vendor") == _NVIDIA:
            owner = f"gpu{next(numbers)}"
        found.append(_function(host, name, kind, owner))
        if len(found) == MOST_ROWS:
            break
    return found


def _function(host: Host, address: str, kind: str, owner: str) -> Function:
    directory = f"{DEVICES}/{address}"
    try:
        real = host.realpath(directory)
    except HostError:
        real = directory
    path = bridges(real)
    text = rdma_device.text(host, f"{directory}/numa_node")
    numa = int(text) if re.fullmatch(r"\d{1,4}", text) else -1
    root = next((part for part in real.split("/") if _ROOT.fullmatch(part)), "")
    return Function(address, directory, kind, path, root, owner, numa)


def bridges(real: str) -> tuple[str, ...]:
    """The bridges in the real path of a function: "/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0" -> one."""
    return tuple(part for part in real.split("/")[:-1] if _ADDRESS.fullmatch(part))


def placed(function: Function, speed: float = math.nan, width: int = 0) -> Device:
    """A function as the affinity of a node wants it."""
    names = (function.owner,) if function.owner else ()
    return Device(
        function.address, function.kind, names, function.root, function.path, function.numa, speed, width
    )  # fmt: skip


def devices(host: Host) -> list[Device]:
    """The functions of a host with what their links can do."""
    found = []
    for each in functions(host):
        limits = []
        for file, parse in (("max_link_speed", speed), ("max_link_width", width)):
            try:
                limits.append(parse(rdma_device.text(host, f"{each.directory}/{file}")))
            except ValueError:
                limits.append(math.nan)
        lanes = 0 if math.isnan(limits[1]) else int(limits[1])
        found.append(placed(each, limits[0], lanes))
    return found


def _kind(host: Host, directory: str) -> str:
    """By class code; "" for what is not read. A GPU is NVIDIA's or AMD's: the display of a BMC is none."""
    code = rdma_device.text(host, f"{directory}/class")
    if code.startswith("0x02"):
        return "nic"
    if code.startswith("0x12"):
        return "accelerator"
    if not code.startswith(("0x0300", "0x0302", "0x0380", "0x0680")):
        return ""
    vendor = rdma_device.text(host, f"{directory}/vendor")
    if code.startswith("0x0680"):
        return "nvswitch" if vendor == _NVIDIA else ""
    return "gpu" if vendor in (_NVIDIA, _AMD) else ""


def _owner(host: Host, directory: str) -> str:
    for kind in ("infiniband", "net"):
        try:
            names = host.list(f"{directory}/{kind}")
        except HostError:
            continue
        if names:
            return names[0]
    return ""


def speed(text: str) -> float:
    """ "32.0 GT/s PCIe" -> transfers a second; NaN for "Unknown", which a device that does not answer has."""
    text = text.strip()
    found = _SPEED.fullmatch(text)
    if found:
        return float(found[1]) * 1e9
    if text.lower().startswith("unknown"):
        return math.nan
    raise ValueError(f"expected a link speed such as 32.0 GT/s PCIe, got {text[:40]!r}")


def width(text: str) -> float:
    """ "16" -> lanes; NaN for the numbers that stand for "no link" or "no answer"."""
    text = text.strip()
    if not re.fullmatch(r"\d{1,3}", text):
        raise ValueError(f"expected a number of lanes, got {text[:40]!r}")
    return math.nan if int(text) in _UNKNOWN_WIDTHS else float(text)


def errors(text: str) -> Iterator[tuple[str, int]]:
    """Lines "name count" of an aer_dev_* file. Older kernels have names with spaces: the number is what comes last."""
    for line in text.splitlines():
        name, _, count = line.strip().rpartition(" ")
        if not name and not count:
            continue
        if not name or not re.fullmatch(r"\d{1,20}", count):
            raise ValueError(f"expected a line such as BadTLP 0, got {line[:60]!r}")
        yield name.strip(), int(count)
