"""Slurm's topology.yaml: several named topologies of a cluster in one file (docs/methods.md#scheduler-topology).

All become one placement of the same hosts: `tree` gives switches, `block` labels, `torus3d` and `ring` places; `flat`
nothing.
"""

from __future__ import annotations

import re
from typing import Any

from fabricmon.sources.formats import torus
from fabricmon.sources.formats.document import Document, SourceError
from fabricmon.sources.formats.placement import Placement
from fabricmon.topology.graph import Graph
from fabricmon.topology.names import NodeNames

_TOP = re.compile(r"^[ \t]*-[ \t]*\{?[ \t]*[\"']?topology[\"']?[ \t]*:", re.MULTILINE)
_KINDS = ("tree", "block", "torus3d", "ring", "flat")


def sniff(head: str) -> bool:
    return bool(_TOP.search(head))


def parse(data: Any, path: str, names: NodeNames) -> Graph:
    """The graph of a file. SourceError with the place: `topology.yaml: topologies[0].tree.switches[2].nodes: ...`."""
    if not isinstance(data, list):
        raise SourceError(path, "", "expected a list of topologies")
    reader = _SlurmReader(path)
    for at, entry in enumerate(data):
        reader.topology(entry, f"topologies[{at}]")
    return reader.graph()


class _SlurmReader(Document):
    """Reads one file: keeps the path for errors and the placement so far."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.found = Placement()
        self.flat = False

    def topology(self, entry: object, where: str) -> None:
        fields = self.mapping(entry, where)
        kinds = [kind for kind in _KINDS if fields.get(kind)]
        if len(kinds) != 1:
            raise self.wrong(where, f"expected one of {', '.join(_KINDS)}, found {', '.join(kinds) or 'none'}")
        (kind,) = kinds
        if kind == "flat":
            self.flat = True
            return
        inner = self.mapping(fields[kind], f"{where}.{kind}")
        getattr(self, kind)(inner, f"{where}.{kind}")

    def tree(self, fields: dict[str, Any], where: str) -> None:
        for name, each, at in self.entries(fields, "switches", where, "switch"):
            self.found.define(name, self.names(each, "nodes", at), self.names(each, "children", at), at)

    def block(self, fields: dict[str, Any], where: str) -> None:
        for name, each, at in self.entries(fields, "blocks", where, "block"):
            for host in self.names(each, "nodes", at):
                self.found.host(host, block=name)
        sizes = fields.get("block_sizes") or []
        if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
            raise self.wrong(f"{where}.block_sizes", f"expected a list of whole numbers, got {sizes!r}")
        if sizes:
            self.found.stated["block_sizes"] = ",".join(map(str, sizes))

    def torus3d(self, fields: dict[str, Any], where: str) -> None:
        for name, each, at in self.entries(fields, "toruses", where, "torus"):
            dims = self.mapping(each.get("dims"), f"{at}.dims")
            sizes = [dims.get(axis) for axis in "xyz"]
            if not all(isinstance(size, int) for size in sizes):
                raise self.wrong(f"{at}.dims", f"expected whole numbers x, y and z, got {dims!r}")
            self.lay(name, [int(size) for size in sizes if size is not None], self.names(each, "nodes", at), at)
            self.found.stated.setdefault("shape", f"torus {'x'.join(map(str, sizes))}")

    def ring(self, fields: dict[str, Any], where: str) -> None:
        for name, each, at in self.entries(fields, "rings", where, "ring"):
            hosts = self.names(each, "nodes", at)
            self.lay(name, [len(hosts)], hosts, at)
            self.found.stated.setdefault("shape", f"ring {len(hosts)}")

    def lay(self, name: str, dims: list[int], hosts: list[str], where: str) -> None:
        try:
            torus.lay(self.found, name, dims, hosts)
        except ValueError as error:
            raise self.wrong(where, str(error)) from error

    def graph(self) -> Graph:
        if not len(self.found) and not self.flat:
            raise self.wrong("", "has neither switches nor hosts")
        if self.flat:
            self.found.stated.setdefault("shape", "flat")
        return self.found.graph()

    def entries(
        self, fields: dict[str, Any], section: str, where: str, key: str
    ) -> list[tuple[str, dict[str, Any], str]]:
        """(name, entry, place) of a list of named things; their name is under `key` or "name"."""
        done = []
        for at, each in enumerate(self.sequence(fields.get(section) or [], f"{where}.{section}")):
            place = f"{where}.{section}[{at}]"
            entry = self.mapping(each, place)
            name = entry.get(key, entry.get("name"))
            if not isinstance(name, str | int) or isinstance(name, bool):
                raise self.wrong(place, f"has no name under {key!r}")
            done.append((str(name), entry, place))
        return done

    def names(self, entry: dict[str, Any], key: str, where: str) -> list[str]:
        value = entry.get(key)
        return [] if value is None else self.host_names(value, f"{where}.{key}")
