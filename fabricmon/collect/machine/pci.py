"""PCI functions in sysfs: adapters, GPUs and NVSwitches, their path to the root complex, parsers of their files.

Formats: docs/methods.md#pcie-links-and-errors. The parsers are pure; ValueError names what was expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import count

from msgspec import Struct

from fabricmon.collect.machine import rdma_device
from fabricmon.collect.machine.files import names, names_if_there, number, text, text_if_there
from fabricmon.host.protocol import Host, HostError
from fabricmon.topology.affinity import Device

DEVICES = "/sys/bus/pci/devices"
MOST_FUNCTIONS = 8192  # of one host; the largest have some thousand
MOST_ROWS = 512  # devices that are read
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s(?: PCIe)?")
_CODE = re.compile(r"0x[0-9a-f]{6}")  # of a class
_UNKNOWN_WIDTHS = frozenset({0, 63, 255})  # no link; all ones of a device that does not answer; the kernel's unknown
_NVIDIA, _AMD = "0x10de", "0x1002"
_INFINIBAND = "0x0207"


UNREADABLE = "unreadable"


class Function(Struct, frozen=True):
    """One function that is read.

    kind   "nic", "gpu", "accelerator", "nvswitch"; UNREADABLE where the files that name it cannot be read
    path   bridges above it, the root port first
    root   its root complex, "pci0000:16"; "" where unknown
    owner  RDMA device, else network interface; "gpu3" for NVIDIA's GPUs, which NVML numbers by address; "" for others
    rdma   its RDMA device, "" without one
    numa   -1 unknown
    unbound  a GPU, NVSwitch, accelerator or InfiniBand adapter that no driver serves
    """

    address: str
    directory: str
    kind: str
    path: tuple[str, ...]
    root: str = ""
    owner: str = ""
    rdma: str = ""
    numa: int = -1
    unbound: bool = False


def functions(host: Host) -> list[Function]:
    """Network adapters, GPUs, accelerators and NVSwitches; no virtual functions. Empty where there is no PCI bus.
    HostError where there is one that cannot be listed."""
    found = []
    numbers = count()
    for name in names_if_there(host, DEVICES)[:MOST_FUNCTIONS]:
        directory = f"{DEVICES}/{name}"
        kind = kind_of(host, directory)
        if not kind or rdma_device.is_virtual_function(host, directory):
            continue
        rdma, net = (names(host, f"{directory}/{of}") if kind == "nic" else [] for of in ("infiniband", "net"))
        owner = next(iter((*rdma, *net)), "")
        if kind == "gpu" and text(host, f"{directory}/vendor") == _NVIDIA:
            owner = f"gpu{next(numbers)}"
        found.append(_function(host, name, kind, owner, rdma[0] if rdma else ""))
        if len(found) == MOST_ROWS:
            break
    return found


def _function(host: Host, address: str, kind: str, owner: str, rdma: str) -> Function:
    directory = f"{DEVICES}/{address}"
    try:
        real = host.realpath(directory)
    except HostError:
        real = directory
    path = bridges(real)
    numa = number(host, f"{directory}/numa_node")
    root = next((part for part in real.split("/") if _ROOT.fullmatch(part)), "")
    unbound = _unbound(host, directory, kind)
    return Function(address, directory, kind, path, root, owner, rdma, -1 if numa is None else numa, unbound)


def _unbound(host: Host, directory: str, kind: str) -> bool:
    """Whether a device that has no use without a driver has none. An Ethernet adapter may be left alone on purpose; a
    device that is given to a virtual machine has the driver vfio-pci."""
    if kind == "nic" and not (text_if_there(host, f"{directory}/class") or "").startswith(_INFINIBAND):
        return False
    present = names(host, directory)
    return kind != UNREADABLE and bool(present) and "driver" not in present


def bridges(real: str) -> tuple[str, ...]:
    """The bridges in the real path of a function: "/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0" -> one."""
    return tuple(part for part in real.split("/")[:-1] if _ADDRESS.fullmatch(part))


def placed(function: Function, speed: float = math.nan, width: int = 0) -> Device:
    """A function as a Device of topology.affinity."""
    names = (function.owner,) if function.owner else ()
    return Device(
        function.address, function.kind, names, function.root, function.path, function.numa, speed, width
    )  # fmt: skip


def devices(host: Host) -> list[Device]:
    """The functions of a host with the limits of their links."""
    found = []
    for each in functions(host):
        limits = []
        for file, parse in (("max_link_speed", speed), ("max_link_width", width)):
            try:
                limits.append(parse(text(host, f"{each.directory}/{file}")))
            except ValueError:
                limits.append(math.nan)
        lanes = 0 if math.isnan(limits[1]) else int(limits[1])
        found.append(placed(each, limits[0], lanes))
    return found


def kind_of(host: Host, directory: str) -> str:
    """By class code; "" for other classes. Only NVIDIA's and AMD's displays are GPUs, not that of a BMC."""
    try:
        return _kind_of(text_if_there(host, f"{directory}/class"), lambda: text_if_there(host, f"{directory}/vendor"))
    except HostError:
        return UNREADABLE


def _kind_of(code: str | None, ask_vendor: Callable[[], str | None]) -> str:
    if code is None:
        return ""
    if not _CODE.fullmatch(code):
        return UNREADABLE
    if code.startswith("0x02"):
        return "nic"
    if code.startswith("0x12"):
        return "accelerator"
    if not code.startswith(("0x0300", "0x0302", "0x0380", "0x0680")):
        return ""
    vendor = ask_vendor()
    if code.startswith("0x0680"):
        return "nvswitch" if vendor == _NVIDIA else ""
    return "gpu" if vendor in (_NVIDIA, _AMD) else ""


def speed(text: str) -> float:
    """ "32.0 GT/s PCIe" -> transfers a second; NaN for "Unknown", the value of a device that does not answer."""
    text = text.strip()
    found = _SPEED.fullmatch(text)
    if found:
        return float(found[1]) * 1e9
    if text.lower().startswith("unknown"):
        return math.nan
    raise ValueError(f"expected a link speed such as 32.0 GT/s PCIe, got {text[:40]!r}")


def width(text: str) -> float:
    """ "16" -> lanes; NaN for the numbers that mean "no link" or "no answer"."""
    text = text.strip()
    if not re.fullmatch(r"\d{1,3}", text):
        raise ValueError(f"expected a number of lanes, got {text[:40]!r}")
    return math.nan if int(text) in _UNKNOWN_WIDTHS else float(text)


def errors(text: str) -> Iterator[tuple[str, int]]:
    """Lines "name count" of an aer_dev_* file. Older kernels have names with spaces; the number is last."""
    for line in text.splitlines():
        name, _, count = line.strip().rpartition(" ")
        if not name and not count:
            continue
        if not name or not re.fullmatch(r"\d{1,20}", count):
            raise ValueError(f"expected a line such as BadTLP 0, got {line[:60]!r}")
        yield name.strip(), int(count)
