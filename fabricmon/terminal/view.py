"""How wide and in which manner something is printed. Pure."""

from __future__ import annotations

from typing import NamedTuple

from fabricmon.terminal.style import Style


class View(NamedTuple):
    """style    colours or none
    columns  of the terminal; None: as wide as it gets, as into a pipe
    now      the centre's time, to which ages are told
    """

    style: Style
    columns: int | None
    now: float
