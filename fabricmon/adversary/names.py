"""Reads names in incidents: which parts of the fabric a component or a bad member is. Pure.

A part is a letter and a number: "p12" port, "h3" host, "g5" GPU, "c7" cable between switches.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from fabricmon.adversary.fabrics import Fabric
from fabricmon.adversary.scene import Transit

_WORD = re.compile(r"^(\w+)\((.*)\)$", re.DOTALL)


def split(component: str) -> tuple[str, str]:
    """("link", "a, b") of "link(a, b)"; ("", the text) where it has no word."""
    match = _WORD.match(component)
    return (match[1], match[2]) if match else ("", component)


class PartNames:
    """PartNames of one fabric's parts, as agents and maps write them."""

    def __init__(self, fabric: Fabric, transit: Transit) -> None:
        layout, graph = fabric.layout, fabric.layout.graph
        self._host_of = layout.host_of
        self._parts: dict[str, set[str]] = defaultdict(set)
        self._groups: dict[str, set[str]] = defaultdict(set)
        for row in range(layout.ports):
            part = {f"p{row}"}
            for name in (layout.port_name(row), layout.nic_name(row), *layout.link_name(row).split(", ")):
                self._parts[name] |= part
            if layout.leaf[row] >= 0:
                self._groups[f"leaf({layout.leaf_name(int(layout.leaf[row]))})"] |= part
            labels = graph.switches[layout.switches[layout.leaf[row]]].labels if layout.leaf[row] >= 0 else {}
            if {"unit", "rail"} <= labels.keys():
                self._groups[f"rail({labels['unit']}/{labels['rail']})"] |= part
        for host, name in enumerate(layout.hosts):
            self._parts[name] = {f"h{host}"}
            self._groups[f"host({name})"] = {f"p{row}" for row in layout.host_rows(host).tolist()}
            self._groups[f"power({graph.hosts[name].get('power', '')})"].add(f"h{host}")
        for gpu in range(layout.gpus):
            name = f"{layout.hosts[layout.gpu_host[gpu]]}/{layout.gpu_names[gpu]}"
            self._parts[name].add(f"g{gpu}")
        for number, at in enumerate(transit.cables):
            cable = graph.cables[at]
            for end in (cable.a, cable.b):
                self._parts[graph.describe(end)].add(f"c{number}")

    def parts(self, texts: Iterable[str]) -> set[str]:
        """The parts that some names stand for; names that are not known stand for none."""
        found: set[str] = set()
        for text in texts:
            _, inner = split(text)
            for one in inner.partition(">")[0].split(", "):  # of a flow, its sender
                found |= self._parts.get(one, set()) or self._parts.get("/".join(one.split("/")[:2]), set())
        return found

    def group(self, component: str) -> set[str]:
        """Members of a leaf, rail, host or power domain by its name; none for another component."""
        return self._groups.get(component, set())

    def as_hosts(self, parts: Iterable[str]) -> set[str]:
        """The hosts of ports, and hosts."""
        return {part if part[0] == "h" else f"h{self._host_of[int(part[1:])]}" for part in parts if part[0] in "hp"}

    def as_ports(self, parts: Iterable[str], hosts: dict[str, set[str]]) -> set[str]:
        """Parts, with hosts replaced by their ports."""
        return {port for part in parts for port in (hosts.get(part, set()) if part[0] == "h" else {part})}

    def ports_of_hosts(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for row, host in enumerate(self._host_of.tolist()):
            found[f"h{host}"].add(f"p{row}")
        return found
