"""`ibdiagnet2.db_csv`: the tables NODES, PORTS and LINKS of ibdiagnet (docs/methods.md#infiniband-dumps).

A table stands between `START_<name>` and `END_<name>`, its first line has the names of its columns. Other tables are
ignored. LINKS has each cable once.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from fabricmon.sources.formats.document import SourceError, lines
from fabricmon.topology.discovery import Discovery, lane_rate
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.names import NodeNames

_START = re.compile(r"^\s*START_(NODES|PORTS|LINKS)\s*$", re.MULTILINE)
_TABLE = re.compile(r"^\s*(START|END)_([A-Z0-9_]+)\s*$")
_GUID = re.compile(r"^(?:0x)?[0-9a-fA-F]{1,16}$")
_KINDS = {"1": "H", "2": "S", "3": "H"}
_WIDTHS = {1: "1", 2: "4", 4: "8", 8: "12", 16: "2"}
_SPEEDS = {
    1: "SDR", 2: "DDR", 4: "QDR", 1 << 8: "FDR", 2 << 8: "EDR", 4 << 8: "HDR", 8 << 8: "NDR", 1 << 16: "FDR10",
    1 << 24: "XDR",
}  # fmt: skip
"""LinkSpeedActv: bytes are the standard, extended, vendor's and second extended speeds (ibutils, IBLinkSpeed)."""

Row = dict[str, str]


def sniff(head: str) -> bool:
    return bool(_START.search(head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a file. SourceError where it has no node; rows that cannot be used make a finding."""
    found = Discovery(names)
    rates: dict[End, tuple[float, int]] = {}
    links: list[tuple[End, End]] = []
    for number, table, row in _rows(text, path):
        try:
            if table == "NODES":
                _node(found, row)
            elif table == "PORTS":
                _port(found, row, rates)
            else:
                links.append((_end(found, row, "1"), _end(found, row, "2")))
        except (KeyError, ValueError):
            found.unread(number, f"{table}: {','.join(row.values())}")
    if not len(found):
        raise SourceError(path, "", "has no table NODES with a row that can be used")
    for a, b in links:
        for near, far in ((a, b), (b, a)):
            found.link(near, far, *rates.get(near, rates.get(far, (0.0, 0))))
    return found.graph()


def _rows(text: str, path: str) -> Iterator[tuple[int, str, Row]]:
    """Line number, table and row by column of the tables that are used."""
    table, columns = "", list[str]()
    for number, line in lines(text, path):
        if match := _TABLE.match(line):
            table, columns = (match[2] if match[1] == "START" else ""), []
        elif table in ("NODES", "PORTS", "LINKS") and line.strip():
            try:
                cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
            except csv.Error:
                cells = []
            if columns:
                yield number, table, dict(zip(columns, cells, strict=False))
            else:
                columns = [cell.lower() for cell in cells]


def _node(found: Discovery, row: Row) -> None:
    key, kind = _guid(row["nodeguid"]), _KINDS[row["nodetype"]]
    device = row.get("deviceid", "")
    device = f"0x{int(device, 0):x}" if device else ""
    system, port = row.get("systemimageguid", ""), row.get("portguid", "")
    found.node(
        kind, key, int(row["numports"]), row.get("nodedesc", ""), device=device,
        system=system if _GUID.match(system) else "", port_guid=port if kind == "H" and _GUID.match(port) else "",
    )  # fmt: skip


def _port(found: Discovery, row: Row, rates: dict[End, tuple[float, int]]) -> None:
    end = End(found.known(_guid(row["nodeguid"])), int(row["portnum"]))
    switch = found.is_switch(end.node)
    if row.get("lid", "").isdecimal() and (not switch or end.port == 0):
        found.lid(end.node, end.port, int(row["lid"]), int(row.get("lmc") or 0) & 7)
    if not switch and _GUID.match(row.get("portguid", "")):
        found.port_guid(end.node, end.port, row["portguid"])
    if row.get("portphystate") == "5":
        width, speed = int(row.get("linkwidthactv") or 0), int(row.get("linkspeedactv") or 0)
        rates[end] = lane_rate(_WIDTHS.get(width, ""), _SPEEDS.get(speed, ""))


def _end(found: Discovery, row: Row, side: str) -> End:
    return End(found.known(_guid(row[f"nodeguid{side}"])), int(row[f"portnum{side}"]))


def _guid(text: str) -> str:
    """ValueError where the text is no GUID."""
    if not _GUID.match(text):
        raise ValueError(text)
    return text
