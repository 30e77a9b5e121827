"""The full form of `ibnetdiscover` (blocks of a node and its links), also pasted from a terminal.

Grammar: docs/methods.md#infiniband-dumps, confirmed on dumps of five fabrics. White space, line ends and text around
the blocks (prompts, comments) are ignored.
"""

from __future__ import annotations

import re

from fabricmon.sources.formats.document import SourceError, lines
from fabricmon.topology.discovery import Discovery, lane_rate
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.names import NodeNames

_NODE = re.compile(
    r'^\s*(Switch|Ca|Hca|Rt)\s+(\d{1,6})\s+"([SHR])-([0-9a-fA-F]{1,16})"\s*(?:#\s*"(.*)"[^"]*)?', re.IGNORECASE
)
_PORT = re.compile(
    r'^\s*\[\s*(\d{1,6})\s*\]\s*(?:\(\s*([0-9a-fA-F]+)\s*\))?\s*"([SHR])-([0-9a-fA-F]{1,16})"\s*'
    r"\[\s*(\d{1,6})\s*\]\s*(?:\(\s*([0-9a-fA-F]+)\s*\))?\s*(?:#(.*))?$"
)
_KEY = re.compile(r"^\s*(vendid|devid|sysimgguid|switchguid|caguid|rtguid)\s*=\s*(?:0x)?([0-9a-fA-F]+)", re.IGNORECASE)
_RATE = re.compile(r"\b(\d{1,3})x\s*([A-Z]+\d*)\b")
_QUOTED = re.compile(r'"(.*)"')


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
            node = found.node(
                kind, match[4], int(match[2]), match[5] or "", device=device, system=keys.get("sysimgguid", "")
            )
            keys = {}
        elif match := _KEY.match(line):
            keys[match[1].lower()] = match[2]
        else:
            found.unread(number, line)
    if not len(found):
        raise SourceError(path, "", "has no Switch or Ca record")
    return found.graph()


def _link(found: Discovery, kind: str, node: str, match: re.Match[str]) -> None:
    port, near_guid, far_kind, far, far_port, far_guid, comment = match.groups()
    if kind == "H" and near_guid:
        found.port_guid(node, int(port), near_guid)
    name = _QUOTED.search(comment or "")
    peer = found.node(far_kind.upper(), far, 0, name[1] if name else "", port_guid=far_guid or "", own=False)
    rates = _RATE.findall((comment or "").rpartition('"')[2])
    rate, width = lane_rate(*rates[-1]) if rates else (0.0, 0)
    found.link(End(node, int(port)), End(peer, int(far_port)), rate, width)
