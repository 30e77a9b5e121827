"""Parsers of a port's text files: state, rate, identifiers. Pure; ValueError names what was expected.

Formats: docs/methods.md#port-attributes (Linux drivers/infiniband/core/sysfs.c).
"""

from __future__ import annotations

import re

from fabricmon.catalogue.port import PHYS_STATES, PORT_STATES

DOWN, ACTIVE = 1, 4
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec \((\d+)X(?: \w+)?\)")
_IDENTIFIER = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,16}")
_STATE = re.compile(r"(\d+)\b")


def state(text: str) -> float:
    """ "4: ACTIVE" -> 4."""
    return _numbered(text, PORT_STATES, "a port state such as 4: ACTIVE")


def phys_state(text: str) -> float:
    """ "5: LinkUp" -> 5."""
    return _numbered(text, PHYS_STATES, "a physical state such as 5: LinkUp")


def _numbered(text: str, known: dict[int, str], expected: str) -> float:
    found = _STATE.match(text.strip())
    if not found or int(found[1]) not in known:
        raise ValueError(f"expected {expected}, got {text.strip()[:60]!r}")
    return float(found[1])


def rate(text: str) -> tuple[float, float]:
    """ "400 Gb/sec (4X NDR)" -> (bytes a second, lanes)."""
    found = _RATE.fullmatch(text.strip())
    if not found:
        raise ValueError(f"expected a rate such as 400 Gb/sec (4X NDR), got {text.strip()[:60]!r}")
    return float(found[1]) * 1e9 / 8, float(found[2])


def identifier(text: str) -> float:
    """A local identifier: "0x1a" -> 26; it has 32 bits at most."""
    found = _IDENTIFIER.fullmatch(text.strip())
    value = -1 if found is None else int(found[0], 16 if found[0].startswith("0x") else 10)
    if not 0 <= value < 2**32:
        raise ValueError(f"expected a local identifier such as 0x1a, got {text.strip()[:60]!r}")
    return float(value)
