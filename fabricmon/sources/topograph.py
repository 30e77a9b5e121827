"""A cluster model in YAML as topograph simulates it: a tree of switches and blocks of nodes below its leaves."""

from __future__ import annotations

import re
from typing import Any

from fabricmon.sources.error import SourceError
from fabricmon.sources.placement import Placement
from fabricmon.sources.text import load_yaml
from fabricmon.topology.graph import Graph
from fabricmon.topology.hostlist import hostlist
from fabricmon.topology.names import NodeNames

_TOP = re.compile(r"^(blocks|nodes|capacity_blocks)\s*:", re.MULTILINE)
_REGION = re.compile(r"^topology\.kubernetes\.io/(region|zone)$")
_DOMAIN = re.compile(r"(^|/)(accelerator|domain)$")


def sniff(head: str) -> bool:
    return bool(_TOP.search(head))


def parse(text: str, path: str, names: NodeNames) -> Graph:
    """SourceError with the place of what makes no sense."""
    data = load_yaml(text, path)
    found = Placement()
    switches = _mapping(_mapping(data, path, "").get("switches") or {}, path, "switches")
    parents: dict[str, str] = {}
    places: dict[str, dict[str, str]] = {}
    for name, fields in switches.items():
        entry = _mapping(fields or {}, path, f"switches.{name}")
        found.switch(str(name))
        labels = _mapping(entry.get("labels") or {}, path, f"switches.{name}.labels")
        places[str(name)] = {match[1]: str(v) for key, v in labels.items() if (match := _REGION.match(str(key)))}
        for child in _list(entry.get("switches") or [], path, f"switches.{name}.switches"):
            found.switch(str(child))
            found.join(str(name), str(child))
            parents.setdefault(str(child), str(name))
    for at, block in enumerate(_list(data.get("blocks") or data.get("capacity_blocks") or [], path, "blocks")):
        where = f"blocks[{at}]"
        entry = _mapping(block, path, where)
        said = {
            **_mapping(entry.get("labels") or {}, path, f"{where}.labels"),
            **_mapping(entry.get("annotations") or {}, path, f"{where}.annotations"),
        }
        domains = [str(value) for key, value in said.items() if _DOMAIN.search(str(key))]
        for name in _nodes(entry.get("nodes") or [], path, f"{where}.nodes"):
            found.host(name, **_around(str(entry.get("switch", "")), parents, places))
            if domains:
                found.host(name, nvlink=domains[0])
            if "switch" in entry:
                found.switch(str(entry["switch"]), "", 0)
                found.attach(name, str(entry["switch"]))
    if not len(found):
        raise SourceError(path, "", "names neither switches nor nodes")
    return found.graph()


def _around(switch: str, parents: dict[str, str], places: dict[str, dict[str, str]]) -> dict[str, str]:
    """Region and zone of the switches above; a switch that is above itself is looked at once."""
    found: dict[str, str] = {}
    done: set[str] = set()
    while switch and switch not in done:
        done.add(switch)
        found = {**places.get(switch, {}), **found}
        switch = parents.get(switch, "")
    return found


def _mapping(data: object, path: str, where: str) -> dict[Any, Any]:
    if not isinstance(data, dict):
        raise SourceError(path, where, f"expected a mapping, got {type(data).__name__}")
    return data


def _list(data: object, path: str, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise SourceError(path, where, f"expected a list, got {type(data).__name__}")
    return data


def _nodes(listed: object, path: str, where: str) -> list[str]:
    try:
        return [name for item in _list(listed, path, where) for name in hostlist(str(item))]
    except ValueError as error:
        raise SourceError(path, where, str(error)) from error
