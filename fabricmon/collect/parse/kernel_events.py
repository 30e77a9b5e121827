"""Messages of the kernel log as counts on a row and as events. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from fabricmon.catalogue import kernel_log, xid
from fabricmon.catalogue.kernel_patterns import Match, PatternMatcher
from fabricmon.collect.parse.hardware_error import HardwareErrors
from fabricmon.collect.parse.xid_blame import Blame, XidRole
from fabricmon.host.protocol import KernelMessage
from fabricmon.model import Event, Kind, Severity

TEXT_MOST = 240
"""Characters of a line that an event carries."""

QUIET = 5.0
"""Seconds in which a second message of one type about one device is counted without an event
(docs/methods.md#kernel-log)."""

_FIRMWARE_FIRST = {"pcie_nonfatal_errors": Severity.WARNING, "pcie_fatal_errors": Severity.CRITICAL}
_MOST_REMEMBERED = 1024
_NUMBERS = ("xid", "sxid", "link", "module", "queue", "milliseconds", "watts", "gi")

Row = tuple[Kind, str]
_NODE: Row = (Kind.NODE, "")


class DeviceRows(NamedTuple):
    """The rows of the devices that messages name.

    pci      PCI address, lower case with a domain of 4 digits ("0000:17:00.0") -> row
    netdev   network interface -> row
    device   RDMA device, or device/port -> row
    """

    pci: Mapping[str, Row]
    netdev: Mapping[str, Row]
    device: Mapping[str, Row]


class MessageCount(NamedTuple):
    """One more of `column` on `row`, and the event of the message, if any."""

    row: Row
    column: str
    event: Event | None


class KernelEvents:
    """Counts and events of one node's messages, in their order."""

    def __init__(self) -> None:
        self._matcher = PatternMatcher()
        self._blame = Blame()
        self._firmware = HardwareErrors()
        self._sent: dict[tuple[Row, str], tuple[float, int]] = {}  # time of the last event, and messages left out since

    def receive(self, message: KernelMessage, places: DeviceRows, wall: float) -> MessageCount | None:
        """None for a message that matches no pattern. `wall`: when it was received, seconds since the epoch."""
        match = self._matcher.match(message.text)
        if match is None:
            return None
        pattern = match.pattern
        row, name = _where(match, message, places)
        severity: Severity | None
        if message.earlier and pattern.name != "xid":
            return None
        if message.earlier:
            words = f"before the agent started, {xid.xid(int(match.groups['xid'])).what}: "
            concept, severity, sort = "xid_earlier", Severity.INFO, f"xid {match.groups['xid']}"
        elif pattern.name.startswith("ghes_"):
            concept = self._firmware.receive(pattern.name, match.groups)
            severity, sort, words = _FIRMWARE_FIRST.get(concept), "pcie_firmware_first", "reported by the firmware, "
        elif pattern.name == "xid":
            concept, severity, sort, words = self._xid(match, name, message.uptime)
        elif pattern.name == "sxid":
            concept, severity = xid.SXID_WORDS[match.groups["word"]]
            sort, words, row = f"sxid {match.groups['sxid']} {match.groups['link']}", "", _NODE
        else:
            concept, severity, sort, words = pattern.concept, pattern.severity, pattern.name, ""
        column = kernel_log.column(row[0], concept) if concept else ""
        if column and column not in kernel_log.COLUMNS[row[0]]:
            row, column = _NODE, kernel_log.column(Kind.NODE, _of_node(pattern.name, concept))
        if severity is None:
            return MessageCount(row, column, None) if column else None
        text = message.text if len(message.text) <= TEXT_MOST else f"{message.text[: TEXT_MOST - 1]}…"
        event = self._event(row, sort, severity, f"{words}{text}", match, message.uptime, wall)
        return MessageCount(row, column, event) if column or event else None

    def _xid(self, match: Match, gpu: str, uptime: float) -> tuple[str, Severity, str, str]:
        number = int(match.groups["xid"])
        known, details = xid.xid(number), xid.details(number, match.groups["text"])
        role = self._blame.role(gpu, number, details, uptime)
        severity = known.severity
        if details.fatal is False:
            severity = min(severity, Severity.WARNING, key=lambda s: s.rank)
        words = known.what
        if details.blame == "local":
            words += ", signal integrity of this end"
        elif details.blame == "peer":
            words += ", the other end took the link down"
        if role is XidRole.CONSEQUENCE:
            severity, words = Severity.INFO, f"{words}, follows from another fault"
            return "xid_consequence", severity, f"xid {number}", f"{words}: "
        if role is XidRole.NOTE:
            severity = Severity.INFO
        return f"xid_{known.group}", severity, f"xid {number}", f"{words}: "

    def _event(
        self, row: Row, sort: str, severity: Severity, text: str, match: Match, uptime: float, wall: float
    ) -> Event | None:
        last, missed = self._sent.get((row, sort), (-QUIET, 0))
        if uptime - last < QUIET and last <= uptime:
            self._sent[row, sort] = (last, missed + 1)
            return None
        if len(self._sent) >= _MOST_REMEMBERED:
            self._sent.clear()
        self._sent[row, sort] = (uptime, 0)
        fields = {name: float(match.groups[name]) for name in _NUMBERS if name in match.groups}
        fields["severity"] = float(severity.rank)
        if missed:
            fields["left_out"] = float(missed)
        kind = sort.split(" ", 1)[0]
        return Event(0, wall, kind, row[1], text, fields, row[0])


_WITH_DOMAIN = re.compile(r"([0-9a-f]{1,8}):([^:]*:[^:]*)")


def _of_node(pattern: str, concept: str) -> str:
    """What is counted on the node where the device has no row: Xids without their class."""
    return "xid" if pattern == "xid" and concept != "xid_earlier" else concept


def _where(match: Match, message: KernelMessage, places: DeviceRows) -> tuple[Row, str]:
    """The row of the device a message names, else the node's, and its name in the message."""
    groups = match.groups
    if "ifname" in groups and (row := places.netdev.get(groups["ifname"])):
        return row, groups["ifname"]
    if "dev" in groups and (row := places.device.get(f"{groups['dev']}/{groups.get('port', '')}")
                            or places.device.get(groups["dev"])):  # fmt: skip
        return row, groups["dev"]
    if "pci" in groups:  # a GPU is named without its function, which is 0
        address = f"{short(groups['pci'])}.0"
        return places.pci.get(address, _NODE), address
    for address in (groups.get("bdf", ""), groups.get("at", ""), message.device):
        if address and (row := places.pci.get(short(address))):
            return row, short(address)
    return _NODE, groups.get("bdf") or message.device


def short(address: str) -> str:
    """A PCI address as sysfs writes it: lower case, the domain with 4 digits unless it needs more. Other text stays."""
    lower = address.lower()
    match = _WITH_DOMAIN.fullmatch(lower)
    return f"{int(match[1], 16):04x}:{match[2]}" if match else lower
