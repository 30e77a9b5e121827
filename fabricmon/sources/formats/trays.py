"""Compute trays of NVLink domains as the NMX controller lists them: chassis and tray of each host.

Its domain UUID is not the clusterUUID of NVML (docs/methods.md#nvlink-domains), so it has another label.
"""

from __future__ import annotations

import re

from fabricmon.sources.formats.document import SourceError, load_json
from fabricmon.sources.formats.placement import Placement
from fabricmon.topology.graph import Graph
from fabricmon.topology.names import NodeNames

_PLACES = {"ChassisSerialNumber": "chassis", "SlotID": "slot", "TrayIndex": "tray"}


def sniff(head: str) -> bool:
    return bool(re.match(r"\s*\[\s*\{", head)) and '"DomainUUID"' in head


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of a list. SourceError where it has no tray with a name; entries without one are left out and make a
    finding."""
    data = load_json(text, path)
    if not isinstance(data, list):
        raise SourceError(path, "", "expected a list of compute trays")
    found = Placement()
    for at, entry in enumerate(data):
        name = entry.get("Name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            found.odd("unread_line", f"[{at}]: no compute tray with a name")
            continue
        found.host(name)
        known = found.hosts[name]
        if isinstance(domain := entry.get("DomainUUID"), str) and domain:
            known["nmx_domain"] = domain
        where = entry.get("LocationInfo")
        for key, label in _PLACES.items():
            value = where.get(key) if isinstance(where, dict) else None
            if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
                known[label] = str(value)
        if isinstance(gpus := entry.get("GpuIDList"), list):
            known["gpus"] = str(len(gpus))
    if not found.hosts:
        raise SourceError(path, "", "has no compute tray with a name")
    return found.graph()
