"""LLDP neighbours from the JSON of `lldpctl -f json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabricmon.forms.decoding import any_json

MOST_INTERFACES = 256
_MOST_TEXT = 128  # characters of one label
_FORWARDING = ("Bridge", "Router")
_NAMES = ("ifname", "local", "ifalias")  # sorts of port id that are a name; "mac" and "ip" are not


def parse(raw: bytes) -> dict[str, list[dict[str, str]]]:
    """Interface -> labels of each neighbour on it, those that forward first. ValueError for anything else.

    An interface may receive from its own adapter or another host, too. `interface` is a list for
    several entries and an object for one; the switch's name is a key. Each neighbour has `lldp_chassis` and `lldp_port`
    (a name where the switch gives one), and `lldp_chassis_id`.
    """
    document = any_json(raw)
    lldp = document.get("lldp") if isinstance(document, dict) else None
    if not isinstance(lldp, dict):
        raise ValueError('no JSON of lldpd: it has no "lldp"')
    found: dict[str, list[tuple[bool, dict[str, str]]]] = {}
    for name, entry in _entries(lldp.get("interface")):
        if len(found) >= MOST_INTERFACES and name not in found:
            break
        labels = _labels(entry)
        if labels:
            found.setdefault(name, []).append((_forwards(entry), labels))
    return {
        name: [labels for _, labels in sorted(of, key=lambda each: not each[0])]  # the sort keeps their order
        for name, of in found.items()
    }


def _entries(interfaces: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for group in interfaces if isinstance(interfaces, list) else [interfaces]:
        if isinstance(group, dict):
            yield from ((name, entry) for name, entry in group.items() if isinstance(entry, dict))


def _labels(entry: dict[str, Any]) -> dict[str, str]:
    if entry.get("via", "LLDP") != "LLDP":
        return {}  # another discovery protocol's
    chassis, port = entry.get("chassis"), entry.get("port")
    name, about = _chassis(chassis)
    found = {
        "lldp_chassis": name or _id(about)[1],
        "lldp_chassis_id": _id(about)[1],
        "lldp_port": _port(port) if isinstance(port, dict) else "",
    }
    return {label: value[:_MOST_TEXT] for label, value in found.items() if value}


def _chassis(chassis: Any) -> tuple[str, Any]:
    """Name, "" for none, and fields."""
    if not isinstance(chassis, dict) or not chassis:
        return "", {}
    name, about = next(iter(chassis.items()))
    return ("", chassis) if isinstance(chassis.get("id"), dict) else (name, about)


def _forwards(entry: dict[str, Any]) -> bool:
    """Whether the neighbour states that it is a bridge or router that is in use as one."""
    _, about = _chassis(entry.get("chassis"))
    listed = about.get("capability") if isinstance(about, dict) else None
    return any(
        isinstance(one, dict) and one.get("type") in _FORWARDING and one.get("enabled") is True
        for one in (listed if isinstance(listed, list) else [listed])
    )


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
