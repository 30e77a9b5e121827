"""Finds the same node in several sources of one fabric. Pure.

Ids first, then GUIDs, then names: a discovery has GUIDs, a cable plan mostly names, in different case
(docs/methods.md#cable-plans). A name of two nodes identifies neither.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from fabricmon.topology.graph import Adapter, Switch
from fabricmon.topology.infer import rail_index, same_family

Key = TypeVar("Key", bound=Hashable)


def short(host: str) -> str:
    """A host name without its domain, in lower case; an address stays whole."""
    head, _, rest = host.partition(".")
    return host.lower() if head.isdecimal() and rest else head.lower()


_CARD = re.compile(r"/([ls])0+(?=\d)")


def switch_key(name: str) -> str:
    """A switch's name for comparisons: in lower case, its card without leading zeros ("/L06" is "/L6")."""
    return _CARD.sub(r"/\1", name.lower())


class Index(Generic[Key]):
    """key -> id; a key that two ids claim leads to none."""

    def __init__(self) -> None:
        self._found: dict[Key, str] = {}
        self._shared: set[Key] = set()

    def put(self, key: Key, node: str) -> None:
        if self._found.setdefault(key, node) != node:
            self._shared.add(key)

    def get(self, key: Key) -> str | None:
        return None if key in self._shared else self._found.get(key)


class KnownNodes:
    """The nodes known so far; finds the one that a node of another source is."""

    def __init__(self) -> None:
        self.switches: dict[str, Switch] = {}
        self.adapters: dict[str, Adapter] = {}
        self._switch_names: Index[str] = Index()
        self._ports: Index[str] = Index()
        self._devices: Index[tuple[str, str]] = Index()
        self._numbers: Index[tuple[str, int]] = Index()
        self._hosts: dict[str, str] = {}

    def add(self, switches: Iterable[Switch], adapters: Iterable[Adapter], hosts: Iterable[str]) -> None:
        for host in hosts:
            self._hosts.setdefault(short(host), host)
        for switch in switches:
            self.switches[switch.id] = switch
            for name in {switch_key(switch.name), switch_key(switch.id)} - {""}:
                self._switch_names.put(name, switch.id)
        for adapter in adapters:
            self.adapters[adapter.id] = adapter
            for label, guid in adapter.labels.items():
                if label == "node_guid" or label.startswith("port_guid"):
                    self._ports.put(guid, adapter.id)
            if adapter.host:
                self._hosts.setdefault(short(adapter.host), adapter.host)
                host = short(adapter.host)
                if adapter.name:
                    self._devices.put((host, adapter.name), adapter.id)
                if (number := rail_index(adapter.name)) is not None:
                    self._numbers.put((host, number), adapter.id)

    def host(self, name: str) -> str:
        """The known spelling of a host's name."""
        return self._hosts.get(short(name), name)

    def switch(self, other: Switch) -> str | None:
        if other.id in self.switches:
            return other.id
        found = self._switch_names.get(switch_key(other.name)) if other.name else None
        return found or self._switch_names.get(switch_key(other.id))

    def adapter(self, other: Adapter) -> str | None:
        if other.id in self.adapters:
            return other.id
        for label in ("port_guid", "node_guid"):
            if (guid := other.labels.get(label)) and (found := self._ports.get(guid)):
                return found
        if not other.host:
            return None
        host = short(other.host)
        if other.name and (found := self._devices.get((host, other.name))):
            return found
        number = rail_index(other.name)
        found = self._numbers.get((host, number)) if number is not None else None
        return found if found is None or same_family(self.adapters[found].name, other.name) else None
