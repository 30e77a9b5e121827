"""Slurm's topology.conf: tree (`SwitchName=`) and block (`BlockName=`) lines (topologies.md section 7).

The names of switches are often made up; generators then write the true one in a comment, `# switch.1.1=leaf-1`. The
lines of a file made from a mesh name each other as children: they are neighbours, nothing is walked downwards here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricmon.sources.error import SourceError
from fabricmon.sources.placement import Placement
from fabricmon.topology.graph import Graph
from fabricmon.topology.hostlist import hostlist
from fabricmon.topology.names import NodeNames

_START = re.compile(r"^\s*(SwitchName|BlockName|BlockSizes)\s*=", re.IGNORECASE | re.MULTILINE)
_FIELD = re.compile(r"([A-Za-z]\w*)\s*=\s*(\S+)")
_TRUE_NAME = re.compile(r"^\s*#\s*([^\s=#]+)\s*=\s*(\S+)\s*$")
_KNOWN = frozenset({"switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes"})


def sniff(head: str) -> bool:
    return bool(_START.search(head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """SourceError where the text has no switch and no block; a bad line costs itself and makes a finding."""
    found = Placement()
    true = {match[1]: match[2] for line in text.splitlines() if (match := _TRUE_NAME.match(line))}
    defined: set[str] = set()
    children: list[tuple[str, str]] = []
    sizes: list[str] = []
    for number, line in _lines(text):
        fields = {key.lower(): value for key, value in _FIELD.findall(line)}
        kinds = fields.keys() & {"switchname", "blockname", "blocksizes"}
        if len(kinds) != 1 or not fields.keys() <= _KNOWN:
            found.odd("unread_line", f"line {number}: {line[:80]}")
            continue
        try:
            members = hostlist(fields.get("nodes", ""))
            below = hostlist(fields.get("switches", ""))
            named = hostlist(fields.get("switchname") or fields.get("blockname") or "")
        except ValueError as error:
            found.odd("unread_line", f"line {number}: {error}")
            continue
        if "blocksizes" in fields:
            sizes += [size for size in fields["blocksizes"].split(",") if size.isdecimal()]
        for name in named:
            if name in defined:
                found.odd("conflicting_record", f"line {number}: {name} is defined twice")
            defined.add(name)
            if "blockname" in fields:
                for host in members:
                    found.host(host, block=true.get(name, name))
                continue
            found.switch(name, true.get(name, ""), 0 if members else -1)
            for host in members:
                found.attach(host, name)
            children += [(name, child) for child in below]
    if not len(found):
        raise SourceError(path, "", "holds no SwitchName or BlockName line")
    for name, child in children:
        if child not in defined:
            found.odd("undefined_switch", child)
            defined.add(child)
        found.switch(child, true.get(child, ""))
        found.join(name, child)
    if sizes:
        found.stated["block_sizes"] = ",".join(sizes)
    return found.graph()


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with what follows a backslash joined and comments cut; the number is that of the first line."""
    begun, kept = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
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
