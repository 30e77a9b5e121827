"""Parses node descriptions: host and device of an adapter, name and model of a switch. Descriptions are not keys."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_FACTORY = re.compile(
    r"\bConnect-?[XI]B?\b|ConnectX|Connect-IB|Mellanox Technologies|InfiniHost|InfiniScale|^MT\d{4,}|^ISR\d|"
    r"^Voltaire \d+ - |^Infiniscale|ports switch$|^Quantum(?:-2)? Mellanox",
    re.IGNORECASE,
)
_AGGREGATION = re.compile(r"Aggregation Node\s*$", re.IGNORECASE)
_DEFAULT_HOSTS = frozenset({"localhost", "localhost.localdomain", "(none)", "none"})
_MANAGED = re.compile(r"^MF0;(?P<name>[^:;]+):(?P<model>[^/]+)(?:/(?P<card>[LS]\d+))?(?:/U(?P<asic>\d+))?")


_MOST_LINE = 1 << 12  # characters; the time to match a line rises with their square


def guid(text: str) -> str:
    """An id of any spelling as "0x" and 16 lower-case digits; tools drop leading zeros."""
    digits = text.strip().lower().removeprefix("0x").replace(":", "")
    return f"0x{digits:0>16}"


def guid_number(text: str | None) -> int | None:
    """A GUID in any spelling ("0x0011...", "0011:2233:4455:6677") as a number; None where it is none or zero."""
    if not text:
        return None
    try:
        return int(text.replace(":", ""), 16) or None
    except ValueError:
        return None


def is_aggregation(description: str, device: str = "") -> bool:
    """Whether a channel adapter is the in-network aggregation node (SHARP) of a switch."""
    return device.lower() == "0xcf09" or bool(_AGGREGATION.search(description))


class HostDevice(NamedTuple):
    host: str  # "" unknown
    device: str


def host_device(description: str) -> HostDevice:
    """"node-01 mlx5_0" -> host and device; both "" for factory texts and default host names."""
    words = description.split()
    if not words or _FACTORY.search(description) or words[0].lower() in _DEFAULT_HOSTS or len(words) > 2:
        return HostDevice("", "")
    return HostDevice(words[0], words[1] if len(words) == 2 else "")


class SwitchName(NamedTuple):
    name: str  # "" where the description is the factory's
    model: str
    labels: dict[str, str]  # "box", "card", "asic" of a switch that has several ASICs


def switch_name(description: str) -> SwitchName:
    """"MF0;leaf-01:MQM9700/U1" -> leaf-01, MQM9700; a director's chips get the card and chip in their name."""
    text = description.strip()
    if match := _MANAGED.match(text):
        labels = {"box": match["name"], "card": match["card"] or "", "asic": match["asic"] or ""}
        parts = [match["name"], *([match["card"], f"U{match['asic'] or 1}"] if match["card"] else [])]
        return SwitchName("/".join(parts), match["model"], {key: word for key, word in labels.items() if word})
    if not text or _FACTORY.search(text):
        return SwitchName("", text, {})
    return SwitchName(text, "", {})


@dataclass(frozen=True)
class NodeNames:
    """A node name map: GUID -> name, one `0x00aa… "leaf-01"` or `H-00aa… node-01` a line, # starts a comment."""

    by_guid: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> NodeNames:
        found: dict[str, str] = {}
        for line in text.splitlines():
            if len(line) > _MOST_LINE:
                continue
            match = re.match(r'^\s*(?:[SH]-|0x)?([0-9a-fA-F]{4,16})\s+(?:"([^"]*)"|(\S.*?))\s*(?:#.*)?$', line)
            if match:
                found[guid(match[1])] = (match[2] if match[2] is not None else match[3]).strip()
        return cls(found)

    def get(self, node: str, description: str) -> str:
        return self.by_guid.get(node, description)
