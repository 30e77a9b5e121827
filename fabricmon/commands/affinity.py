"""PCIe distance between the GPUs and network adapters of one node: `fabricmon topology affinity`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fabricmon.console import output
from fabricmon.terminal.fitted_text import clean
from fabricmon.terminal.text_table import text_table
from fabricmon.topology.affinity import Device, Relation, matrix, nearest, of_kind

if TYPE_CHECKING:
    from fabricmon.host.protocol import Host

OK, UNUSABLE = 0, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from fabricmon.commands.agent import add_host_arguments

    parser.add_argument(
        "--nccl-xml", metavar="FILE", help="read a file written by NCCL_TOPO_DUMP_FILE instead of this host's PCI bus"
    )
    parser.add_argument("--write-nccl-xml", metavar="FILE", help="write the result as a file for NCCL_TOPO_FILE")
    parser.add_argument("--json", action="store_true", help="print devices and relations as JSON")
    parser.add_argument("--config", metavar="FILE", help="configuration file, for the path of sysfs")
    add_host_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0; 2 if a file or the host cannot be read."""
    from fabricmon.host.protocol import HostError
    from fabricmon.sources.formats import nccl

    try:
        devices = _from_file(args.nccl_xml) if args.nccl_xml else _from_host(args)
        if args.write_nccl_xml:
            Path(args.write_nccl_xml).write_text(nccl.render(devices), encoding="utf-8")
    except (HostError, OSError, ValueError) as error:
        print(clean(f"fabricmon topology affinity: {error}"), file=sys.stderr)
        return UNUSABLE
    output.show([_json(devices)] if args.json else map(clean, report(devices)))
    return OK


def _from_file(path: str) -> list[Device]:
    from fabricmon.sources.formats import nccl

    with Path(path).open(encoding="utf-8", errors="replace") as file:
        return nccl.parse(file.read(nccl.MOST_BYTES + 1), path)


def _from_host(args: argparse.Namespace) -> list[Device]:
    from fabricmon.collect.machine import pci
    from fabricmon.commands.agent import load, open_host

    host: Host = open_host(load(args), args.host)
    try:
        return pci.devices(host)
    finally:
        host.close()


def report(devices: Sequence[Device]) -> Iterator[str]:
    """The table as text: a row per GPU, a column per adapter."""
    gpus, nics = of_kind(devices, "gpu", "accelerator"), of_kind(devices, "nic")
    yield f"{len(gpus)} GPUs, {len(nics)} network adapters"
    if not gpus or not nics:
        return
    yield ""
    head = ["", *(nic.title for nic in nics), "NUMA", "nearest"]
    lines = [head]
    for gpu, row in zip(gpus, matrix(gpus, nics), strict=True):
        _, close = nearest(gpu, nics)
        numa = str(gpu.numa) if gpu.numa >= 0 else "?"
        lines.append([gpu.title, *map(str, row), numa, ", ".join(nic.title for nic in close) or "?"])
    yield from text_table(lines)
    yield ""
    yield "PIX one PCIe switch, PXB several, PHB one host bridge of the CPU, NODE one NUMA node, SYS across NUMA nodes"


def _json(devices: Sequence[Device]) -> str:
    gpus, nics = of_kind(devices, "gpu", "accelerator"), of_kind(devices, "nic")
    relations: dict[str, dict[str, str]] = {}
    for gpu, row in zip(gpus, matrix(gpus, nics), strict=True):
        relations[gpu.address] = {
            nic.address: "unknown" if each is Relation.UNKNOWN else str(each)
            for nic, each in zip(nics, row, strict=True)
        }
    return msgspec.json.encode({"devices": devices, "relations": relations}).decode()
