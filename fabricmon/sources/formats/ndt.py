"""A cable plan of UFM's NDT plug-in: CSV with StartDevice, StartPort, EndDevice, EndPort (docs/methods.md#cable-plans).

Further columns are ignored, except the speed. Spellings of ports:
  "Port 21"              port 21
  "Port 11/2"            lane group 2 of cage 11: port 22 of a switch with two ports a cage
  "Blade 16_Port 2/20"   port 20 of chip 2 of leaf card 16: every chip of a director is a switch of its own
  "IB Port 1", "HCA-1"   first adapter of a host
A port may repeat its device ("node-01", "node-01 mlx5_0"), and a device its port ("Server 1 IB Port 1", "IB Port 1").
"""

from __future__ import annotations

import csv
import re

from fabricmon.sources.formats.document import SourceError, lines
from fabricmon.topology.graph import Adapter, Cable, End, Finding, Graph, Switch, cable
from fabricmon.topology.names import NodeNames

_HEAD = re.compile(r"start[ _]?device\W+start[ _]?port", re.IGNORECASE)
_NEEDED = ("startdevice", "startport", "enddevice", "endport")
_BLADE = re.compile(r"^(?:blade|leaf|l)\s*(\d{1,6})[_\s/]+(?:port|p)?\s*(\d{1,6})/(\d{1,6})$", re.IGNORECASE)
_CAGE = re.compile(r"^(?:port|p|swp|sw)?\s*(\d{1,6})/([12])(?:/1)?$", re.IGNORECASE)
_PORT = re.compile(r"^(?:port|p|swp|sw)?\s*(\d{1,6})$", re.IGNORECASE)
_ADAPTER = re.compile(r"^(?:ib\s*port|hca(?:\s*port)?)[\s_-]*(\d{1,6})(?:\s*(?:/|port)\s*(\d{1,6}))?$", re.IGNORECASE)
_DEVICE = re.compile(r"^((?:mlx\d|bnxt_re|efa|irdma|rocep|ibp|roce|ib)[\w.-]*)(?:/(\d{1,6}))?$", re.IGNORECASE)
_NAMED = 64


def sniff(head: str) -> bool:
    return bool(_HEAD.search(head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a plan. SourceError where a column is missing or no line can be used; invalid lines are left out and
    make a finding."""
    rows = csv.reader(line for _, line in lines(text, path))
    columns: dict[str, int] = {}
    found = _NdtPlan()
    try:
        for row in rows:
            if columns:
                found.line(rows.line_num, row, columns)
                continue
            titles = [re.sub(r"^#?fields:|[^a-z]", "", cell.strip().lower()) for cell in row]
            titles = [title.removeprefix("fields") for title in titles]
            if all(need in titles for need in _NEEDED):
                columns = {title: titles.index(title) for title in titles if title}
    except csv.Error as error:
        raise SourceError(path, f"line {rows.line_num}", f"not CSV: {error}") from error
    if not columns:
        raise SourceError(path, "", f"no header line with the columns {', '.join(_NEEDED)}")
    if not found.cables:
        raise SourceError(path, "", "has no valid cable")
    return found.graph()


def _bare(device: str, port: str) -> tuple[str, str]:
    """Device and port, neither with the other's text."""
    if port.lower().startswith(f"{device.lower()} "):
        port = port[len(device) :].lstrip(" _")
    elif device.lower().endswith(f" {port.lower()}"):
        device = device[: -len(port)].rstrip(" _")
    return device, port


class _NdtPlan:
    def __init__(self) -> None:
        self.switches: dict[str, Switch] = {}
        self.adapters: dict[str, Adapter] = {}
        self.cables: dict[tuple[End, End], Cable] = {}
        self.used: dict[End, int] = {}
        self.unread: list[str] = []
        self.twice: list[str] = []

    def line(self, number: int, row: list[str], columns: dict[str, int]) -> None:
        def cell(title: str) -> str:
            at = columns.get(title, len(row))
            return row[at].strip() if at < len(row) else ""

        if not any(cell(title) for title in _NEEDED):
            return
        ends = [self.end(cell(f"{side}device"), cell(f"{side}port")) for side in ("start", "end")]
        start, end = ends
        if start is None or end is None:
            self.unread.append(f"line {number}: {', '.join(cell(title) for title in _NEEDED)[:80]}")
            return
        speed = cell("speed")
        rate = float(speed) * 1e6 / 8 if speed.isdecimal() and len(speed) < 10 else 0.0  # Mb/s
        link = cable(start, end, rate)
        if (link.a, link.b) in self.cables:
            return  # many plans list a cable once from either end
        before = [self.used[each] for each in (start, end) if each in self.used]
        if before or start == end:
            words = f"in use since line {before[0]}" if before else "plugged into itself"
            self.twice.append(f"line {number}: {', '.join(cell(title) for title in _NEEDED)[:80]}: {words}")
            return
        self.used[start] = self.used[end] = number
        self.cables[link.a, link.b] = link

    def end(self, device: str, port: str) -> End | None:
        device, port = _bare(device, port)
        if not device:
            return None
        if match := _BLADE.match(port):
            labels = {"box": device, "card": f"L{int(match[1])}", "asic": match[2]}
            return self.switch(f"{device}/L{int(match[1])}/U{match[2]}", int(match[3]), labels)
        if match := _ADAPTER.match(port):
            return self.adapter(device, f"HCA-{int(match[1])}", int(match[2] or 1))
        if match := _DEVICE.match(port):
            return self.adapter(device, match[1], int(match[2] or 1))
        if match := _CAGE.match(port):
            return self.switch(device, 2 * int(match[1]) - 2 + int(match[2]), {})
        if match := _PORT.match(port):
            return self.switch(device, int(match[1]), {})
        return None

    def switch(self, name: str, port: int, labels: dict[str, str]) -> End:
        self.switches.setdefault(name, Switch(name, name, labels=labels))
        return End(name, port)

    def adapter(self, host: str, device: str, port: int) -> End:
        key = f"{host}/{device}"
        self.adapters.setdefault(key, Adapter(key, host, device))
        return End(key, port)

    def graph(self) -> Graph:
        hosts: dict[str, dict[str, str]] = {adapter.host: {} for adapter in self.adapters.values()}
        findings = [
            Finding(kind, tuple(lines[:_NAMED]), f"{len(lines)} {words}")
            for kind, lines, words in (
                ("unread_line", self.unread, "lines could not be parsed"),
                ("conflicting_record", self.twice, "lines use a port that is already in use"),
            )
            if lines
        ]
        return Graph(self.switches, self.adapters, tuple(self.cables.values()), hosts, findings=tuple(findings))

