"""Values of the server's answers as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from fabricmon.forms.times import span, wall_time
from fabricmon.terminal.fitted_text import clean

UNKNOWN = "?"
SEVERITIES = ("critical", "warning", "info")
PRESENCES = ("slow", "refused", "unreachable", "cloned", "incompatible", "never")
"""Presence of a node that is not live, as in the API."""
PRESENCE_WORDS = {
    "refused": "agent down", "cloned": "duplicate name", "never": "never seen",
}  # fmt: skip
"""Presence -> its words where they differ."""


def since(text: object, now: float) -> str:
    """Time since, "?" if unknown."""
    at = wall_time(text)
    return UNKNOWN if at is None else span(now - at)


def stamp(text: object) -> str:
    """A time in UTC."""
    at = wall_time(text)
    return UNKNOWN if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def share(ratio: object) -> str:
    """ "43%", "<1%", "?"."""
    if not isinstance(ratio, int | float):
        return UNKNOWN
    return "<1%" if 0 < ratio < 0.005 else f"{ratio:.0%}"


def gigabits(bytes_per_second: object) -> str:
    """ "400 Gb/s"."""
    if not isinstance(bytes_per_second, int | float):
        return UNKNOWN
    return f"{bytes_per_second * 8e-9:g} Gb/s"


def counts(of: Mapping[str, Any], order: Iterable[str]) -> str:
    """ "1 critical, 2 warnings", without zeros."""
    found = []
    for name in order:
        number = of.get(name) or 0
        if number:
            plural = "s" if name == "warning" and number != 1 else ""
            found.append(f"{number:,} {clean(name)}{plural}")
    return ", ".join(found)


def bar(ratio: object, columns: int) -> str:
    """A share as a bar in eighths of a column; dots for an unknown value."""
    if not isinstance(ratio, int | float):
        return "·" * columns
    eighths = round(min(max(float(ratio), 0.0), 1.0) * columns * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")).ljust(columns)
