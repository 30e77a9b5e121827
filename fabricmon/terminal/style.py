"""Colours that mean something, from the sixteen that every terminal has and every theme keeps readable. Pure."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, str] = {
    "critical": "1;31",
    "warning": "33",
    "info": "36",
    "good": "32",
    "unknown": "35",
    "strong": "1",
    "faint": "2",
    "head": "2",
    "chosen": "7",
}

PRESENCE: Mapping[str, str] = {"live": "good", "slow": "warning"}
"""What is not named here is `unknown`."""


class Style:
    """Writes a text in the manner of what it means; without colour it stays as it is."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, manner: str = "") -> str:
        if not self.colour or not text or manner not in CODES:
            return text
        return f"\x1b[{CODES[manner]}m{text}\x1b[0m"


def wanted(choice: str, terminal: bool, environment: Mapping[str, str]) -> bool:
    """Whether to use colour: `choice` "always" or "never" stands over all; "auto" is only on a terminal that can, and
    not where NO_COLOR is set to anything (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return terminal and not environment.get("NO_COLOR") and environment.get("TERM", "") not in ("", "dumb")
