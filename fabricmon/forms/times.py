"""Times and durations as text, and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def span(seconds: float) -> str:
    """ "3 s", "12 min", "2 h 5 min", "3 d 4 h": at most two units, "0 s" for a negative duration."""
    left = max(0.0, seconds)
    for place, (size, unit) in enumerate(_UNITS):
        if left >= size or unit == "s":
            whole = int(left // size)
            if size < 3600:
                return f"{whole} {unit}"
            below, name = _UNITS[place + 1]
            rest = int((left - whole * size) // below)
            return f"{whole} {unit} {rest} {name}" if rest else f"{whole} {unit}"
    return "0 s"


def ago(seconds: float) -> str:
    """ "3 s ago"; "now" below one second."""
    return "now" if seconds < 1 else f"{span(seconds)} ago"


def clock_time(wall: float) -> str:
    """A wall time in UTC, to the second; "unknown" outside the calendar."""
    try:
        return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "unknown"


def clock_times(walls: Sequence[float]) -> str:
    """Ascending wall times, the date where it changes: "2026-01-31 12:00:00, 12:00:07 UTC"; "" for none."""
    found: list[str] = []
    day = ""
    for wall in walls:
        date, _, rest = clock_time(wall).removesuffix(" UTC").partition(" ")
        found.append(rest if date == day else f"{date} {rest}".strip())
        day = date
    return f"{', '.join(found)} UTC" if found else ""


def rfc3339(wall: float) -> str | None:
    """Seconds since 1970 as "2026-01-31T12:00:00.250Z"; None outside the calendar."""
    try:
        return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def wall_time(text: object) -> float | None:
    """Seconds since 1970 of an ISO 8601 text; None for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None
