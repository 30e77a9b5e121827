"""Files that look like a topology and are not read, each with the file to give instead. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple


class KnownFile(NamedTuple):
    """`sign`: a pattern of the beginning of the file; `text`: what it is and what to give instead."""

    sign: re.Pattern[str]
    text: str


_NETQ = re.compile(r'"compounded_(?:links|nodes)"')
_LST = re.compile(r"^\{\s*(?:CA|SW|RT)\s+Ports:", re.MULTILINE)
_TOPO = re.compile(r"^(?:(?!#)\S+)\s+\S+\s*(?:#.*)?\n(?:\s+P\d+\s+-(?:\S+)?-?>\s+\S+)", re.MULTILINE)
_PAIRS = re.compile(r"^[SH]-[0-9a-fA-F]{16}\b", re.MULTILINE)

INSTEAD = "give the output of `ibnetdiscover`, or `ibdiagnet2.db_csv`"

KNOWN_FILES = (
    KnownFile(_NETQ, "a topology graph of NetQ (JSON), which does not name RDMA devices; give the output of "
                     "`lldpctl -f json` of the hosts instead"),
    KnownFile(_LST, f"the list of links (.lst) of ibdiagnet; {INSTEAD} of the same run"),
    KnownFile(_TOPO, f"a topology file (.topo) of ibdm, which has names but no GUIDs; {INSTEAD}"),
    KnownFile(_PAIRS, f"a node name map or a list of GUIDs, without links; {INSTEAD}, with this file as node name map"),
)  # fmt: skip
"""Tested in this order."""


def reason(head: str, path: str) -> str:
    """What a file is that is not read, and what to give instead; "" where it is not known either."""
    for known in KNOWN_FILES:
        if known.sign.search(head):
            return known.text
    if path.endswith((".lst", ".topo")):
        return f"a file of ibdiagnet or ibdm by its name, not readable as a topology; {INSTEAD}"
    return ""
