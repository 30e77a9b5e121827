"""`ibnetdiscover -p`: one line a port (docs/methods.md#infiniband-dumps).

It identifies an adapter by its port's GUID, which equals the node's GUID on most adapters, but not on all.
"""

from __future__ import annotations

import re

from fabricmon.sources.formats.document import SourceError, lines
from fabricmon.topology.discovery import Discovery, lane_rate
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.names import NodeNames

_END = r"(SW|CA|RT)\s+(\d{1,6})\s+(\d{1,6})\s+0x([0-9a-fA-F]{1,16})"
_LINE = re.compile(
    rf"^\s*{_END}\s+(\?\?|\d{{1,3}})x\s+([A-Z?]+\d*)(?:\s+-\s+{_END}\s+\((.*)\)|\s+([^\s-].*))\s*$"
)
_PAIR = re.compile(r"^\s*'(.*?)'\s+-\s+'(.*)'\s*$|^\s*(\S.*?)\s+-\s+(\S.*)$")


def sniff(head: str) -> bool:
    return any(_LINE.match(line) for line in head.splitlines())


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a dump. A port without a peer (printed as `4x SDR`) adds its switch and no link."""
    found = Discovery(names)
    for number, line in lines(text, path):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            found.unread(number, line)
            continue
        kind, _, port, node, width, speed, far_kind, _, far_port, far, both, alone = match.groups()
        if far is None:
            _node(found, kind, node, alone.strip("' "))
        else:
            name, far_name = _pair(both)
            near, there = _node(found, kind, node, name), _node(found, far_kind, far, far_name)
            rate, lanes = lane_rate(width, speed)
            found.link(End(near, int(port)), End(there, int(far_port)), rate, lanes)
    if not len(found):
        raise SourceError(path, "", "has no port line")
    return found.graph()


def _pair(text: str) -> tuple[str, str]:
    """The descriptions of both ends; empty where nothing divides them."""
    match = _PAIR.match(text)
    return (match[1] or match[3] or "", match[2] or match[4] or "") if match else ("", "")


def _node(found: Discovery, kind: str, node: str, name: str) -> str:
    return found.node("S" if kind == "SW" else "H", node, 0, name, own=False, by_port=kind != "SW")
