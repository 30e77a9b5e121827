"""Who is at the other end of an Ethernet cable, as LLDP says: labels of the port's row.

lldpd is asked by its own program, or its JSON is read from a file. It hears the first switch only. The interface of a
bond or of a virtual function hears nothing, and some adapters' firmware keeps the frames to itself (topologies.md
section 4): no neighbour is no fault.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from fabricmon.collect import physical
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "neighbours"
_MOST_BYTES = 4 << 20
_MOST_TEXT = 128  # characters of one label
_MOST_INTERFACES = 256
_NAMES = ("ifname", "local", "ifalias")  # sorts of port id that are a name; "mac" and "ip" are not


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.neighbours

    enabled     ask for LLDP neighbours at all
    interval    between two reads; the switch tells every 30 s
    deadline    for one read
    rediscover  between two looks for new interfaces
    exclude     interfaces to leave out, with wildcards
    file        file with the JSON of `lldpctl -f json`; "" runs lldpctl where it is installed
    """

    enabled: bool = True
    interval: Duration = Duration(60)
    deadline: Duration = Duration(8)
    rediscover: Duration = Duration(300)
    exclude: tuple[str, ...] = ()
    file: str = ""


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._session = Session(host, config)

    def sessions(self) -> dict[str, Session]:
        return {"": self._session}

    def close(self) -> None:
        pass


class Session:
    """All neighbours of the machine."""

    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._interfaces: list[physical.Interface] = []
        self._parts: tuple[Part, ...] = ()
        self._again = -math.inf

    def read(self) -> Reading:
        now = self._host.monotonic()
        path = self._config.file
        try:
            raw = self._host.read(path, _MOST_BYTES) if path else self._host.interfaces.neighbours()
        except Unsupported:
            return Reading((), array("d"), now)
        try:
            heard = parse(raw)
        except ValueError as error:
            raise HostError(path or "lldpctl -f json", 0, str(error)) from None
        if now >= self._again:
            self._interfaces = physical.interfaces(self._host, self._config.exclude)
            self._again = now + float(self._config.rediscover)
        components, values = [], array("d")
        for interface in self._interfaces:
            mine = heard.get(interface.name, [])
            components.append(Component(interface.row, interface.labels | (mine[0] if mine else {})))
            values.append(float(len(mine)))
        parts: tuple[Part, ...] = ()
        if components:
            period = float(self._config.interval)
            parts = (Part(NAME, Kind.PORT, ("lldp_neighbours",), tuple(components), period),)
        if parts != self._parts:
            self._parts = parts
        return Reading(self._parts, values, now, self._faults(heard))

    def close(self) -> None:
        """Nothing is open."""

    def _faults(self, heard: dict[str, list[dict[str, str]]]) -> tuple[Fault, ...]:
        if len(heard) < _MOST_INTERFACES:
            return ()
        left_out = f"more than {_MOST_INTERFACES} interfaces; the others are left out"
        return (Fault(NAME, "", "lldpctl -f json", left_out),)


def parse(raw: bytes) -> dict[str, list[dict[str, str]]]:
    """Interface -> labels of each neighbour on it, from lldpd's JSON. ValueError for what is no such JSON.

    `interface` is a list where there are several entries and an object where there is one; the switch's name is a key.
    Each neighbour has `lldp_chassis` and `lldp_port` (a name where the switch gives one), and `lldp_chassis_id`.
    """
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    lldp = document.get("lldp") if isinstance(document, dict) else None
    if not isinstance(lldp, dict):
        raise ValueError('no JSON of lldpd: it has no "lldp"')
    found: dict[str, list[dict[str, str]]] = {}
    for name, entry in _entries(lldp.get("interface")):
        if len(found) >= _MOST_INTERFACES and name not in found:
            break
        labels = _labels(entry)
        if labels:
            found.setdefault(name, []).append(labels)
    return found


def _entries(interfaces: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for group in interfaces if isinstance(interfaces, list) else [interfaces]:
        if isinstance(group, dict):
            yield from ((name, entry) for name, entry in group.items() if isinstance(entry, dict))


def _labels(entry: dict[str, Any]) -> dict[str, str]:
    if entry.get("via", "LLDP") != "LLDP":
        return {}  # another discovery protocol's
    chassis, port = entry.get("chassis"), entry.get("port")
    name, about = "", {}
    if isinstance(chassis, dict):
        if isinstance(chassis.get("id"), dict):
            about = chassis  # a switch without a name
        elif chassis:
            name, about = next(iter(chassis.items()))
    found = {
        "lldp_chassis": name or _id(about)[1],
        "lldp_chassis_id": _id(about)[1],
        "lldp_port": _port(port) if isinstance(port, dict) else "",
    }
    return {label: value[:_MOST_TEXT] for label, value in found.items() if value}


def _port(port: dict[str, Any]) -> str:
    kind, value = _id(port)
    described = port.get("descr")
    if kind in _NAMES or not isinstance(described, str):
        return value
    return described or value


def _id(of: Any) -> tuple[str, str]:
    found = of.get("id") if isinstance(of, dict) else None
    if not isinstance(found, dict):
        return "", ""
    return str(found.get("type", "")), str(found.get("value", ""))
