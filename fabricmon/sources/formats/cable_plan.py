"""fabricmon's cable plan in YAML: the intended cabling, for fabrics without discovery (docs/topology.md).

    fabric: alpha
    switches:
      leaf-[0-7]: {unit: su0, rail: "[0-7]", model: MQM9790}
      spine-[1-4]: {level: 1}
    hosts:
      node-[001-032]: {adapters: [mlx5_0, mlx5_1], rack: r1}
    links:
      - {from: "node-[001-032]/mlx5_0", to: "leaf-0/[1-32]", rate: 400Gb/s}
      - {from: "leaf-0/[33-36]", to: "spine-[1-4]/1", rate: 400Gb/s}
    power:
      pdu-1: ["node-[001-016]"]
    racks:
      r2: ["node-[017-032]"]

`[001-032]` and `[a,b,c]` are lists; both ends of a link expand side by side, a single one is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Required, TypedDict

from fabricmon.sources.formats.document import Document
from fabricmon.sources.formats.ports import PORT_DIGITS, is_plain, port_number
from fabricmon.topology.graph import Adapter, Cable, End, Graph, Switch, cable
from fabricmon.topology.hostlist import MOST_OF_A_PLAN
from fabricmon.topology.names import NodeNames, guid
from fabricmon.units import Rate

_TOP = re.compile(r"^(fabric|switches|hosts|links|power|racks)\s*:", re.MULTILINE)


class PlannedSwitch(TypedDict, total=False):
    """A switch; the name may have ranges.

    guid   of InfiniBand: 0x00aa000000000001
    level  0: a leaf, else the distance to the nearest leaf
    ports  number of its ports
    """

    guid: str | int
    level: int
    model: str | int
    ports: int
    unit: str | int
    rail: str | int
    plane: str | int
    rack: str | int
    power: str | int


class PlannedHost(TypedDict, total=False):
    """A host; the name may have ranges.

    adapters  its devices, named as its kernel names them: [mlx5_0, mlx5_1]; or device -> GUID
    """

    adapters: list[str | int] | dict[str, str | int | None] | str | None
    unit: str | int
    rack: str | int
    power: str | int


# `from` is no name in Python
PlannedLink = TypedDict(
    "PlannedLink", {"from": Required[str], "to": Required[str], "rate": str | None, "width": int}, total=False
)


class CablePlan(TypedDict, total=False):
    """The intended cabling of a fabric (docs/topology.md).

    fabric    name of the fabric
    switches  switches by name, with ranges: leaf-[0-7]
    hosts     hosts by name, with ranges: node-[001-032]
    links     cables: both ends, written NODE/PORT, expand side by side
    power     power domain -> hosts
    racks     rack -> hosts
    """

    fabric: str
    switches: dict[str, PlannedSwitch | None] | None
    hosts: dict[str, PlannedHost | None] | None
    links: list[PlannedLink] | None
    power: dict[str, list[str | int]] | None
    racks: dict[str, list[str | int]] | None


_SWITCH_KEYS = frozenset(PlannedSwitch.__annotations__)
_HOST_KEYS = frozenset(PlannedHost.__annotations__)
_LINK_KEYS = frozenset(PlannedLink.__annotations__)
_SECTIONS = frozenset(CablePlan.__annotations__)


def sniff(head: str) -> bool:
    return bool(_TOP.search(head)) and not head.lstrip().startswith("{")


def parse(data: Any, path: str, names: NodeNames) -> Graph:
    """The graph of a plan. SourceError names the file and the place: `plan.yaml: links[3].to: no switch "leaf-9"`."""
    return _CablePlan(path).graph(data)


class _CablePlan(Document):
    """Reads one file: keeps the path for errors and the declarations so far."""

    def __init__(self, path: str) -> None:
        super().__init__(path, MOST_OF_A_PLAN)
        self.switches: dict[str, Switch] = {}
        self.adapters: dict[str, Adapter] = {}
        self.hosts: dict[str, dict[str, str]] = {}
        self.by_name: dict[str, str] = {}
        self.used: dict[End, str] = {}

    def graph(self, data: object) -> Graph:
        top = self.fields(data, "", _SECTIONS)
        fabric = top.get("fabric", "")
        if not isinstance(fabric, str):
            raise self.wrong("fabric", f"expected a name, got {fabric!r}")
        for name, where, fields in self.entries(top, "switches", _SWITCH_KEYS):
            self.switch(name, where, fields)
        for name, where, fields in self.entries(top, "hosts", _HOST_KEYS):
            self.host(name, where, fields)
        cables = list(self.links(top.get("links") or []))
        for section, label in (("power", "power"), ("racks", "rack")):
            self.groups(top.get(section) or {}, section, label)
        if not self.switches and not self.hosts:
            raise self.wrong("", "has neither switches nor hosts")
        return Graph(self.switches, self.adapters, tuple(cables), self.hosts)

    def fields(self, data: object, where: str, keys: frozenset[str] | None) -> dict[str, Any]:
        """A mapping with these keys at most, any for None; empty for null."""
        found = {} if data is None else self.mapping(data, where)
        for key in found:
            if not isinstance(key, str):
                raise self.wrong(where, f"expected a name as key, got {key!r}")
            if keys is not None and key not in keys:
                raise self.wrong(f"{where}.{key}".lstrip("."), f"unknown key; known are {', '.join(sorted(keys))}")
        return found

    def names(self, pattern: object, where: str) -> list[str]:
        if not isinstance(pattern, str | int) or isinstance(pattern, bool):
            raise self.wrong(where, f"expected a name, got {pattern!r}")
        try:
            return self.expansion.expand(str(pattern))
        except ValueError as error:
            raise self.wrong(where, str(error)) from error

    def entries(
        self, top: Mapping[str, Any], section: str, keys: frozenset[str]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Every entry of a section with its ranges expanded: fields whose text has as many values get one each."""
        for pattern, fields in self.fields(top.get(section), section, None).items():
            where = f"{section}.{pattern}"
            names = self.names(pattern, where)
            given = self.fields(fields, where, keys)
            spread = {key: self.spread(value, len(names), f"{where}.{key}") for key, value in given.items()}
            for at, name in enumerate(names):
                yield name, where, {key: values[at] for key, values in spread.items()}

    def spread(self, text: object, count: int, where: str) -> list[Any]:
        if not isinstance(text, str):
            return [text] * count
        values = self.names(text, where)
        if len(values) not in (1, count):
            raise self.wrong(where, f"has {len(values)} values, its entry {count} names")
        return values * count if len(values) == 1 else values

    def claim(self, name: str, node: str, where: str) -> None:
        if name in self.by_name:
            raise self.wrong(where, f"{name!r} is declared twice")
        self.by_name[name] = node

    def guid(self, value: object, where: str) -> str:
        text = f"{value:x}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        digits = text.lower().removeprefix("0x").replace(":", "")
        if not re.fullmatch(r"[0-9a-f]{1,16}", digits):
            raise self.wrong(where, f"expected a GUID such as 0x00aa000000000001, got {value!r}")
        return guid(digits)

    def number(self, value: object, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(where, f"expected a whole number, got {value!r}")
        return value

    def labels(self, fields: Mapping[str, Any], where: str) -> dict[str, str]:
        found = {}
        for key in ("unit", "rail", "plane", "rack", "power"):
            if key in fields:
                if not isinstance(fields[key], str | int):
                    raise self.wrong(f"{where}.{key}", f"expected a word, got {fields[key]!r}")
                found[key] = str(fields[key])
        return found

    def switch(self, name: str, where: str, fields: Mapping[str, Any]) -> None:
        node = self.guid(fields["guid"], f"{where}.guid") if "guid" in fields else name
        self.claim(name, node, where)
        if node in self.switches:
            raise self.wrong(f"{where}.guid", f"{node} belongs to {self.switches[node].name!r} already")
        self.switches[node] = Switch(
            node,
            name,
            self.number(fields["level"], f"{where}.level") if "level" in fields else -1,
            str(fields.get("model", "")),
            self.number(fields.get("ports", 0), f"{where}.ports"),
            self.labels(fields, where),
        )

    def host(self, name: str, where: str, fields: Mapping[str, Any]) -> None:
        if name in self.hosts or name in self.by_name:
            raise self.wrong(where, f"{name!r} is declared twice")
        self.hosts[name] = self.labels(fields, where)
        listed = fields.get("adapters") or {}
        at = f"{where}.adapters"
        if isinstance(listed, list):
            listed = dict.fromkeys(device for text in listed for device in self.names(text, at))
        elif isinstance(listed, str):
            listed = dict.fromkeys(self.names(listed, at))
        for device, value in self.fields(listed, at, None).items():
            node = f"{name}/{device}" if value is None else self.guid(value, f"{at}.{device}")
            self.adapter(name, device, node, f"{at}.{device}")

    def adapter(self, host: str, device: str, node: str, where: str) -> None:
        self.claim(f"{host}/{device}", node, where)
        if node in self.adapters:
            raise self.wrong(where, f"{node} belongs to {self.adapters[node].host!r} already")
        labels = {"node_guid": node} if node.startswith("0x") else {}
        self.adapters[node] = Adapter(node, host, device, labels=labels)

    def links(self, listed: object) -> Iterator[Cable]:
        for at, entry in enumerate(self.sequence(listed, "links")):
            where = f"links[{at}]"
            fields = self.fields(entry, where, _LINK_KEYS)
            ends = []
            for key in ("from", "to"):
                if key not in fields:
                    raise self.wrong(where, f"has no {key!r}")
                ends.append(self.names(fields[key], f"{where}.{key}"))
            count = max(map(len, ends))
            if any(len(end) not in (1, count) for end in ends):
                raise self.wrong(where, f"{len(ends[0])} ends on one side, {len(ends[1])} on the other")
            rate = self.rate(fields.get("rate"), f"{where}.rate")
            width = self.number(fields.get("width", 0), f"{where}.width")
            first, second = (end * count if len(end) == 1 else end for end in ends)
            for one, other in zip(first, second, strict=True):
                a, b = self.end(one, f"{where}.from"), self.end(other, f"{where}.to")
                yield cable(a, b, rate, width)

    def rate(self, value: object, where: str) -> float:
        try:
            return 0.0 if value is None else float(Rate.parse(value))
        except ValueError as error:
            raise self.wrong(where, str(error)) from error

    def end(self, text: str, where: str) -> End:
        """"leaf-1/12", "tor-1/swp12s0", "node-001/mlx5_0/1" or, of a one-port adapter, "node-001/mlx5_0"."""
        end = self.switch_port(text) or self.adapter_port(text, where)
        if end in self.used:
            raise self.wrong(where, f"{text!r} is plugged in twice, first by {self.used[end]}")
        self.used[end] = where
        return end

    def switch_port(self, text: str) -> End | None:
        """The longest declared name of a switch is the switch, the rest its port."""
        name, _, port = text.rpartition("/")
        while name:
            switch = self.switches.get(self.by_name.get(name, ""))
            if switch is not None and port:
                number = port_number(port)
                if not is_plain(port):
                    switch.labels[f"port/{number}"] = port
                return End(switch.id, number)
            name, _, more = name.rpartition("/")
            port = f"{more}/{port}"
        return None

    def adapter_port(self, text: str, where: str) -> End:
        name, port = text, 1
        if name not in self.by_name:
            head, _, tail = text.rpartition("/")
            if tail.isdecimal() and len(tail) <= PORT_DIGITS:
                name, port = head, int(tail)
        if name not in self.by_name:
            host, _, device = name.rpartition("/")
            if host not in self.hosts:
                raise self.wrong(where, f"{text!r} is neither a port of a declared switch nor of a declared host")
            self.adapter(host, device, f"{host}/{device}", where)
        return End(self.by_name[name], port)

    def groups(self, data: object, section: str, label: str) -> None:
        for group, listed in self.fields(data, section, None).items():
            where = f"{section}.{group}"
            if not isinstance(listed, list):
                raise self.wrong(where, "expected a list of hosts and switches")
            for at, pattern in enumerate(listed):
                for name in self.names(pattern, f"{where}[{at}]"):
                    labels = self.hosts.get(name)
                    if labels is None and name in self.by_name and self.by_name[name] in self.switches:
                        labels = self.switches[self.by_name[name]].labels
                    if labels is None:
                        raise self.wrong(f"{where}[{at}]", f"{name!r} is neither a declared host nor a switch")
                    if labels.setdefault(label, group) != group:
                        raise self.wrong(f"{where}[{at}]", f"{name!r} is in {labels[label]!r} already")
