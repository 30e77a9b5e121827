"""Colours by meaning, from the sixteen standard colours of terminals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fabricmon.terminal.fitted_text import wrapped

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
"""Presence of a node -> style; others are `unknown`."""


class Style:
    """Adds the colour of a meaning (a key of CODES) to a text; without `colour` the text is unchanged."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, manner: str = "") -> str:
        if not self.colour or not text or manner not in CODES:
            return text
        return f"\x1b[{CODES[manner]}m{text}\x1b[0m"


class TextView(NamedTuple):
    """style    colours or none
    columns  of the terminal; None: unlimited, for a pipe
    now      time of the server, the end of all ages
    """

    style: Style
    columns: int | None
    now: float

    def inner(self, indent: int = 2) -> int | None:
        """Columns beside an indent."""
        return None if self.columns is None else self.columns - indent

    def section(self, title: str, lines: Iterable[str]) -> Iterator[str]:
        """A blank line, the title and the lines; nothing without lines."""
        if found := list(lines):
            yield from ("", self.style(title, "head"), *found)

    def hanging(self, head: str, indent: int, text: str) -> Iterator[str]:
        """The text wrapped beside `head`, which takes `indent` columns of the first line."""
        for number, line in enumerate(wrapped(text, self.inner(indent))):
            yield f"{' ' * indent if number else head}{line}"


def wanted(choice: str, terminal: bool, environment: Mapping[str, str]) -> bool:
    """Whether to use colour: by `choice` ("always", "never"); "auto": on a terminal with colours, unless NO_COLOR
    is set (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return terminal and not environment.get("NO_COLOR") and environment.get("TERM", "") not in ("", "dumb")
