"""A recorded machine from the output of `nvidia-smi -q -x` and `nvlink --status`. Pure.

For bug reports with only that. What nvidia-smi does not print is unknown in the recording.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

from msgspec import Struct

from fabricmon.forms.decoding import Undecodable, xml_root
from fabricmon.host.archive import Archive, FieldAnswer, Trouble
from fabricmon.host.protocol.gpus import SUCCESS, Gpu, GpuFabric, GpuPcie, NvLink, pci_address

_DRIVER = "/sys/bus/pci/drivers/nvidia"
"""Lists the GPUs with a driver, also those that NVML does not have any more: unknown from nvidia-smi's output."""
MOST_BYTES = 16 << 20  # 8 GPUs print 220 KiB
_STATE, _SPEED, _REPLAYS, _ROLLOVERS, _ACTION = 165, 164, 94, 95, 230  # NVML field ids
_NOTHING = frozenset({"", "N/A", "Requested functionality has been deprecated"})
_FABRIC_STATES = {"Not Supported": 0, "Not Started": 1, "In Progress": 2, "Completed": 3}
_SUMMARIES = {"Healthy": 1, "Unhealthy": 2, "Limited Capacity": 3}
_ACTIONS = {"None": 0, "Reset": 1, "GPU Reset": 1, "Reboot": 2, "Node Reboot": 2, "Drain P2P": 3, "Drain and Reset": 4}
_TRUTHS = {"True": 1, "False": 2, "Degraded": 1, "Full": 2}
_HEALTH = {
    "bandwidth": 0, "route_recovery_in_progress": 2, "route_unhealthy": 4, "access_timeout_recovery": 6,
    "partition_assigned": 12,
}  # fmt: skip
_GPU = re.compile(r"GPU (\d+): (.*?) \(UUID: (\S+)\)")
_LINK = re.compile(r"\s+Link (\d{1,4}): (?:(\d{1,9}(?:\.\d{1,9})?) GB/s|<?inactive>?)", re.IGNORECASE)


class SmiError(ValueError):
    """Text that is not of nvidia-smi; names where and what was expected."""


class LinkStatus(Struct, frozen=True):
    """One GPU of `nvidia-smi nvlink --status`.

    links     link -> bytes a second, None for an inactive one
    inactive  all links are inactive, and their number is unknown
    """

    index: int
    model: str
    uuid: str
    links: dict[int, float | None] = {}
    inactive: bool = False


def nvlink_status(text: str) -> list[LinkStatus]:
    """The GPUs in the output of `nvidia-smi nvlink --status`. SmiError for other text, or without a GPU."""
    found: list[LinkStatus] = []
    links: dict[int, float | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if gpu := _GPU.match(line):
            links = {}
            found.append(LinkStatus(int(gpu[1]), gpu[2], gpu[3], links))
        elif (link := _LINK.fullmatch(line)) and found:
            links[int(link[1])] = float(link[2]) * 1e9 if link[2] else None
        elif "all links are inactive" in line and found:
            last = found.pop()
            found.append(LinkStatus(last.index, last.model, last.uuid, last.links, True))
        elif line.strip():
            raise SmiError(f"line {number}: expected a GPU or a link of one, got {line.strip()[:60]!r}")
    if not found:
        raise SmiError("no GPU in it: expected what `nvidia-smi nvlink --status` prints")
    return found


def recorded(archive: Archive, query: str, links: str = "") -> Archive:
    """Put the output of `nvidia-smi -q -x`, and of `nvidia-smi nvlink --status` if given, into an archive; returns it.
    SmiError for other text."""
    root = _parse(query)
    driver = _text(root, "driver_version")
    status = {one.uuid: one for one in nvlink_status(links)} if links else {}
    archive.gpus = []
    archive.troubles[f"lists {_DRIVER}"] = Trouble(0, "not in the output of nvidia-smi", unsupported=True)
    for index, each in enumerate(root.findall("gpu")):
        gpu = _gpu(index, each, driver)
        key = str(index)
        archive.gpus.append(gpu)
        if fabric := _fabric(each):
            archive.gpu_fabrics[key] = fabric
        archive.gpu_pcie[key] = _pcie(each)
        fields = _fields(each)
        printed = status.get(gpu.uuid)
        archive.nvlinks[key] = []
        for link, speed in sorted(printed.links.items()) if printed else ():
            archive.nvlinks[key].append(NvLink(link, 0 if speed is None else 1))
            fields[f"{_STATE}/{link}"] = FieldAnswer(0.0 if speed is None else 1.0, SUCCESS)
            if speed is not None:
                fields[f"{_SPEED}/{link}"] = FieldAnswer(speed / 1e6, SUCCESS)
        archive.gpu_fields[key] = fields
    return archive


def _parse(query: str) -> ET.Element:
    try:
        root = xml_root(query, MOST_BYTES)
    except Undecodable as error:
        raise SmiError(f"line {error.line}: {error}" if error.line else str(error)) from None
    if root.tag != "nvidia_smi_log":
        raise SmiError(f"expected <nvidia_smi_log> as `nvidia-smi -q -x` prints it, got <{root.tag}>")
    return root


def _gpu(index: int, gpu: ET.Element, driver: str) -> Gpu:
    place = {name: _text(gpu, f"platformInfo/{path}") for name, path in (
        ("chassis", "chassis_serial_number"), ("slot", "slot_number"), ("tray", "tray_index"), ("module", "module_id"),
    )}  # fmt: skip
    return Gpu(index, _text(gpu, "uuid"), pci_address(gpu.get("id", "")), _text(gpu, "product_name"), driver, **place)


def _fabric(gpu: ET.Element) -> GpuFabric | None:
    state = _FABRIC_STATES.get(_text(gpu, "fabric/state"))
    if state is None:
        return None
    cluster, done = _text(gpu, "fabric/clusterUuid"), state == _FABRIC_STATES["Completed"]
    mask = 0
    for name, bit in _HEALTH.items():
        mask |= _TRUTHS.get(_text(gpu, f"fabric/health/{name}"), 0) << bit
    return GpuFabric(
        state=state,
        status=0 if done and _text(gpu, "fabric/status") == "Success" else None,
        cluster=cluster if set(cluster) - set("0-") else "",
        clique=_number(gpu, "fabric/cliqueId") if done else None,
        health=mask,
        summary=_SUMMARIES.get(_text(gpu, "fabric/health/summary"), 0),
    )


def _pcie(gpu: ET.Element) -> GpuPcie:
    at = "pci/pci_gpu_link_info"
    return GpuPcie(
        _number(gpu, f"{at}/pcie_gen/current_link_gen"),
        _number(gpu, f"{at}/link_widths/current_link_width"),
        _number(gpu, f"{at}/pcie_gen/max_link_gen"),
        _number(gpu, f"{at}/link_widths/max_link_width"),
    )


def _fields(gpu: ET.Element) -> dict[str, FieldAnswer]:
    values: Mapping[int, int | None] = {
        _REPLAYS: _number(gpu, "pci/replay_counter"),
        _ROLLOVERS: _number(gpu, "pci/replay_rollover_counter"),
        _ACTION: _ACTIONS.get(_text(gpu, "gpu_recovery_action")),
    }
    return {f"{field}/0": FieldAnswer(float(value), SUCCESS) for field, value in values.items() if value is not None}


def _number(element: ET.Element, path: str) -> int | None:
    """ "16x" -> 16; None without a number."""
    found = re.match(r"\d+", _text(element, path))
    return int(found[0]) if found else None


def _text(element: ET.Element, path: str) -> str:
    text = (element.findtext(path) or "").strip()
    return "" if text in _NOTHING else text
