"""A message of the kernel log read as what it says of this node: which row, what is counted, what is told. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fabricmon.catalogue import kernel_log, xid
from fabricmon.catalogue.kernel_patterns import Match, Matcher
from fabricmon.collect.xid_blame import Blame, Role
from fabricmon.host.protocol import KernelMessage
from fabricmon.model import Event, Kind, Severity

TEXT_MOST = 240
"""Characters of a line that an event carries."""

QUIET = 5.0
"""Seconds in which a second message of one sort about one device is counted and not told (kernel-log.md section 7)."""

_MOST_REMEMBERED = 1024
_NUMBERS = ("xid", "sxid", "link", "module", "queue", "milliseconds", "watts", "gi")

Row = tuple[Kind, str]
_NODE: Row = (Kind.NODE, "")


class Places(NamedTuple):
    """Where the devices that lines name have their rows.

    pci      PCI address, lower case with a domain of 4 digits ("0000:17:00.0") -> row
    netdev   network interface -> row
    device   RDMA device -> row
    """

    pci: Mapping[str, Row]
    netdev: Mapping[str, Row]
    device: Mapping[str, Row]


class Heard(NamedTuple):
    """What a message comes to: one more of `column` on `row`, and what to tell at once, if anything."""

    row: Row
    column: str
    event: Event | None


class Listener:
    """Turns the messages of one node into counts and events, in their order."""

    def __init__(self, matcher: Matcher | None = None) -> None:
        self._matcher = matcher or Matcher()
        self._blame = Blame()
        self._told: dict[tuple[Row, str], tuple[float, int]] = {}  # when last, and how many were left out since

    def hear(self, message: KernelMessage, places: Places, wall: float) -> Heard | None:
        """None for a message that is of no concern here. `wall` is when it came, seconds since the epoch."""
        match = self._matcher.match(message.text)
        if match is None:
            return None
        pattern = match.pattern
        row, name = _where(match, message, places)
        severity: Severity | None
        if pattern.name == "xid":
            concept, severity, sort, words = self._xid(match, name, message.uptime)
        elif pattern.name == "sxid":
            concept, severity = xid.SXID_WORDS[match.groups["word"]]
            sort, words, row = f"sxid {match.groups['sxid']} {match.groups['link']}", "", _NODE
        else:
            concept, severity, sort, words = pattern.concept, pattern.severity, pattern.name, ""
        column = kernel_log.column(row[0], concept) if concept else ""
        if column and column not in kernel_log.COLUMNS[row[0]]:
            row, column = _NODE, kernel_log.column(Kind.NODE, "xid" if pattern.name == "xid" else concept)
        if severity is None:
            return Heard(row, column, None) if column else None
        event = self._event(row, sort, severity, f"{words}{_line(message.text)}", match, message.uptime, wall)
        return Heard(row, column, event) if column or event else None

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
        if role is Role.CONSEQUENCE:
            severity, words = Severity.INFO, f"{words}, follows from another fault"
            return "xid_consequence", severity, f"xid {number}", f"{words}: "
        if role is Role.NOTE:
            severity = Severity.INFO
        return f"xid_{known.group}", severity, f"xid {number}", f"{words}: "

    def _event(
        self, row: Row, sort: str, severity: Severity, text: str, match: Match, uptime: float, wall: float
    ) -> Event | None:
        last, missed = self._told.get((row, sort), (-QUIET, 0))
        if uptime - last < QUIET and last <= uptime:
            self._told[row, sort] = (last, missed + 1)
            return None
        if len(self._told) >= _MOST_REMEMBERED:
            self._told.clear()
        self._told[row, sort] = (uptime, 0)
        fields = {name: float(match.groups[name]) for name in _NUMBERS if name in match.groups}
        fields["severity"] = float(severity.rank)
        if missed:
            fields["left_out"] = float(missed)
        kind = sort.split(" ", 1)[0]
        return Event(0, wall, kind, row[1], text, fields, row[0])


def _where(match: Match, message: KernelMessage, places: Places) -> tuple[Row, str]:
    """The row of the device a line names, and what the line calls it; the node's where it has none here."""
    groups = match.groups
    if "ifname" in groups and (row := places.netdev.get(groups["ifname"])):
        return row, groups["ifname"]
    if "dev" in groups and (row := places.device.get(groups["dev"])):
        return row, groups["dev"]
    if "pci" in groups:  # a GPU is named without its function, which is 0
        address = f"{short(groups['pci'])}.0"
        return places.pci.get(address, _NODE), address
    for address in (groups.get("bdf", ""), message.device):
        if address and (row := places.pci.get(short(address))):
            return row, short(address)
    return _NODE, groups.get("bdf") or message.device


def short(address: str) -> str:
    """A PCI address as sysfs writes it: lower case, the domain with 4 digits unless it needs more."""
    domain, _, rest = address.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest.count(":") == 1 else address.lower()


def _line(text: str) -> str:
    return text if len(text) <= TEXT_MOST else f"{text[: TEXT_MOST - 1]}…"
