"""Numbers for the names that Ethernet switches give their ports. Pure."""

from __future__ import annotations

import re
import zlib

_PLAIN = re.compile(r"^[A-Za-z _-]*(\d+)$")
_GROUPS = re.compile(r"\d+|[a-h]$")
_MAC = re.compile(r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$", re.IGNORECASE)
_FIRST_ODD = 1 << 30


def is_plain(text: str) -> bool:
    """Does the name tell no more than its number?"""
    return bool(_PLAIN.match(text))


def port_number(text: str) -> int:
    """A number for a switch's own name of a port, the same for the same name.

    One number in it is that number ("Ethernet12", "swp3"); several are joined in thousands, so that a port keeps clear
    of its parts ("swp12s0" 12000, "Ethernet1/12" 1012, "ethernet12a" 12001); a text without any gets one above 2**30.
    """
    if match := _PLAIN.match(text):
        return int(match[1]) % _FIRST_ODD
    groups = [] if _MAC.match(text) else _GROUPS.findall(text)
    if not any(group.isdecimal() for group in groups):
        return _FIRST_ODD + zlib.crc32(text.encode()) % _FIRST_ODD
    number = 0
    for group in groups:
        number = number * 1000 + (int(group) % 1000 if group.isdecimal() else ord(group) - ord("a") + 1)
    return number % _FIRST_ODD
