"""Builds a fabric node by node: names, GUIDs and the next free port of each. Pure."""

from __future__ import annotations

from collections import Counter

from fabricmon.topology.graph import Adapter, Cable, End, Graph, Switch, cable
from fabricmon.topology.infer import annotate

GBPS = 1e9 / 8
RATE = 400 * GBPS
"""Bytes per second of a link by default."""

_SWITCH_GUID = 0x00AA_0000_0000_0000
_ADAPTER_GUID = 0x00BB_0000_0000_0000


class Lay:
    """The same calls always give the same names, GUIDs and ports."""

    def __init__(self, rate: float = RATE) -> None:
        self._rate = rate
        self._switches: dict[str, Switch] = {}
        self._adapters: dict[str, Adapter] = {}
        self._hosts: dict[str, dict[str, str]] = {}
        self._cables: list[Cable] = []
        self._ports: Counter[str] = Counter()

    def switch(self, name: str, model: str = "", **labels: str) -> str:
        """Add a switch; returns its id."""
        key = f"0x{_SWITCH_GUID + len(self._switches) + 1:016x}"
        self._switches[key] = Switch(key, name, model=model, ports=64, labels=labels)
        return key

    def host(self, name: str, **labels: str) -> str:
        self._hosts[name] = labels
        return name

    def adapter(self, host: str, device: str, ports: int = 1) -> str:
        key = f"0x{_ADAPTER_GUID + 0x10 * (len(self._adapters) + 1):016x}"
        labels = {"node_guid": key, "port_guid": key, "sys_image_guid": key}
        self._adapters[key] = Adapter(key, host, device, f"{host} {device}", ports, labels)
        return key

    def gpu(self, host: str, number: int, links: int) -> str:
        key = f"{host}/gpu{number}"
        self._adapters[key] = Adapter(key, host, f"gpu{number}", ports=links, labels={"class": "gpu"})
        return key

    def cable(self, one: str, other: str, times: int = 1, rate: float | None = None, width: int = 4) -> None:
        """Join the next free ports of both."""
        for _ in range(times):
            ends = []
            for node in (one, other):
                self._ports[node] += 1
                ends.append(End(node, self._ports[node]))
            self._cables.append(cable(ends[0], ends[1], self._rate if rate is None else rate, width))

    def graph(self) -> Graph:
        """The annotated graph."""
        return annotate(Graph(self._switches, self._adapters, tuple(self._cables), self._hosts, source="simulated"))


def numbered(word: str, count: int) -> list[str]:
    """numbered("host", 64) -> host-000 ... host-063: at least three digits, so that names sort as they count."""
    width = max(3, len(str(max(count - 1, 0))))
    return [f"{word}-{number:0{width}d}" for number in range(count)]


def positive(**sizes: int) -> None:
    """ValueError for a size below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"a fabric has at least one of {name}, got {size}")
