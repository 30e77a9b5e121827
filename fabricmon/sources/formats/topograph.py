"""A cluster model of topograph in YAML: a tree of switches and blocks of nodes below its leaves."""

from __future__ import annotations

import re
from typing import Any

from fabricmon.sources.formats.document import Document
from fabricmon.sources.formats.placement import Placement
from fabricmon.topology.graph import Graph
from fabricmon.topology.names import NodeNames

_TOP = re.compile(r"^(blocks|nodes|capacity_blocks)\s*:", re.MULTILINE)
_REGION = re.compile(r"^topology\.kubernetes\.io/(region|zone)$")
_DOMAIN = re.compile(r"(^|/)(accelerator|domain)$")


def sniff(head: str) -> bool:
    return bool(_TOP.search(head))


def parse(data: Any, path: str, names: NodeNames) -> Graph:
    """The graph of a model. SourceError with the place of an invalid value."""
    found, doc = Placement(), Document(path)
    switches = doc.mapping(doc.mapping(data, "").get("switches") or {}, "switches")
    parents: dict[str, str] = {}
    places: dict[str, dict[str, str]] = {}
    for name, fields in switches.items():
        entry = doc.mapping(fields or {}, f"switches.{name}")
        found.switch(str(name))
        labels = doc.mapping(entry.get("labels") or {}, f"switches.{name}.labels")
        places[str(name)] = {match[1]: str(v) for key, v in labels.items() if (match := _REGION.match(str(key)))}
        for child in doc.sequence(entry.get("switches") or [], f"switches.{name}.switches"):
            found.switch(str(child))
            found.join(str(name), str(child))
            parents.setdefault(str(child), str(name))
    for at, block in enumerate(doc.sequence(data.get("blocks") or data.get("capacity_blocks") or [], "blocks")):
        where = f"blocks[{at}]"
        entry = doc.mapping(block, where)
        labels = {
            **doc.mapping(entry.get("labels") or {}, f"{where}.labels"),
            **doc.mapping(entry.get("annotations") or {}, f"{where}.annotations"),
        }
        domains = [str(value) for key, value in labels.items() if _DOMAIN.search(str(key))]
        for name in doc.host_names(doc.sequence(entry.get("nodes") or [], f"{where}.nodes"), f"{where}.nodes"):
            found.host(name, **_around(str(entry.get("switch", "")), parents, places))
            if domains:
                found.host(name, nvlink=domains[0])
            if "switch" in entry:
                found.switch(str(entry["switch"]), "", 0)
                found.attach(name, str(entry["switch"]))
    if not len(found):
        raise doc.wrong("", "has neither switches nor nodes")
    return found.graph()


def _around(switch: str, parents: dict[str, str], places: dict[str, dict[str, str]]) -> dict[str, str]:
    """Region and zone of the switches above; a loop of parents is followed once."""
    found: dict[str, str] = {}
    done: set[str] = set()
    while switch and switch not in done:
        done.add(switch)
        found = {**places.get(switch, {}), **found}
        switch = parents.get(switch, "")
    return found
