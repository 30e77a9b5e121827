"""torus-2QoS.conf of OpenSM: the intended size of a torus or mesh, and the cables of its seed switches."""

from __future__ import annotations

import re

from fabricmon.sources.formats.document import SourceError, lines
from fabricmon.sources.formats.placement import Placement
from fabricmon.topology.graph import Graph
from fabricmon.topology.names import NodeNames, guid

_DIM = r"[ \t]+(\d{1,6})([mt]?)"
_SIZE = re.compile(rf"^[ \t]*(torus|mesh){_DIM}{_DIM}{_DIM}\b", re.IGNORECASE | re.MULTILINE)
_LINK = re.compile(r"^\s*([xyz][pm])_link\s+(0x[0-9a-f]{1,16})\s+(0x[0-9a-f]{1,16})\b", re.IGNORECASE)
_OTHER = re.compile(
    r"^\s*([xyz]_dateline|next_seed|portgroup_max_ports|port_order|max_changes|torus|mesh)\b", re.IGNORECASE
)


def sniff(head: str) -> bool:
    return bool(_SIZE.search(head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a file, with the stated shape "torus 8x8x4"; open directions make it a mesh. SourceError where the
    size is missing."""
    size = _SIZE.search(text)
    if size is None:
        raise SourceError(path, "", "has no line `torus X Y Z` or `mesh X Y Z`")
    found = Placement()
    for number, line in lines(text, path):
        bare = line.split("#", 1)[0]
        if match := _LINK.match(bare):
            one, other = guid(match[2]), guid(match[3])
            for switch in (one, other):
                found.switch(switch, names.get(switch, ""))
            found.join(one, other)
        elif bare.strip() and not _OTHER.match(bare):
            found.odd("unread_line", f"line {number}: {bare.strip()[:80]}")
    dims = [int(size[at]) for at in (2, 4, 6)]
    closed = {(size[at].lower() or size[1].lower()[0]) == "t" for at, dim in ((3, dims[0]), (5, dims[1]), (7, dims[2]))
              if dim > 1}
    kind = "torus" if closed <= {True} else "mesh" if closed == {False} else "half-open torus"
    found.stated["shape"] = f"{kind} {'x'.join(map(str, dims))}"
    return found.graph()
