"""Order of names with numbers in them. Pure."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts leaf-2 before leaf-10. Numbers are compared as text: Python converts 4,300 digits at most."""
    return tuple(map(_natural, re.findall(r"\d+|\D+", text)))


def _natural(part: str) -> tuple[int, int, str]:
    digits = part.lstrip("0")
    return (0, len(digits), digits) if part.isdecimal() else (1, 0, part)
