"""Neighbours of hosts by LLDP: `lldpctl -f json` (docs/methods.md#lldp).

The text does not contain its host: either the file is named after it (`node-01.json`), or one object wraps many hosts,
`{"node-01": {"lldp": ...}, "node-02": ...}`, also one such object a line. It has a host's first hop only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fabricmon.sources.formats.document import SourceError, load_json
from fabricmon.sources.formats.ports import is_plain, port_number
from fabricmon.topology.graph import Adapter, Cable, End, Finding, Graph, Switch, cable
from fabricmon.topology.names import NodeNames

_MAC = re.compile(r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$", re.IGNORECASE)
_BRIDGES = frozenset({"Bridge", "Router"})


def sniff(head: str) -> bool:
    return head.lstrip().startswith("{") and '"lldp"' in head


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """The graph of one or many hosts. SourceError where the text has no output of lldpctl."""
    reader = _LldpReader()
    for host, answer in _answers(text, path):
        reader.host(host, answer)
    return reader.graph()


def _answers(text: str, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(host, its output of lldpctl)."""
    lines = [line for line in text.splitlines() if line.strip()]
    each = len(lines) > 1 and all(line.startswith("{") and line.rstrip().endswith("}") for line in lines)
    for at, data in enumerate(load_json(line, path) for line in lines) if each else [(0, load_json(text, path))]:
        where = f"line {at + 1}" if each else ""
        if not isinstance(data, dict):
            raise SourceError(path, where, "expected an object")
        wrapped = {"": data} if "lldp" in data else data
        for host, answer in wrapped.items():
            if not isinstance(answer, dict) or not isinstance(answer.get("lldp"), dict):
                raise SourceError(path, f"{where} {host}".strip(), "expected the output of `lldpctl -f json`")
            yield host or _stem(path), answer["lldp"]


def _stem(path: str) -> str:
    """"/run/lldp/node-01.json" -> "node-01"; "lldpctl-node-01.json.gz" too."""
    name = path.rsplit("/", 1)[-1]
    return re.sub(r"^lldp(ctl|cli|d)?[-_.]", "", re.sub(r"(\.json)?(\.gz)?$", "", name)) or name


class _LldpReader:
    def __init__(self) -> None:
        self.switches: dict[str, Switch] = {}
        self.adapters: dict[str, Adapter] = {}
        self.hosts: dict[str, dict[str, str]] = {}
        self.cables: list[Cable] = []
        self.used: set[End] = set()
        self.unread: list[str] = []

    def host(self, host: str, lldp: dict[str, Any]) -> None:
        self.hosts.setdefault(host, {})
        listed = lldp.get("interface", [])
        for entry in listed if isinstance(listed, list) else [listed]:
            for interface, neighbour in entry.items() if isinstance(entry, dict) else ():
                if not self.neighbour(host, interface, neighbour):
                    self.unread.append(f"{host}/{interface}")

    def neighbour(self, host: str, interface: str, entry: object) -> bool:
        """Add the cable of an interface; False where its far end is unknown or in use."""
        chassis, port = (entry.get("chassis"), entry.get("port")) if isinstance(entry, dict) else (None, None)
        if not isinstance(chassis, dict) or not isinstance(port, dict):
            return False
        if "id" in chassis:  # a neighbour without a name
            name, fields = "", chassis
        else:
            name, fields = next(((n, f) for n, f in chassis.items() if isinstance(f, dict)), ("", {}))
        key = _value(fields.get("id")) or name
        text = _port_name(port)
        if not key or not text or not _is_switch(fields):
            return False
        key = key.lower() if _MAC.match(key) else key
        number = port_number(text)
        switch = self.switches.setdefault(key, Switch(key, name or key))
        if not is_plain(text):
            switch.labels[f"port/{number}"] = text
        adapter = Adapter(f"{host}/{interface}", host, interface)
        near, far = End(adapter.id, 1), End(key, number)
        if near in self.used or far in self.used:
            return False
        self.adapters[adapter.id] = adapter
        self.used |= {near, far}
        self.cables.append(cable(near, far))
        return True

    def graph(self) -> Graph:
        findings: tuple[Finding, ...] = ()
        if self.unread:
            why = f"{len(self.unread)} interfaces whose neighbour sends no chassis and port, or a port in use"
            findings = (Finding("unread_line", tuple(self.unread[:64]), why),)
        view = {"view": "hosts"}
        return Graph(self.switches, self.adapters, tuple(self.cables), self.hosts, findings=findings, stated=view)


def _is_switch(chassis: dict[str, Any]) -> bool:
    """False for a neighbour with capabilities that is neither bridge nor router: another host or a BMC."""
    listed = chassis.get("capability")
    entries = [one for one in (listed if isinstance(listed, list) else [listed]) if isinstance(one, dict)]
    return not entries or any(str(one.get("type")) in _BRIDGES for one in entries)


def _value(id: object) -> str:
    """The value of an id; lldpd writes one as an object, several as a list."""
    one = id[0] if isinstance(id, list) and id else id
    value = one.get("value") if isinstance(one, dict) else one
    return value.strip() if isinstance(value, str) else ""


def _port_name(port: dict[str, Any]) -> str:
    """Some switches send a MAC address as id and the name as description."""
    id, text = _value(port.get("id")), _value(port.get("descr"))
    return text if text and (not id or _MAC.match(id)) else id
