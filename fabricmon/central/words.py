"""Times and counts as a person reads them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def span(seconds: float) -> str:
    """ "3 s", "12 min", "2 h 5 min", "3 d 4 h": two units at most. Nothing is shorter than "0 s"."""
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
    """How long since: "now" within a second."""
    return "now" if seconds < 1 else f"{span(seconds)} ago"


def clock_time(wall: float) -> str:
    """Wall time in UTC, to the second; "unknown" where it is no time."""
    try:
        return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "unknown"


def count(n: int, word: str) -> str:
    """ "1 node", "2 nodes", "1,024 ports"."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def kind_words(kind: str) -> str:
    """ "link_flapping" -> "link flapping"."""
    return kind.replace("_", " ")


def certainty(confidence: float) -> str:
    """ "97%"; what is not quite certain does not read as certain."""
    if confidence >= 0.995:
        return "over 99%"
    return f"{confidence:.0%}"
