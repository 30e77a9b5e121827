"""Quantities as people write them in a configuration: durations `10s`, rates `400Gb/s`. Pure.

A bad one raises ValueError with what was expected; the loader adds the path in the file.
"""

from __future__ import annotations

import re

_DURATION = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE = {"b/s": 1 / 8, "kb/s": 1e3 / 8, "mb/s": 1e6 / 8, "gb/s": 1e9 / 8, "tb/s": 1e12 / 8}

DURATION = r"(?:\d+(?:\.\d+)?\s*(?:ms|s|m|h|d)\s*)+"
RATE = r"\s*(\d+(?:\.\d+)?)\s*([kKmMgGtT]?b/s)\s*"

MOST_TEXT = 64
"""Characters of a quantity: the time to match it rises with their square."""


class Duration(float):
    """Seconds. Written `250ms`, `10s`, `5m`, `2h`, `1d` or joined `1h30m`."""

    @classmethod
    def parse(cls, text: object) -> Duration:
        if isinstance(text, str) and len(text) <= MOST_TEXT:
            found = re.findall(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", text)
            if found and re.fullmatch(DURATION, text.strip()):
                return cls(sum(float(n) * _DURATION[u] for n, u in found))
        raise ValueError(f"expected a duration such as 250ms, 10s, 5m, 2h, 1d, got {repr(text)[:80]}")


class Rate(float):
    """Bytes per second. Written in bits: `400Gb/s`, `25Gb/s`, `100Mb/s`."""

    @classmethod
    def parse(cls, text: object) -> Rate:
        if isinstance(text, str) and len(text) <= MOST_TEXT:
            match = re.fullmatch(RATE, text)
            if match:
                return cls(float(match[1]) * _RATE[match[2].lower()])
        raise ValueError(f"expected a rate such as 400Gb/s or 25Gb/s, got {repr(text)[:80]}")
