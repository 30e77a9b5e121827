"""The full form of `ibnetdiscover` (blocks of a node and its links), also pasted from a terminal.

Grammar: docs/methods.md#infiniband-dumps, confirmed on dumps of eight fabrics. White space (terminals lose tabs), line
ends and text around the blocks (prompts, comments) are ignored; a description may lack its quotation marks.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fabricmon.sources.formats.document import SourceError, lines
from fabricmon.topology.discovery import Discovery, lane_rate
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.names import NodeNames

_NODE = re.compile(
    r'^\s*(Switch|Ca|Hca|Rt)\s*(\d{1,6})\s*"([SHR])-([0-9a-fA-F]{1,16})"\s*(?:#(.*))?$', re.IGNORECASE
)
_PORT = re.compile(
    r'^\s*\[\s*(\d{1,6})\s*\]\s*(?:\(\s*([0-9a-fA-F]+)\s*\))?\s*"([SHR])-([0-9a-fA-F]{1,16})"\s*'
    r"\[\s*(\d{1,6})\s*\]\s*(?:\(\s*([0-9a-fA-F]+)\s*\))?\s*(?:#(.*))?$"
)
_KEY = re.compile(r"^\s*(vendid|devid|sysimgguid|switchguid|caguid|rtguid)\s*=\s*(?:0x)?([0-9a-fA-F]+)", re.IGNORECASE)
_RATE = re.compile(r"\b(\d{1,3})x\s*([A-Z]+\d*)\b")
_QUOTED = re.compile(r'^([^"]*)"(.*)"([^"]*)$')
_LIDS = re.compile(r"\blid\s+(?:(\d{1,6})(?:\s+lmc\s+(\d))?\b|lmc\b)")
_TITLE = re.compile(r"^\s*(?:Non-Chassis Nodes|Chassis \d+ \(guid 0x[0-9a-fA-F]+\).*)\s*$")
_ERROR = re.compile(r"\bumad \(DR path ([^)]{1,400})\) bad status (\d+)")
"""What the tool prints on its standard error for a node that does not answer."""
_BEFORE = re.compile(r"^\s*(?:lid\s+\d+\s+lmc\s+\d+\s+)?")
_AFTER = re.compile(r"\s*(?:(?:base|enhanced)\s+port\s+0\b.*|\blid\s+\d+(?:\s+lmc\s+\d+)?\s*(?:\S*x\S*)?\s*)?$")


def sniff(head: str) -> bool:
    return any(_NODE.match(line) for line in head.splitlines())


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a dump. SourceError where it has no node; invalid lines are left out and make a finding."""
    found = Discovery(names)
    keys: dict[str, str] = {}
    node = kind = ""
    for number, line in lines(text, path):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if match := _PORT.match(line):
            if node:
                _link(found, kind, node, match)
            else:
                found.unread(number, line)
        elif match := _NODE.match(line):
            kind = match[3].upper()
            device = f"0x{keys['devid'].lower()}" if "devid" in keys else ""
            node = _header(found, match, device, keys.get("sysimgguid", ""))
            keys = {}
        elif match := _KEY.match(line):
            keys[match[1].lower()] = match[2]
        elif match := _ERROR.search(line):
            found.unanswered(f"{match[1].strip()}: status {match[2]}")
        elif not _TITLE.match(line):
            found.unread(number, line)
    if not len(found):
        raise SourceError(path, "", "has no Switch or Ca record")
    return found.graph()


def _header(found: Discovery, match: re.Match[str], device: str, system: str) -> str:
    words = _comment(match[5] or "")
    kind = match[3].upper()
    node = found.node(kind, match[4], int(match[2]), words.text, device=device, system=system)
    if kind == "S" and words.after:
        found.lid(node, 0, *words.after)
    return node


class _Comment(NamedTuple):
    """What stands behind "#": a description, (LID, LMC) before and after it, and the rate's words."""

    text: str
    before: tuple[int, int] | None
    after: tuple[int, int] | None
    rate: tuple[str, str] | None


def _comment(text: str) -> _Comment:
    if quoted := _QUOTED.match(text):
        before, name, after = quoted.groups()
    else:
        start = _BEFORE.match(text)
        before = start[0] if start else ""
        rest = text[len(before) :]
        end = _AFTER.search(rest)
        name, after = (rest[: end.start()], end[0]) if end else (rest, "")
    rates = _RATE.findall(after)
    return _Comment(name.strip(' "'), _lid(before), _lid(after), rates[-1] if rates else None)


def _lid(text: str) -> tuple[int, int] | None:
    match = _LIDS.search(text)
    return (int(match[1] or 0), int(match[2] or 0)) if match else None


def _link(found: Discovery, kind: str, node: str, match: re.Match[str]) -> None:
    port, near_guid, far_kind, far, far_port, far_guid, comment = match.groups()
    words = _comment(comment or "")
    if kind == "H":
        if near_guid:
            found.port_guid(node, int(port), near_guid)
        if words.before:
            found.lid(node, int(port), *words.before)
    peer = found.node(far_kind.upper(), far, 0, words.text, port_guid=far_guid or "", own=False)
    rate, width = lane_rate(*words.rate) if words.rate else (0.0, 0)
    found.link(End(node, int(port)), End(peer, int(far_port)), rate, width)
