"""NCCL's topology file of one node: read into devices, and written from them.

Format: docs/methods.md#nccl-topology-file. Attributes that NCCL detects (the CPU's model, vendor and device numbers)
may be missing in a file, and are not written. Clouds ship files with `pci` elements only.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import quoteattr

from fabricmon.forms.decoding import Undecodable, xml_root
from fabricmon.sources.formats.document import SourceError
from fabricmon.topology.affinity import Device

MOST_BYTES = 4 << 20  # a node of 8 GPUs and 32 adapters needs 20 KiB
_DEEPEST = 32
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s(?: PCIe)?")
_CLASSES = {"gpu": "0x030200", "nic": "0x020000", "nvswitch": "0x068000", "accelerator": "0x120000"}
_BRIDGE = "0x060400"


def sniff(head: str) -> bool:
    return re.search(r"<(system|graphs)\b[^>]*\bversion=", head) is not None


def parse(text: str, path: str) -> list[Device]:
    """The devices of the node, in the file's order. SourceError for anything that is no topology file."""
    try:
        system = xml_root(text, MOST_BYTES)
    except Undecodable as error:
        raise SourceError(path, f"line {error.line}" if error.line else "", str(error)) from None
    if system.tag == "graphs":
        raise SourceError(path, "", "an NCCL graph file: it has the chosen rings, not the node's devices")
    if system.tag != "system":
        raise SourceError(path, f"<{system.tag}>", "expected <system>, as NCCL_TOPO_DUMP_FILE writes it")
    if system.get("version") != "1":
        raise SourceError(path, "<system>", f"version {system.get('version')!r}, expected 1")
    found: list[Device] = []
    for cpu in system.findall("cpu"):
        numa = _whole(cpu, "numaid", path, -1)
        for pci in cpu.findall("pci"):
            # NCCL has no host bridges: two devices of one cpu that share no bridge are of one NUMA node
            _walk(pci, (), numa, path, found)
    return found


def _walk(pci: ET.Element, above: tuple[str, ...], numa: int, path: str, found: list[Device]) -> None:
    address = (pci.get("busid") or "").lower()
    if not _ADDRESS.fullmatch(address):
        raise SourceError(path, f"<pci busid={pci.get('busid')!r}>", "expected an address such as 0000:17:00.0")
    if len(above) >= _DEEPEST:
        raise SourceError(path, f"<pci busid={address}>", f"more than {_DEEPEST} bridges above it")
    kind = _kind(pci.get("class") or "")
    if kind:
        names = tuple(f"gpu{gpu.get('dev')}" for gpu in pci.findall("gpu") if gpu.get("dev"))
        nets = tuple(net.get("name") or "" for net in pci.iterfind("nic/net"))
        width = _whole(pci, "link_width", path, 0)
        found.append(
            Device(address, kind, names + tuple(filter(None, nets)), "", above, numa, _speed(pci, path), width)
        )
    for child in pci.findall("pci"):
        _walk(child, (*above, address), numa, path, found)


def _kind(code: str) -> str:
    """By PCI class; "" for bridges and other devices."""
    if code.startswith(("0x0300", "0x0302")):
        return "gpu"
    return {"0x02": "nic", "0x12": "accelerator"}.get(code[:4], "nvswitch" if code.startswith("0x0680") else "")


def _whole(element: ET.Element, name: str, path: str, missing: int) -> int:
    text = element.get(name, "")
    if not text:
        return missing
    if not re.fullmatch(r"-?\d{1,6}", text):
        raise SourceError(path, f"<{element.tag} {name}={text!r}>", "expected a whole number")
    return int(text)


def _speed(pci: ET.Element, path: str) -> float:
    text = pci.get("link_speed", "")
    if not text or text.lower().startswith("unknown"):
        return math.nan
    found = _SPEED.fullmatch(text)
    if not found:
        raise SourceError(path, f"<pci link_speed={text!r}>", "expected a speed such as 32.0 GT/s PCIe")
    return float(found[1]) * 1e9


def render(devices: Iterable[Device]) -> str:
    """A topology file of these devices, for NCCL_TOPO_FILE. NCCL detects what is unknown."""
    lines = ['<system version="1">']
    by_cpu: dict[int, list[Device]] = {}
    for device in devices:
        by_cpu.setdefault(device.numa, []).append(device)
    for numa, mine in sorted(by_cpu.items()):
        lines.append(f'  <cpu numaid="{numa}">')
        lines += _below(mine, 0, "    ")
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>", ""])


def _below(devices: Sequence[Device], depth: int, indent: str) -> list[str]:
    """The elements of one level: the devices, and each bridge with the devices below it."""
    lines: list[str] = []
    bridges: dict[str, list[Device]] = {}
    for device in devices:
        if len(device.path) > depth:
            bridges.setdefault(device.path[depth], []).append(device)
        else:
            lines += _device(device, indent)
    for address, mine in bridges.items():
        lines.append(f"{indent}<pci busid={quoteattr(address)} class={quoteattr(_BRIDGE)}>")
        lines += _below(mine, depth + 1, indent + "  ")
        lines.append(f"{indent}</pci>")
    return lines


def _device(device: Device, indent: str) -> list[str]:
    facts = {"busid": device.address, "class": _CLASSES.get(device.kind, "")}
    if not math.isnan(device.speed):
        facts["link_speed"] = f"{device.speed / 1e9:.1f} GT/s PCIe"
    if device.width:
        facts["link_width"] = str(device.width)
    head = f"{indent}<pci {_attributes(facts)}"
    inner = _inside(device, indent + "  ")
    return [f"{head}>", *inner, f"{indent}</pci>"] if inner else [f"{head}/>"]


def _inside(device: Device, indent: str) -> list[str]:
    if device.kind == "gpu":
        numbers = [name.removeprefix("gpu") for name in device.names if re.fullmatch(r"gpu\d+", name)]
        return [f"{indent}<gpu {_attributes({'dev': number})}/>" for number in numbers]
    nets = [f"{indent}  <net {_attributes({'name': name})}/>" for name in device.names]
    return [f"{indent}<nic>", *nets, f"{indent}</nic>"] if nets else []


def _attributes(facts: dict[str, str]) -> str:
    return " ".join(f"{name}={quoteattr(value)}" for name, value in facts.items() if value)
