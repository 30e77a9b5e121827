"""Numbers for the port names of Ethernet switches. Pure."""

from __future__ import annotations

import re
import zlib

PORT_DIGITS = 6
"""Digits of the number of a port."""

_PLAIN = re.compile(rf"^[A-Za-z _-]{{0,64}}(\d{{1,{PORT_DIGITS}}})$")
_GROUPS = re.compile(r"\d+|[a-h]$")
_MAC = re.compile(r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$", re.IGNORECASE)
_FIRST_ODD = 1 << 30


def is_plain(text: str) -> bool:
    """Whether the name is a word and a number ("Ethernet12")."""
    return bool(_PLAIN.match(text))


def port_number(text: str) -> int:
    """A number for a switch's name of a port, the same for the same name.

    One number in it is that number ("Ethernet12", "swp3"); several are joined in thousands, so that a port differs from
    its parts ("swp12s0" 12000, "Ethernet1/12" 1012, "ethernet12a" 12001); a text without any gets one above 2**30.
    """
    if match := _PLAIN.match(text):
        return int(match[1])
    groups = [] if _MAC.match(text) else _GROUPS.findall(text)
    if not any(group.isdecimal() for group in groups):
        return _FIRST_ODD + zlib.crc32(text.encode()) % _FIRST_ODD
    number = 0
    for group in groups:
        here = int(group[-3:]) if group.isdecimal() else ord(group) - ord("a") + 1
        number = (number * 1000 + here) % _FIRST_ODD
    return number
