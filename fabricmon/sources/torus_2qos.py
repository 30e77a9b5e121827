"""torus-2QoS.conf of OpenSM: the size of a torus or mesh in plain words, and the cables of its seed switches.

It says what the whole should be and names few switches, so it is good for comparing, not for placing ports.
"""

from __future__ import annotations

import re

from fabricmon.sources.error import SourceError
from fabricmon.sources.placement import Placement
from fabricmon.topology.graph import Graph
from fabricmon.topology.names import NodeNames, guid

_SIZE = re.compile(r"^\s*(torus|mesh)\s+(\d+)([mt]?)\s+(\d+)([mt]?)\s+(\d+)([mt]?)\b", re.IGNORECASE | re.MULTILINE)
_LINK = re.compile(r"^\s*([xyz][pm])_link\s+(0x[0-9a-f]{1,16})\s+(0x[0-9a-f]{1,16})\b", re.IGNORECASE)
_OTHER = re.compile(
    r"^\s*([xyz]_dateline|next_seed|portgroup_max_ports|port_order|max_changes|torus|mesh)\b", re.IGNORECASE
)


def sniff(head: str) -> bool:
    return bool(_SIZE.search(head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """SourceError where the size is missing. `stated["shape"]` is "torus 8x8x4"; open directions make it a mesh."""
    size = _SIZE.search(text)
    if size is None:
        raise SourceError(path, "", "holds no line `torus X Y Z` or `mesh X Y Z`")
    found = Placement()
    for number, line in enumerate(text.splitlines(), 1):
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
