"""`ibdiagnet2.db_csv`: the tables NODES, PORTS and LINKS of ibdiagnet (docs/methods.md#infiniband-dumps).

A table stands between `START_<name>` and `END_<name>`, its first line has the names of its columns. Other tables are
ignored. LINKS has each cable once.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import NamedTuple

from fabricmon.sources.formats.document import SourceError, lines
from fabricmon.topology.discovery import Discovery, lane_rate
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.names import NodeNames

_START = re.compile(r"^\s*START_(NODES|PORTS|LINKS)\s*$", re.MULTILINE)
_TABLE = re.compile(r"^\s*(START|END)_([A-Z0-9_]+)\s*$")
_GUID = re.compile(r"^(?:0x)?[0-9a-fA-F]{1,16}$")
_KINDS = {"1": "H", "2": "S", "3": "H"}
_WIDTHS = {8: "12", 4: "8", 2: "4", 16: "2", 1: "1"}
_SPEEDS = {
    1 << 24: "XDR", 8 << 8: "NDR", 4 << 8: "HDR", 2 << 8: "EDR", 1 << 8: "FDR", 1 << 16: "FDR10", 4: "QDR", 2: "DDR",
    1: "SDR",
}  # fmt: skip
"""Widths and speeds, the best first. Bytes of a speed are the standard, extended, vendor's and second extended one
(ibutils, IBLinkSpeed); several may be set, as a switch gives the standard speed beside the extended one."""

Row = dict[str, str]


class _Rate(NamedTuple):
    """Of a port: bytes per second and lanes of its link, bytes per second that it supports; 0 unknown."""

    rate: float = 0.0
    width: int = 0
    most: float = 0.0


def sniff(head: str) -> bool:
    return bool(_START.search(head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a file. SourceError where it has no node; rows that cannot be used make a finding."""
    found = Discovery(names)
    rates: dict[End, _Rate] = {}
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
        first = found.first_unread
        raise SourceError(path, "", f"has no table NODES with a row that can be used{first and f', {first}'}")
    for a, b in links:
        for near, far in ((a, b), (b, a)):
            own = rates.get(near, _Rate())
            rate, width, _ = own if own.rate else rates.get(far, _Rate())
            found.link(near, far, rate, width, own.most)
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


def _best(words: dict[int, str], bits: int) -> str:
    """The best width or speed of which a bit is set."""
    return next((word for bit, word in words.items() if bits & bit), "")


def _port(found: Discovery, row: Row, rates: dict[End, _Rate]) -> None:
    end = End(found.known(_guid(row["nodeguid"])), int(row["portnum"]))
    switch = found.is_switch(end.node)
    if row.get("lid", "").isdecimal() and (not switch or end.port == 0):
        found.lid(end.node, end.port, int(row["lid"]), int(row.get("lmc") or 0) & 7)
    if not switch and _GUID.match(row.get("portguid", "")):
        found.port_guid(end.node, end.port, row["portguid"])
    if row.get("portphystate") == "5":
        pairs = [("linkwidthactv", "linkspeedactv"), ("linkwidthsup", "linkspeedsup")]
        active, most = (
            lane_rate(_best(_WIDTHS, int(row.get(width) or 0)), _best(_SPEEDS, int(row.get(speed) or 0)))
            for width, speed in pairs
        )
        rates[end] = _Rate(*active, most[0])


def _end(found: Discovery, row: Row, side: str) -> End:
    return End(found.known(_guid(row[f"nodeguid{side}"])), int(row[f"portnum{side}"]))


def _guid(text: str) -> str:
    """ValueError where the text is no GUID."""
    if not _GUID.match(text):
        raise ValueError(text)
    return text
