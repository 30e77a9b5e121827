"""Slurm's topology.conf: tree (`SwitchName=`) and block (`BlockName=`) lines (docs/methods.md#scheduler-topology).

Where the names of switches are generated, comments have the true ones, `# switch.1.1=leaf-1`. The switches of a mesh
name each other as children: they are neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fabricmon.sources.formats.document import SourceError, lines
from fabricmon.sources.formats.placement import Placement
from fabricmon.topology.graph import Graph
from fabricmon.topology.hostlist import MOST_OF_A_PLACEMENT, Expansion
from fabricmon.topology.names import NodeNames

_START = re.compile(r"^[ \t]*(SwitchName|BlockName|BlockSizes)\s*=", re.IGNORECASE | re.MULTILINE)
_FIELD = re.compile(r"\b([A-Za-z]\w*)\s*=\s*(\S+)")
_TRUE_NAME = re.compile(r"^\s*#\s*([^\s=#]+)\s*=\s*(\S+)\s*$")
MOST_LINE = 1 << 20
"""Characters of a line: one may list 65,536 hosts one by one."""

_KNOWN = frozenset({"switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes"})


def sniff(head: str) -> bool:
    return bool(_START.search(head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a file. SourceError where it has no switch and no block; invalid lines are left out and make a
    finding."""
    found = Placement()
    true = {match[1]: match[2] for _, line in lines(text, path, MOST_LINE) if (match := _TRUE_NAME.match(line))}
    sizes: list[str] = []
    expansion = Expansion(MOST_OF_A_PLACEMENT)
    for number, line in _lines(text, path):
        fields = {key.lower(): value for key, value in _FIELD.findall(line)}
        kinds = fields.keys() & {"switchname", "blockname", "blocksizes"}
        if len(kinds) != 1 or not fields.keys() <= _KNOWN:
            found.odd("unread_line", f"line {number}: {line[:80]}")
            continue
        try:
            _enter(found, fields, f"line {number}", true, expansion)
        except ValueError as error:
            found.odd("unread_line", f"line {number}: {error}")
            continue
        sizes += [size for size in fields.get("blocksizes", "").split(",") if size.isdecimal()]
    if not len(found):
        raise SourceError(path, "", "has no SwitchName or BlockName line")
    if sizes:
        found.stated["block_sizes"] = ",".join(sizes)
    return found.graph(true)


def _enter(
    found: Placement, fields: Mapping[str, str], where: str, true: Mapping[str, str], expansion: Expansion
) -> None:
    """Add one line. ValueError for an invalid host list. `true`: generated name -> true name of a switch."""
    members, below, switches, blocks = (
        expansion.hostlist(fields.get(key, "")) for key in ("nodes", "switches", "switchname", "blockname")
    )
    expansion.spend(len(switches) * (len(members) + len(below)) + len(blocks) * len(members))
    for name in switches:
        found.define(name, members, below, where, true.get(name, ""))
    for name in blocks:
        found.claim(name, where)
        for host in members:
            found.host(host, block=true.get(name, name))


def _lines(text: str, path: str) -> Iterator[tuple[int, str]]:
    """Lines joined at backslashes and without comments, with the number of the first line."""
    begun, kept = 0, ""
    for number, line in lines(text, path, MOST_LINE):
        bare = line.split("#", 1)[0].rstrip()
        begun = begun or number
        if bare.endswith("\\"):
            kept += bare[:-1] + " "
            continue
        kept += bare
        if kept.strip():
            yield begun, kept.strip()
        begun, kept = 0, ""
    if kept.strip():
        yield begun, kept.strip()
